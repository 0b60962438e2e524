//! Measures files and block devices, in real time.
//!
//! A target is left as it was. Every write contains the bytes that were read from its place before the first write; a
//! journal on another file holds them too until the end. Other contents are written only to a file that was made for
//! the measurement, or to a target that was named twice. Nothing is written outside the areas that a survey found, or
//! beyond the target's end; both are checked last before the system call. The holes of a sparse file are holes again
//! at the end. What other processes have written is not overwritten, unless the owner agrees.
//!
//! The types enforce this. [`Prepared`] finds the areas within what an [`Intent`] allows, and is the only way
//! to a target. Contents that are to stay are written through a session, which has a journal:
//!
//! ```
//! # use std::{path::Path, sync::Arc};
//! # use straddle_units::io::Request;
//! # use straddle_measure::real::{Contents, Intent, Io, Prepared, Saved, Scope, Settings};
//! fn measure(request: Request) -> Result<(), Box<dyn std::error::Error>> {
//!     let intent = Intent {
//!         path: Path::new("/dev/sdb"),
//!         contents: Contents::Preserved(Scope::FreeSpace, Saved::AtOnce),
//!         io: Io::Direct,
//!         regions: Some(8),
//!         bytes: 256 << 20,
//!         seed: 1,
//!         settings: Settings { depth: 1, largest: 4096 },
//!         journals: "/var/lib/straddle".into(),
//!     };
//!     let mut prepared = Prepared::open(&intent, &Arc::default())?;
//!     prepared.surface().submit(request)?;
//!     let (finished, verdict) = prepared.end()?;
//!     println!("{}: {:?}", finished.description().name, verdict.and_then(|verdict| verdict.refusal()));
//!     Ok(())
//! }
//! ```
//!
//! Nothing is written after its end:
//!
//! ```compile_fail,E0382
//! # use straddle_units::io::Request;
//! # use straddle_measure::real::Prepared;
//! fn late(mut prepared: Prepared, request: Request) {
//!     prepared.end().unwrap();
//!     prepared.surface().submit(request).unwrap();
//! }
//! ```

#[cfg(test)]
#[path = "../../../tests/tools/skip.rs"]
mod skip;

mod area;
mod conditions;
mod journal;
mod memory;
mod moment;
mod open;
mod others;
mod prepared;
mod ring;
mod session;
mod target;

pub use area::AreaError;
pub use journal::{JournalError, LaterWrites, Restored, left, restore};
pub use moment::format_moment;
pub use open::{Io, OpenError};
pub use prepared::{Contents, Finished, Intent, Made, Prepared, Saved, Scope};
pub use session::{SessionError, Verdict, describe_spans};
pub use target::{RealError, Settings};
