//! Files and block devices, measured by the wall's clock.
//!
//! The law of this crate: a target is left as it was. Every write puts back the bytes that were read from its place before
//! the first one, which a journal on another file holds as well until the end ([`Session`]); only a file that was made for the
//! measurement, or a device that its owner has given up by name, is written with anything else ([`Real::given_up`]). Nothing is
//! written outside the areas that were given, and the check of that is the last thing before the system call. What others
//! have written meanwhile is theirs: nothing is put back over it unless its owner says so.

mod area;
mod conditions;
mod error_kind;
mod journal;
mod memory;
mod moment;
mod open;
mod others;
mod ring;
mod session;
mod sync;
mod target;

pub use area::{AreaError, Areas, Give, areas};
pub use conditions::{Before, Conditions};
pub use journal::{JournalError, Lacks, Left, Restored, Settled, Unrestored, left, restore, unrestored};
pub use open::{Access, Io, Kind, OpenError, Opened};
pub use session::{Claimed, Session, SessionError, Verdict, told_spans};
pub use target::{Real, RealError, Settings};
