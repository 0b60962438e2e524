//! Block traces: reading them, counting what they do to units, and replaying them on modelled drives.
//!
//! Invariants: a trace is read while it is counted or replayed, so memory use does not depend on its length. Every
//! error names the file, and the line if it concerns one. The same trace on the same drive gives the same report on
//! every machine.

mod account;
mod blktrace;
mod coalesce;
#[cfg(feature = "parquet")]
mod columnar;
mod columns;
mod error;
pub mod form;
mod format;
mod histogram;
mod origin;
mod reader;
mod record;
mod recorder;
mod replay;
mod scan;
mod stored;
#[cfg(feature = "parquet")]
mod tables;
mod text;
pub mod tracefs;
mod write;

#[cfg(test)]
extern crate self as straddle_trace;
#[cfg(test)]
#[path = "../tests/trace/mod.rs"]
mod tests;

pub use account::{Account, Each, Share, Volume};
pub use coalesce::{Coalesced, Window};
pub use columns::{Columns, ColumnsError};
pub use error::{LineError, ParquetError, TableError, TraceError, WriteError};
pub use format::{Event, Format, How};
pub use histogram::{Class, Count, Effect, Effects, Histogram, SECTOR, Size, UNITS};
pub use origin::{About, Origin, Partition, Recorded};
pub use reader::{Input, Numbered, Reader, Recording, unpacked};
pub use record::Record;
pub use recorder::{Asked, Happened, Marks, Recorder};
pub use replay::{Finished, OPEN_DEPTH, Options, Pace, Replayed, Replays, replay, replay_volumes};
pub use stored::StoredError;
#[cfg(feature = "parquet")]
pub use tables::Tables;
pub use write::{Target, Writer, Written};
