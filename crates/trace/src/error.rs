//! Errors of reading and replaying a trace.

#![allow(missing_docs, reason = "the messages document the variants")]

use straddle_units::io::Refusal;

use crate::reader::Numbered;

/// A trace that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("{name}: cannot read the trace{}", byte.map(|byte| format!(" from byte {byte} on")).unwrap_or_default())]
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
}

straddle_units::error_kind! {
    TraceError: Failed;
    Self::Line { source, .. } => source.kind(),
    Self::Parquet { source, .. } => source.kind(),
    Self::Table { source, .. } => source.kind(),
    Self::Write { source, .. } => source.kind(),
}

impl TraceError {
    #[cfg(feature = "parquet")]
    pub(crate) fn row(name: &str, line: u64, source: LineError) -> Self {
        Self::Line { name: name.to_owned(), place: Numbered::Row, line, byte: None, source }
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error(
        "unknown trace format: the first line is neither a CSV header (time, op, offset, length) nor a line \
         in any format that --format accepts. For a table with other columns, name them with --columns"
    )]
    Unknown,
    #[error("the trace is not in {format} format")]
    NotBinary { format: &'static str },
    #[error(
        "a Parquet file has its metadata in a footer, so it cannot be read from a pipe or a compressed file"
    )]
    Piped,
    #[error("the trace ends inside this record")]
    Cut,
    #[error("the record starts with {magic:#010x}, which is not the magic number of blktrace version 7")]
    Magic { magic: u32 },
    #[error(transparent)]
    Columns(TableError),
    #[error("the field {column} is missing, because the line has too few fields ({fields})")]
    Missing { column: &'static str, fields: usize },
    #[error("{column} = {value:?}: {reason}")]
    Field { column: &'static str, value: String, reason: &'static str },
    #[error("the line is longer than {limit} bytes; no known trace format has lines that long")]
    Long { limit: usize },
    #[error("the trace has more than {most} volumes; check the volume column")]
    Volumes { most: usize },
    #[error("the volume name is longer than {limit} bytes")]
    LongName { limit: usize },
    #[error("byte {offset}, length {length}: the request extends past the end of any possible disk")]
    TooFar { offset: u64, length: u64 },
    #[error(
        "the file is not UTF-8 text; it is binary, or compressed by a program other than gzip, zstd and xz"
    )]
    NotText,
    #[error(
        "byte {offset}, length {length}: the request extends past the end of the drive (byte {capacity}). To \
         wrap such requests around to the start, use --wrap"
    )]
    PastEnd { offset: u64, length: u64, capacity: u64 },
    #[error(transparent)]
    Refused(Refusal),
}

straddle_units::error_kind!(LineError: Failed);

/// What is wrong with a Parquet file.
#[derive(Debug, thiserror::Error)]
pub enum ParquetError {
    #[cfg(not(feature = "parquet"))]
    #[error("this build of straddle lacks the 'parquet' feature")]
    NotBuilt,
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Invalid(parquet::errors::ParquetError),
    #[error(transparent)]
    Table(TableError),
    #[error("{what} has {bytes} bytes, which is more than the limit of {most}")]
    Large { what: &'static str, bytes: u64, most: u64 },
    #[error("the row group declares {claimed} rows, but has {found}")]
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
pub enum TableError {
    #[error(
        "there is no column {column:?}; name the right one with --columns. The columns in the file are: \
         {present}"
    )]
    NoColumn { column: String, present: String },
    #[error("two columns match {column:?}; choose one with --columns")]
    TwoColumns { column: &'static str },
    #[error("a batch has {found} columns, but the schema has {expected}")]
    Batch { found: usize, expected: usize },
    #[error("the column {column:?} is of type {kind}, which cannot be read as {what}")]
    Type { column: String, kind: String, what: &'static str },
}

straddle_units::error_kind!(TableError: Failed);

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Parquet(Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "fio's log must be in chronological order, but request {line} is earlier than the one before it; \
         sort the trace by time"
    )]
    Backwards { line: u64 },
    #[error("the volume name {name:?} cannot be written: {why}")]
    Name { why: &'static str, name: String },
}

straddle_units::error_kind!(WriteError: Failed);

#[cfg(feature = "parquet")]
impl From<parquet::errors::ParquetError> for WriteError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Parquet(Box::new(error))
    }
}
