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
    #[error("no data was moved, and the old table is active")]
    NotMarked,
    /// One copy of the new GPT is written, and counts.
    #[error(
        "all data was moved, and one copy of the new table is active; 'straddle plan --repair' writes the \
         other one"
    )]
    OneCopy,
    /// The new MBR is written, and may not be durable.
    #[error(
        "all data was moved and the new table was written, but perhaps not flushed: if a power cut loses it, \
        'straddle resume' writes it again"
    )]
    Unsettled,
    /// The move is complete, and its journal is not removed.
    #[error(
        "the move is complete, and the new table is active; only the journal, which is no longer needed, \
         could not be removed"
    )]
    CompleteWithJournal,
    /// The rollback is complete, and its journal is not removed.
    #[error(
        "the old layout and its contents are restored; only the journal, which is no longer needed, could \
         not be removed"
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
    #[error("cannot read the disk")]
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
        "byte {0} is not as the journal records it: another program has written it, or the journal belongs \
        to another disk"
    )]
    Changed(ByteOffset),
    /// The table is not the one that the move left.
    #[error(
        "nothing was written: the table has changed since the move stopped: another program has written \
         it, or the journal belongs to another disk"
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
    #[error("all data was moved, but the list of unreadable areas cannot be saved")]
    List(#[source] io::Error),
    /// The journal cannot be on the disk itself.
    #[error(
        "nothing was written: the disk has no room for the journal ({} bytes): give a file on another disk \
         with --journal",
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
        "{}: nothing was written: the file exists, and may be the journal of an unfinished move. Do not \
        remove it: run 'straddle resume' with this --journal, which resumes the move or says what the file \
        is",
        .0.display()
    )]
    JournalExists(PathBuf),
    /// There is no unfinished move.
    #[error(
        "no unfinished move: it is complete, was rolled back, or never began. Only if another program has \
         overwritten the table of a move: --restore-table FILE searches the whole disk for its journal"
    )]
    Nothing,
    /// The journal is not where it was looked for.
    #[error("{0}")]
    NoJournal(NoJournal),
    /// The journal is of another disk or plan, or not the latest one.
    #[error("nothing was written: the journal belongs to another disk, or to another move of this one: {0}")]
    Foreign(String),
    /// No data have moved, and the disk may have been used since.
    #[error(
        "nothing was written: no data was moved. --rollback removes the journal, and restores the table if \
         it is lost; then apply the plan again"
    )]
    NotBegun,
    /// It is being rolled back.
    #[error("nothing was written: a rollback was started; complete it with --rollback")]
    Turned,
    /// It is complete.
    #[error(
        "nothing was written: the new table is already active, and the move can no longer be rolled back"
    )]
    Complete,
}

/// Where a journal is not, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoJournal {
    /// On the disk: it is in a file.
    #[error("its journal is in a file: give it with --journal")]
    Elsewhere,
    /// On the disk: it has the marker of a copy.
    #[error("a copy to it is unfinished: run the same 'straddle apply' again")]
    Copy,
    /// In the file, and the move of the disk has begun.
    #[error(
        "nothing was written: the file given with --journal holds no journal, but a move of this disk was \
        started. Its journal is in another file, with the only copy of the data being moved: give that file, \
        and delete nothing"
    )]
    Begun,
    /// In the file, and the disk has a table without a marker.
    #[error(
        "nothing was written: the file given with --journal holds no journal: 'apply' was stopped before \
         it moved anything, or after it was done. 'straddle check' shows where the partitions are; remove \
         the file, and apply the plan again if they were not moved"
    )]
    NotBegun,
    /// Anywhere on the disk, all of which was searched.
    #[error("no unfinished move: its table has no marker, and the disk has no journal that is still needed")]
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
