//! The entry, in any copy of a table, that marks a disk whose partitions are being moved by `straddle realign`.

use straddle_device::{Medium, ReadError};
use straddle_units::{ByteOffset, Span};

use super::gpt;
use crate::model::stack::{Partition, PartitionType, Problem, Stack};
use crate::model::types::guid;
use crate::reader::Reader;

/// The marker's type in a GPT.
pub const MARKER_GUID: &str = "B7A1C0DE-57AD-4D1E-9F3B-5E11A51DED01";
/// The marker's type in an MBR: 7F is for local and experimental use, and no system gives it a meaning.
pub const MARKER_MBR: &str = "7f";
/// The same as a number.
pub const MARKER_TYPE: u8 = 0x7F;

/// Whether this entry marks a disk whose partitions are being moved.
pub fn is_marker(partition: &Partition) -> bool {
    match partition.kind {
        PartitionType::Guid(found) => found == const { guid(MARKER_GUID) },
        PartitionType::Mbr(id) => id == MARKER_TYPE,
        PartitionType::Unknown => false,
    }
}

/// A marker that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The number of its entry.
    pub number: u32,
    /// What its entry covers.
    pub span: Span,
    /// The copy of the GPT that has it if the other one, which is used, has not: where its header is.
    pub only_in: Option<ByteOffset>,
}

/// Returns the marker of the table that `stack` was read from: in the copy that is used, or in the backup of
/// a GPT whose copies differ. A power cut leaves them different while a marker is written or removed.
///
/// # Errors
///
/// If the medium cannot be read.
pub fn marker(medium: &dyn Medium, stack: &Stack) -> Result<Option<Marker>, ReadError> {
    let among = |partitions: &[Partition], only_in| {
        let partition = partitions.iter().find(|partition| is_marker(partition))?;
        Some(Marker { number: partition.number, span: partition.span, only_in })
    };
    let found = among(&stack.partitions, None);
    let differ = stack.problems.iter().any(|problem| matches!(problem, Problem::GptCopiesDiffer { .. }));
    if found.is_some() || !differ {
        return Ok(found);
    }
    let reader = Reader::open(medium, stack.block)?;
    Ok(gpt::backup(&reader, stack.block).and_then(|(at, partitions)| among(&partitions, Some(at))))
}
