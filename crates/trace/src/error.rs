//! Errors of reading and replaying a trace.

use straddle_io::Refusal;

/// A trace that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("{name}: cannot read the trace")]
    Read {
        /// The trace's name.
        name: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A line of the trace is invalid.
    #[error("{name}:{line}")]
    Line {
        /// The trace's name.
        name: String,
        /// The line number, from 1.
        line: u64,
        /// What is wrong with it.
        source: LineError,
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

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The first line fits no known format.
    #[error(
        "the first line is of no known trace format: neither a CSV header (time, op, offset, length) nor another that --format lists"
    )]
    Unknown,
    /// A required column is missing.
    #[error("the header has no column {column:?}; it needs time, op, offset and length")]
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
    /// A line with too few fields.
    #[error("there is no {column}: only {fields} fields")]
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
    #[error("longer than {limit} bytes: no trace has such lines")]
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
    #[error("not text")]
    NotText,
    /// The request arrives before the one on the line above.
    #[error("it arrives before the request above it; sort the trace by time")]
    Backwards,
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
