//! Errors of reading and replaying a trace.

use straddle_units::io::Refusal;

use crate::reader::Numbered;

/// A trace that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TraceError {
    #[error("{name}: cannot read the trace{}", byte.map(|byte| format!(" from byte {byte} of its contents on")).unwrap_or_default())]
    Read { name: String, byte: Option<u64>, source: std::io::Error },
    #[error("{name}{}", place.of(*line, *byte))]
    Line { name: String, place: Numbered, line: u64, byte: Option<u64>, source: LineError },
    #[error("{name}: cannot read the Parquet file")]
    Parquet { name: String, source: ParquetError },
    #[error("{name}: cannot read the table")]
    Table { name: String, source: TableError },
    #[error("{name}: the trace has no times")]
    NoTimes { name: String },
    #[error("{name}: cannot write the trace")]
    Write { name: String, source: WriteError },
    #[error(
        "{name}: each request follows the completion of the one before, so there is never more than one; a queue depth of {depth} needs the open loop"
    )]
    Depth { name: String, depth: u32 },
}

straddle_units::error_kind! {
    TraceError: Failed;
    Self::Line { source, .. } => source.kind(),
    Self::Parquet { source, .. } => source.kind(),
    Self::Table { source, .. } => source.kind(),
    Self::Write { source, .. } => source.kind(),
    Self::Depth { .. } => Usage,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LineError {
    #[error(
        "the first line is of no known trace format: neither a CSV header (time, op, offset, length) nor another that --format lists; --columns tells where the columns of another table are"
    )]
    Unknown,
    #[error("it is not in the format {format}")]
    NotBinary { format: &'static str },
    #[error("a Parquet file ends with its directory, so it cannot be read from a pipe or from a packed file")]
    Piped,
    #[error("the trace ends inside this record")]
    Cut,
    #[error("its first four bytes are {magic:#010x}: no record of blktrace's version 7 begins so")]
    Magic { magic: u32 },
    #[error(transparent)]
    Columns(TableError),
    #[error("the field {column} is missing: the line has {fields}")]
    Missing { column: &'static str, fields: usize },
    #[error("{column} = {value:?}: {reason}")]
    Field { column: &'static str, value: String, reason: &'static str },
    #[error("longer than {limit} bytes: no known format of traces has such lines")]
    Long { limit: usize },
    #[error("more than {most} volumes: is this the column of the volume?")]
    Volumes { most: usize },
    #[error("the volume's name is longer than {limit} bytes")]
    LongName { limit: usize },
    #[error("byte {offset}, length {length}: past the end of any disk")]
    TooFar { offset: u64, length: u64 },
    #[error(
        "not text (UTF-8): a binary file, or one that is packed with something else than gzip, zstd or xz"
    )]
    NotText,
    #[error(
        "byte {offset}, length {length}: past the end of the drive at byte {capacity}; --wrap brings it back to the beginning"
    )]
    PastEnd { offset: u64, length: u64, capacity: u64 },
    #[error(transparent)]
    Refused(Refusal),
}

straddle_units::error_kind!(LineError: Failed);

/// What is wrong with a Parquet file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ParquetError {
    #[cfg(not(feature = "parquet"))]
    #[error("this straddle was built without the feature 'parquet'")]
    NotBuilt,
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Invalid(parquet::errors::ParquetError),
    #[error(transparent)]
    Table(TableError),
    #[error("{what} has {bytes} bytes, and no more than {most} are read")]
    Large { what: &'static str, bytes: u64, most: u64 },
    #[error("the row group says that it has {claimed} rows, and has {found}")]
    Rows { claimed: u64, found: u64 },
    #[error("the file is damaged: {why}")]
    Damaged { why: String },
}

straddle_units::error_kind! {
    ParquetError: Failed;
    Self::Table(source) => source.kind(),
}

/// What is wrong with the columns of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TableError {
    #[error(
        "there is no column {column:?}; the map of columns (--columns) says which one it is. There are: {present}"
    )]
    NoColumn { column: String, present: String },
    #[error("there are two columns for {column:?}; the map of columns (--columns) says which one it is")]
    TwoColumns { column: &'static str },
    #[error("a batch of it has {found} columns, and not {expected} as its schema")]
    Batch { found: usize, expected: usize },
    #[error("the column {column:?} is of type {kind}, which cannot be read as {what}")]
    Type { column: String, kind: String, what: &'static str },
}

straddle_units::error_kind!(TableError: Failed);

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WriteError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Parquet(Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "fio's log is in the order of time, and request {line} is earlier than the one before it; sort the trace"
    )]
    Backwards { line: u64 },
    #[error("the volume's name {name:?} cannot be written: {why}")]
    Name { why: &'static str, name: String },
}

straddle_units::error_kind!(WriteError: Failed);

#[cfg(feature = "parquet")]
impl From<parquet::errors::ParquetError> for WriteError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Parquet(Box::new(error))
    }
}
