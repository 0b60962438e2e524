//! What is wrong with a trace, and where.

use straddle_io::Refusal;

/// A trace that cannot be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("{name}: cannot read the trace")]
    Read {
        /// The trace's name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("{name}:{line}")]
    Line {
        /// The trace's name.
        name: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        source: LineError,
    },
    /// One request at a time, each so long after the one before: no other depth makes sense.
    #[error(
        "{name}: each request follows the completion of the one before, so there is never more than one; a queue depth of {depth} needs the open loop"
    )]
    Depth {
        /// The trace's name.
        name: String,
        /// The depth that was asked for.
        depth: u32,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The format cannot be told from the first line.
    #[error(
        "neither a CSV header (time, op, offset, length) nor DiskSim's 'R|W Hit|Miss first blocks service delay'"
    )]
    Unknown,
    /// A column that every trace needs.
    #[error("the header has no column {column:?}; it needs time, op, offset and length")]
    NoColumn {
        /// Which one.
        column: &'static str,
    },
    /// Two columns for one thing.
    #[error("the header has two columns for {column:?}")]
    TwoColumns {
        /// For what.
        column: &'static str,
    },
    /// A line with too few fields.
    #[error("there is no {column}: only {fields} fields")]
    Missing {
        /// The column.
        column: &'static str,
        /// How many fields there are.
        fields: usize,
    },
    /// A field that says nothing possible.
    #[error("{column} = {value:?}: {reason}")]
    Field {
        /// The column.
        column: &'static str,
        /// What stands there, cut where it is long.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Not the text of a trace.
    #[error("longer than {limit} bytes: no trace has such lines")]
    Long {
        /// The longest line that is read.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("not text")]
    NotText,
    /// An arrival before the one above it.
    #[error("it arrives before the request above it; sort the trace by time")]
    Backwards,
    /// The drive ends before the request does.
    #[error(
        "byte {offset}, length {length}: past the end of the drive at byte {capacity}; --wrap brings it back to the beginning"
    )]
    PastEnd {
        /// First byte, with the shift.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Size of the drive.
        capacity: u64,
    },
    /// No drive of this kind would take the request.
    #[error(transparent)]
    Refused(Refusal),
}
