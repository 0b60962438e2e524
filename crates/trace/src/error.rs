//! Errors of reading and replaying a trace.

use straddle_units::io::Refusal;

use crate::reader::Numbered;

/// A trace that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("{name}: cannot read the trace{}", byte.map(|byte| format!(" from byte {byte} of its contents on")).unwrap_or_default())]
    Read {
        /// The trace's name.
        name: String,
        /// How many bytes have been read, of a packed file of its contents; `None` if it was not begun.
        byte: Option<u64>,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A line of the trace, or a record of one that is not text, is invalid.
    #[error("{name}{}", place.of(*line, *byte))]
    Line {
        /// The trace's name.
        name: String,
        /// What is counted.
        place: Numbered,
        /// The number of the line or record, from 1.
        line: u64,
        /// The place of its first byte in the trace, as far as it is known. Of a packed trace it is that in its
        /// contents.
        byte: Option<u64>,
        /// What is wrong with it.
        source: LineError,
    },
    /// A Parquet file is not one, or has no such columns.
    #[error("{name}: cannot read the Parquet file")]
    Parquet {
        /// The trace's name.
        name: String,
        /// What is wrong with it.
        source: ParquetError,
    },
    /// A table in memory has no such columns.
    #[error("{name}: cannot read the table")]
    Table {
        /// What the table is called.
        name: String,
        /// What is wrong with it.
        source: TableError,
    },
    /// A trace without times was to be read with them.
    #[error("{name}: the trace has no times")]
    NoTimes {
        /// The trace's name.
        name: String,
    },
    /// A trace could not be written.
    #[error("{name}: cannot write the trace")]
    Write {
        /// The name of the file.
        name: String,
        /// What is wrong.
        source: WriteError,
    },
    /// More than one request in flight was asked for, but in the closed loop of this trace each request waits
    /// for the one before it.
    #[error(
        "{name}: each request follows the completion of the one before, so there is never more than one; a queue depth of {depth} needs the open loop"
    )]
    Depth {
        /// The trace's name.
        name: String,
        /// The queue depth that was asked for.
        depth: u32,
    },
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
pub enum LineError {
    /// The first line fits no known format.
    #[error(
        "the first line is of no known trace format: neither a CSV header (time, op, offset, length) nor another that --format lists; --columns tells where the columns of another table are"
    )]
    Unknown,
    /// The trace is not in the format that was asked for.
    #[error("it is not in the format {format}")]
    NotBinary {
        /// The format's name.
        format: &'static str,
    },
    /// A Parquet file in a pipe or packed file.
    #[error("a Parquet file ends with its directory, so it cannot be read from a pipe or from a packed file")]
    Piped,
    /// A record of a binary trace is cut off.
    #[error("the trace ends inside this record")]
    Cut,
    /// A record of blktrace does not begin as one.
    #[error("its first four bytes are {magic:#010x}: no record of blktrace's version 7 begins so")]
    Magic {
        /// The bytes.
        magic: u32,
    },
    /// A required column is missing.
    #[error("the header has no column {column:?}; it needs time, op, offset and length, or --columns")]
    NoColumn {
        /// Its name.
        column: &'static str,
    },
    /// Two columns hold the same quantity.
    #[error("the header has two columns for {column:?}")]
    TwoColumns {
        /// The quantity.
        column: &'static str,
    },
    /// `--columns` names a column that the header does not have.
    #[error("the header has no column {name:?}; it has {present}")]
    NoSuchColumn {
        /// The name.
        name: String,
        /// The columns of the header, cut to 200 characters.
        present: String,
    },
    /// A line with too few fields.
    #[error("the field {column} is missing: the line has {fields}")]
    Missing {
        /// Its name.
        column: &'static str,
        /// How many fields the line has.
        fields: usize,
    },
    /// A field has an impossible value.
    #[error("{column} = {value:?}: {reason}")]
    Field {
        /// The column of the field.
        column: &'static str,
        /// The field's text, cut to 40 characters.
        value: String,
        /// Why it is impossible.
        reason: &'static str,
    },
    /// The line is too long to be part of a trace.
    #[error("longer than {limit} bytes: no known format of traces has such lines")]
    Long {
        /// Bytes of the longest line that is read.
        limit: usize,
    },
    /// More volumes than any trace has.
    #[error("more than {most} volumes: is this the column of the volume?")]
    Volumes {
        /// The most volumes of a trace.
        most: usize,
    },
    /// The name of a volume is too long to be one.
    #[error("the volume's name is longer than {limit} bytes")]
    LongName {
        /// The longest name in bytes.
        limit: usize,
    },
    /// The request extends past the last byte that 64 bits can name.
    #[error("byte {offset}, length {length}: past the end of any disk")]
    TooFar {
        /// Its first byte.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Not UTF-8.
    #[error(
        "not text (UTF-8): a binary file, or one that is packed with something else than gzip, zstd or xz"
    )]
    NotText,
    /// The request extends past the end of the drive.
    #[error(
        "byte {offset}, length {length}: past the end of the drive at byte {capacity}; --wrap brings it back to the beginning"
    )]
    PastEnd {
        /// Its first byte, including the shift.
        offset: u64,
        /// Its length in bytes.
        length: u64,
        /// Size of the drive in bytes.
        capacity: u64,
    },
    /// The drive model refuses the request.
    #[error(transparent)]
    Refused(Refusal),
}

straddle_units::error_kind!(LineError: Failed);

/// What is wrong with a Parquet file.
#[derive(Debug, thiserror::Error)]
pub enum ParquetError {
    /// This program was built without Parquet.
    #[cfg(not(feature = "parquet"))]
    #[error("this straddle was built without the feature 'parquet'")]
    NotBuilt,
    /// The file is damaged, or uses what is not supported.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Invalid(parquet::errors::ParquetError),
    /// It has no such columns.
    #[error(transparent)]
    Table(TableError),
    /// A part of it would take too much memory.
    #[error("{what} has {bytes} bytes, and no more than {most} are read")]
    Large {
        /// The part.
        what: &'static str,
        /// Its bytes, unpacked.
        bytes: u64,
        /// The most that is read.
        most: u64,
    },
    /// A row group has another number of rows than the file's directory says.
    #[error("the row group says that it has {claimed} rows, and has {found}")]
    Rows {
        /// Rows by the directory.
        claimed: u64,
        /// Rows by the pages, as far as they were read.
        found: u64,
    },
    /// What the file has cannot be decoded.
    #[error("the file is damaged: {why}")]
    Damaged {
        /// Where decoding gave up.
        why: String,
    },
}

straddle_units::error_kind! {
    ParquetError: Failed;
    Self::Table(source) => source.kind(),
}

/// What is wrong with the columns of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A required column is missing.
    #[error(
        "there is no column {column:?}; the map of columns (--columns) says which one it is. There are: {present}"
    )]
    NoColumn {
        /// The quantity, or the name that was given.
        column: String,
        /// The columns of the table, cut to 200 characters.
        present: String,
    },
    /// Two columns hold the same quantity.
    #[error("there are two columns for {column:?}; the map of columns (--columns) says which one it is")]
    TwoColumns {
        /// The quantity.
        column: &'static str,
    },
    /// A batch does not have the columns of the table.
    #[error("a batch of it has {found} columns, and not {expected} as its schema")]
    Batch {
        /// Columns of the batch.
        found: usize,
        /// Columns of the table's schema.
        expected: usize,
    },
    /// A column's type cannot be that of its quantity.
    #[error("the column {column:?} is of type {kind}, which cannot be read as {what}")]
    Type {
        /// The column's name.
        column: String,
        /// Its type.
        kind: String,
        /// The quantity.
        what: &'static str,
    },
}

straddle_units::error_kind!(TableError: Failed);

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The Parquet file could not be made.
    #[error(transparent)]
    Parquet(Box<dyn std::error::Error + Send + Sync>),
    /// fio's log has times that never go back.
    #[error(
        "fio's log is in the order of time, and request {line} is earlier than the one before it; sort the trace"
    )]
    Backwards {
        /// The request, counted from 1.
        line: u64,
    },
    /// fio's log separates fields with blanks, and CSV is read back without quotes and blanks around a field.
    #[error("the volume's name {name:?} cannot be written: {why}")]
    Name {
        /// What is wrong with it.
        why: &'static str,
        /// The name.
        name: String,
    },
}

straddle_units::error_kind!(WriteError: Failed);

#[cfg(feature = "parquet")]
impl From<parquet::errors::ParquetError> for WriteError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::Parquet(Box::new(error))
    }
}
