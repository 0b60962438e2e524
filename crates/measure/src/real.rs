//! Measures files and block devices, in real time.
//!
//! Invariants: a target is left as it was. Every write contains the bytes that were read from its
//! place before the first write; a journal on another file holds them too until the end ([`Session`]). Other
//! contents are written only to a file that was made for the measurement, or to a target that was named twice
//! ([`GivenUp`]). Nothing is written outside the areas that a survey found, or beyond the target's end; both
//! are checked last before the system call. The holes of a sparse file are holes again at the end. What other processes have written meanwhile is not overwritten,
//! unless the owner agrees.
//!
//! The types enforce this. Contents that are to stay are written through a session, which has a journal:
//!
//! ```
//! # use std::{path::Path, sync::Arc};
//! # use straddle_measure::bench::Target;
//! # use straddle_units::io::Request;
//! # use straddle_measure::real::{Areas, Claimed, Io, Saved, Scope, Session, Settings};
//! fn measure(request: Request) -> Result<(), Box<dyn std::error::Error>> {
//!     let claimed = Claimed::open(Path::new("/dev/sdb"), Scope::FreeSpace, Io::Direct)?;
//!     let surveyed = claimed.survey(Areas { regions: 8, bytes: 256 << 20 })?;
//!     let (journals, settings) = (Path::new("/var/lib/straddle"), Settings { depth: 1, largest: 4096 });
//!     let mut session =
//!         Session::begin(surveyed, "".into(), Saved::AtOnce, journals, settings, Arc::default())?;
//!     session.submit(request)?;
//!     let (finished, verdict) = session.end()?;
//!     println!("{} requests: {:?}", finished.sent(), verdict.refusal());
//!     Ok(())
//! }
//! ```
//!
//! A session requires a journal:
//!
//! ```compile_fail,E0061
//! # use std::sync::Arc;
//! # use straddle_measure::real::{Saved, Session, SessionError, Settings, Surveyed};
//! fn begin(surveyed: Surveyed, settings: Settings) -> Result<Session, SessionError> {
//!     Session::begin(surveyed, "".into(), Saved::AtOnce, settings, Arc::default())
//! }
//! ```
//!
//! Its areas are those that were found in the scope of the claim, and no others:
//!
//! ```compile_fail,E0451
//! # use straddle_measure::real::{Claimed, Surveyed};
//! # use straddle_units::Span;
//! fn anywhere(claimed: Claimed, areas: Vec<Span>) -> Surveyed {
//!     Surveyed { claimed, areas }
//! }
//! ```
//!
//! Nothing is written after its end, neither through the session nor through the [`Finished`] target:
//!
//! ```compile_fail,E0382
//! # use straddle_measure::bench::Target;
//! # use straddle_units::io::Request;
//! # use straddle_measure::real::Session;
//! fn late(mut session: Session, request: Request) {
//!     session.end().unwrap();
//!     session.submit(request).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use straddle_measure::bench::Target;
//! # use straddle_units::io::Request;
//! # use straddle_measure::real::Session;
//! fn late(session: Session, request: Request) {
//!     let (mut finished, _) = session.end().unwrap();
//!     finished.submit(request).unwrap();
//! }
//! ```
//!
//! A target claimed with its contents preserved cannot be overwritten, and its file is not accessible:
//!
//! ```
//! # use std::sync::Arc;
//! # use straddle_measure::real::{GivenUp, Real, Settings};
//! fn destroy(given_up: GivenUp, settings: Settings) -> Result<Real, Box<dyn std::error::Error>> {
//!     Ok(Real::given_up(given_up.survey(8)?, "".into(), 1, settings, Arc::default())?)
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use std::sync::Arc;
//! # use straddle_measure::real::{Areas, Claimed, Real, Settings};
//! fn destroy(claimed: Claimed, settings: Settings) -> Result<Real, Box<dyn std::error::Error>> {
//!     let surveyed = claimed.survey(Areas { regions: 8, bytes: 256 << 20 })?;
//!     Ok(Real::given_up(surveyed, "".into(), 1, settings, Arc::default())?)
//! }
//! ```
//!
//! Nor can the areas of one that may be overwritten be chosen freely:
//!
//! ```compile_fail,E0451
//! # use straddle_measure::real::{GivenUp, Overwritable};
//! # use straddle_units::Span;
//! fn anywhere(given_up: GivenUp, areas: Vec<Span>) -> Overwritable {
//!     Overwritable { given_up, areas }
//! }
//! ```
//!
//! ```compile_fail,E0616
//! # use straddle_measure::real::Claimed;
//! fn file(claimed: &Claimed) -> &std::fs::File {
//!     &claimed.opened().file
//! }
//! ```
//!
//! ```compile_fail,E0616
//! # use std::path::Path;
//! # use straddle_measure::real::{Io, OpenError, Opened};
//! fn larger(path: &Path) -> Result<Opened, OpenError> {
//!     let mut opened = Opened::for_reading(path, Io::Direct)?;
//!     opened.size *= 2;
//!     Ok(opened)
//! }
//! ```
//!
//! ```compile_fail,E0624
//! # use straddle_measure::real::Claimed;
//! fn take(claimed: Claimed) {
//!     claimed.opened().write_inside(&[0; 512], 0).unwrap();
//! }
//! ```

#[cfg(test)]
#[path = "../../../tests/tools/skip.rs"]
mod skip;

mod area;
mod claimed;
mod conditions;
mod finished;
mod holes;
mod journal;
mod lookout;
mod memory;
mod moment;
mod open;
mod others;
mod prepared;
mod ring;
mod serial;
mod session;
mod target;

pub use area::{AreaError, Areas};
pub use claimed::{Claimed, GivenUp, Made, Overwritable, Scope, Surveyed, check_given_up};
pub use conditions::{Before, Conditions};
pub use finished::Finished;
pub use journal::{
    JournalError, Lacks, LaterWrites, Left, Restored, Settled, Unrestored, left, restore, unrestored,
};
pub use open::{Io, Kind, OpenError, Opened, extent};
pub use prepared::{Contents, DeviceClaims, Intent, PrepareError, Prepared, Preserved, Preserving};
pub use session::{Saved, Session, SessionError, Verdict, describe_spans};
pub use target::{Real, RealError, Settings};
