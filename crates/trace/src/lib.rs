//! Block traces: reading them, and replaying them on modelled drives.
//!
//! The law of this crate: a trace is read as it is replayed, so that memory does not depend on its length; every error
//! names the file and the line; and the same trace on the same drive gives the same report on every machine.

mod error;
mod error_kind;
mod format;
mod reader;
mod replay;

pub use error::{LineError, TraceError};
pub use format::Format;
pub use reader::{Reader, Record};
pub use replay::{Finished, OPEN_DEPTH, Options, Pace, Replayed, replay};
