//! Files and block devices, measured by the wall's clock.
//!
//! The law of this crate: a target is left as it was. Every write puts back the bytes that were read from its place before
//! the first one, which a journal on another file holds as well until the end ([`Session`]); only a file that was made for the
//! measurement, or a device that its owner has given up by name, is written with anything else ([`Real::given_up`]). Nothing is
//! written outside the areas that were given, and the check of that is the last thing before the system call. What others
//! have written meanwhile is theirs: nothing is put back over it unless its owner says so.
//!
//! The types hold it. What is to stay is written through a session, which has a journal:
//!
//! ```
//! # use std::{path::Path, sync::Arc};
//! # use straddle_bench::Target;
//! # use straddle_io::Request;
//! # use straddle_real::{Claimed, Scope, Io, Session, Settings};
//! # use straddle_units::Span;
//! fn measure(areas: &[Span], request: Request) -> Result<(), Box<dyn std::error::Error>> {
//!     let claimed = Claimed::open(Path::new("/dev/sdb"), Scope::Preserve, Io::Direct)?;
//!     let (journals, settings) = (Path::new("/var/lib/straddle"), Settings { depth: 1, largest: 4096 });
//!     let mut session = Session::begin(claimed, "".into(), areas, journals, settings, Arc::default())?;
//!     session.submit(request)?;
//!     let (finished, verdict) = session.end()?;
//!     println!("{} requests: {:?}", finished.sent(), verdict.refusal());
//!     Ok(())
//! }
//! ```
//!
//! There is none without a journal:
//!
//! ```compile_fail,E0061
//! # use std::sync::Arc;
//! # use straddle_real::{Claimed, Session, SessionError, Settings};
//! # use straddle_units::Span;
//! fn begin(claimed: Claimed, areas: &[Span], settings: Settings) -> Result<Session, SessionError> {
//!     Session::begin(claimed, "".into(), areas, settings, Arc::default())
//! }
//! ```
//!
//! Nothing is written once it has ended, by the session or by what is left of it:
//!
//! ```compile_fail,E0382
//! # use straddle_bench::Target;
//! # use straddle_io::Request;
//! # use straddle_real::Session;
//! fn late(mut session: Session, request: Request) {
//!     session.end().unwrap();
//!     session.submit(request).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use straddle_bench::Target;
//! # use straddle_io::Request;
//! # use straddle_real::Session;
//! fn late(session: Session, request: Request) {
//!     let (mut finished, _) = session.end().unwrap();
//!     finished.submit(request).unwrap();
//! }
//! ```
//!
//! What was claimed to be kept is not given up, and its file is not given away:
//!
//! ```
//! # use std::sync::Arc;
//! # use straddle_real::{GivenUp, Real, RealError, Settings};
//! # use straddle_units::Span;
//! fn destroy(given_up: GivenUp, areas: Vec<Span>, settings: Settings) -> Result<Real, RealError> {
//!     Real::given_up(given_up, "".into(), (areas, 1), settings, Arc::default())
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use std::sync::Arc;
//! # use straddle_real::{Claimed, Real, RealError, Settings};
//! # use straddle_units::Span;
//! fn destroy(claimed: Claimed, areas: Vec<Span>, settings: Settings) -> Result<Real, RealError> {
//!     Real::given_up(claimed, "".into(), (areas, 1), settings, Arc::default())
//! }
//! ```
//!
//! ```compile_fail,E0616
//! # use straddle_real::Claimed;
//! fn file(claimed: &Claimed) -> &std::fs::File {
//!     &claimed.opened().file
//! }
//! ```
//!
//! ```compile_fail,E0624
//! # use straddle_real::Claimed;
//! fn take(claimed: Claimed) {
//!     claimed.opened().write_inside(&[0; 512], 0).unwrap();
//! }
//! ```

mod area;
mod conditions;
mod error_kind;
mod finished;
mod journal;
mod lookout;
mod memory;
mod moment;
mod open;
mod others;
mod ring;
mod session;
mod sync;
mod target;

pub use area::{AreaError, Areas, Scope, areas};
pub use conditions::{Before, Conditions};
pub use finished::Finished;
pub use journal::{JournalError, Lacks, Left, Restored, Settled, Unrestored, left, restore, unrestored};
pub use open::{Io, Kind, OpenError, Opened};
pub use session::{Claimed, GivenUp, Session, SessionError, Verdict, told_spans};
pub use target::{Real, RealError, Settings};
