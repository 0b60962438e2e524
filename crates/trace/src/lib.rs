//! Block traces: reading them, and replaying them on modelled drives.
//!
//! The law of this crate: a trace is read while it is replayed, so memory use does not depend on its length.
//! Every error names the file, and the line if it concerns one. The same trace on the same drive gives the
//! same report on every machine.

mod account;
mod error;
mod error_kind;
mod format;
mod histogram;
mod packed;
mod reader;
mod replay;
mod volumes;

pub use account::{Account, Share, Volume};
pub use error::{LineError, TraceError};
pub use format::Format;
pub use histogram::{Class, Count, Effect, Effects, Histogram, SECTOR, UNITS};
pub use packed::unpacked;
pub use reader::{Order, Reader, Record};
pub use replay::{Finished, OPEN_DEPTH, Options, Pace, Replayed, replay};
