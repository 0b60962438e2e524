//! Why data were not moved, or not all.

use std::io;
use std::path::PathBuf;

use crate::relocate::{Device, RelocateError};
use straddle_device::ReadError;
use straddle_units::{ByteCount, ByteOffset};

use super::RealignError;
use crate::apply::ApplyError;
use crate::error::PlanError;

/// What counts although a step failed, when there is nothing to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// The marker was not written; the old table counts.
    #[error("no data have moved, and the old table counts")]
    NotMarked,
    /// One copy of the new GPT is written, and counts.
    #[error(
        "all data are in their new places, and one copy of the new table counts; 'straddle plan --repair' writes the other one"
    )]
    OneCopy,
    /// The new MBR is written, and may not be durable.
    #[error(
        "all data are in their new places, and the new table is written, but perhaps not durably: if it is lost with the power, 'straddle resume' writes it"
    )]
    Unsettled,
    /// The move is complete, and its journal is not removed.
    #[error(
        "the move is complete, the new table counts, and nothing is left to do; but its journal, which is not needed any more, could not be removed"
    )]
    CompleteWithJournal,
    /// The rollback is complete, and its journal is not removed.
    #[error(
        "the old layout and its contents are back, and nothing is left to do; but its journal, which is not needed any more, could not be removed"
    )]
    BackWithJournal,
}

/// Why data were not moved, or not all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] RealignError),
    /// The disk is not the plan's, or in use.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The moves failed, or a write of what belongs to them.
    #[error(transparent)]
    Moves(#[from] RelocateError),
    /// The disk cannot be read.
    #[error("the disk cannot be read")]
    Read(#[from] ReadError),
    /// A partition is not as the plan found it, or what refers to its place cannot be corrected.
    #[error("nothing was written: partition {number}: {what}")]
    Partition {
        /// The partition's number.
        number: u32,
        /// What is the matter.
        what: &'static str,
    },
    /// Something is at a byte of the table or of a boot sector that is neither old nor new.
    #[error(
        "byte {0} holds nothing that the journal knows, or what cannot be changed: another program has written it, or the journal is of another disk"
    )]
    Changed(ByteOffset),
    /// The table is not the one that the move left.
    #[error(
        "nothing was written: the table is not the one that the move left: another program has written it, or the journal is of another disk"
    )]
    OtherTable,
    /// A step failed, and there is nothing to go on with.
    #[error("{ending}")]
    Ended {
        /// What counts.
        ending: Ending,
        /// Why it failed.
        source: Box<Self>,
    },
    /// The list of what could not be read cannot be kept.
    #[error("all data are in their places, but the list of what could not be read cannot be saved")]
    List(#[source] io::Error),
    /// The journal cannot be on the disk itself.
    #[error(
        "nothing was written: the disk has no room for the journal of {} bytes: name a file on another disk with --journal",
        .0.get()
    )]
    NeedsJournal(ByteCount),
    /// The file for the journal cannot be used.
    #[error("{}: cannot be used for the journal", path.display())]
    JournalFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file for the journal is there already.
    #[error(
        "{}: nothing was written: the file exists, and may be the journal of an unfinished move: do not remove it; 'straddle resume' with this --journal goes on or back, or says what it holds",
        .0.display()
    )]
    JournalExists(PathBuf),
    /// There is no unfinished move.
    #[error(
        "no unfinished move: its table has no marker; if another program has written its table over that of an unfinished move, --restore-table FILE searches all of the disk for the journal"
    )]
    Nothing,
    /// The journal is not where it was looked for.
    #[error("{0}")]
    NoJournal(NoJournal),
    /// The journal is of another disk or plan, or not the latest one.
    #[error("nothing was written: the journal is of another disk, or of this one at another time: {0}")]
    Foreign(String),
    /// No data have moved, and the disk may have been used since.
    #[error(
        "nothing was written: no data have moved: --rollback removes the journal, and restores the table if that is lost; then apply the plan again"
    )]
    NotBegun,
    /// It is being rolled back.
    #[error("nothing was written: its rollback has begun and must be completed: --rollback")]
    Turned,
    /// It is complete.
    #[error("nothing was written: the new table counts already, and there is no way back")]
    Complete,
}

/// Where a journal is not, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoJournal {
    /// On the disk: it is in a file.
    #[error("its journal is in a file: name it with --journal")]
    Elsewhere,
    /// On the disk: it has the marker of a copy.
    #[error("a copy to it is not finished: run the same 'straddle apply' again")]
    Copy,
    /// In the file, and the move of the disk has begun.
    #[error(
        "nothing was written: the file named with --journal holds no journal of a move, and the move of this disk has begun: its journal, in another file, has the only copy of data on their way: name that file, and remove none"
    )]
    Begun,
    /// In the file, and the disk has a table without a marker.
    #[error(
        "nothing was written: the file named with --journal holds no journal of a move: its 'apply' was stopped before it began, or when it was complete. 'straddle check' shows where the partitions are; remove the file, and apply the plan again if they have not moved"
    )]
    NotBegun,
    /// Anywhere on the disk, all of which was searched.
    #[error(
        "no unfinished move: its table has no marker, and on all of the disk there is no journal that any data need"
    )]
    Anywhere,
}

impl MoveError {
    /// This error, with what counts all the same.
    pub(super) fn after(self, ending: Ending) -> Self {
        Self::Ended { ending, source: Box::new(self) }
    }

    /// A write failed.
    pub(super) fn write(at: ByteOffset, len: usize, source: io::Error) -> Self {
        RelocateError::Write { device: Device::Data, at, len: ByteCount::new(len as u64), source }.into()
    }

    /// A flush failed: what was written may not be durable.
    pub(super) fn flush(source: io::Error) -> Self {
        RelocateError::Flush { device: Device::Data, source }.into()
    }

    /// What was read back is not what was written.
    pub(super) fn differs(at: ByteOffset, len: ByteCount) -> Self {
        RelocateError::Changed { at, len }.into()
    }
}

straddle_units::error_kind! {
    MoveError: Refused;
    Self::Plan(error) => error.kind(),
    Self::Apply(error) => error.kind(),
    Self::Moves(error) => error.kind(),
    Self::Ended { source, .. } => source.kind(),
    Self::NoJournal(NoJournal::Anywhere)
    | Self::Read(_)
    | Self::List(_)
    | Self::JournalFile { .. }
    | Self::Nothing => Failed,
    Self::NoJournal(_) | Self::NeedsJournal(_) => Usage,
}

impl From<PlanError> for MoveError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error.into())
    }
}
