//! Why data were not moved, or not all.

use std::path::PathBuf;
use std::{fmt, io};

use straddle_device::ReadError;
use straddle_relocate::RelocateError;
use straddle_units::{ByteCount, ByteOffset, ErrorKind};

use super::RealignError;
use crate::apply::ApplyError;
use crate::error::PlanError;

/// What is no longer as the plan has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Its place.
    Place,
    /// How much of it is in use.
    Use,
    /// The kind of its contents.
    Contents,
    /// Where the data of a layer in it begin.
    Data,
    /// What its boot sector or boot loader records.
    Records,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Place => "it is not where it was",
            Self::Use => "another part of it is in use",
            Self::Contents => "it holds something else",
            Self::Data => "the data of the layer in it begin elsewhere",
            Self::Records => "its boot sector or boot loader records something else",
        })
    }
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
    /// The moves failed.
    #[error(transparent)]
    Moves(RelocateError),
    /// The disk, or the copy of it, has grown since.
    #[error(
        "nothing was written: the move began on a disk of {size} bytes, and this one has {}: give it that size until the move is over: 'truncate -s {size}' for an image, 'losetup --sizelimit {size}' for a disk",
        found.get(),
        size = made.get()
    )]
    Larger {
        /// The size that the disk had.
        made: ByteCount,
        /// The size that it has.
        found: ByteCount,
    },
    /// The disk cannot be read.
    #[error("the disk cannot be read")]
    Read(#[from] ReadError),
    /// What refers to the old place cannot be corrected.
    #[error("nothing was written: partition {number}: {what}")]
    Refers {
        /// The partition's number.
        number: u32,
        /// What refers to it.
        what: &'static str,
    },
    /// What a partition holds has changed since the plan was made.
    #[error(
        "nothing was written: partition {number} is not as it was when the plan was made: {what}; plan again"
    )]
    Differs {
        /// Its number.
        number: u32,
        /// What has changed.
        what: Difference,
    },
    /// A boot sector cannot record its new start.
    #[error("the boot sector at byte {0} cannot record its partition's start")]
    Unrecordable(ByteOffset),
    /// Another program has written to the table or to a boot sector.
    #[error(
        "byte {0} holds nothing that the journal knows: another program has changed it, or the journal is of another disk"
    )]
    Changed(ByteOffset),
    /// The table is not the one that the move left.
    #[error(
        "nothing was written: the table is not the one that the move left: another program has written it, or the journal is of another disk"
    )]
    OtherTable,
    /// The same, and the data do not need the journal.
    #[error(
        "nothing was written: the table is not the one that the move left, and with it nothing is left to do: no data have moved, or it lists them where they are; or the journal is of another disk"
    )]
    NotNeeded,
    /// A write to the table failed.
    #[error("writing at byte {at} failed")]
    Write {
        /// Where.
        at: ByteOffset,
        /// The operating system's error.
        source: io::Error,
    },
    /// The marker was not written; the old table counts.
    #[error("no data have moved, and the old table counts")]
    NotMarked(#[source] Box<Self>),
    /// All data have moved, and one copy of the new table is written, which counts.
    #[error(
        "all data are in their new places, and one copy of the new table counts; 'straddle plan --repair' writes the other one"
    )]
    HalfWritten(#[source] Box<Self>),
    /// All data have moved, and the new table may not be durable.
    #[error(
        "all data are in their new places, and the new table is written, but perhaps not durably: if it is lost with the power, 'straddle resume' writes it"
    )]
    Unsettled(#[source] Box<Self>),
    /// The move or its rollback is over, and its journal is not removed.
    #[error(
        "{}, and nothing is left to do; but its journal, which is not needed any more, could not be removed",
        if *.is_back { "the old layout and its contents are back" } else { "the move is complete, the new table counts" }
    )]
    NotRemoved {
        /// Whether it was a rollback.
        is_back: bool,
        /// Why not.
        source: Box<Self>,
    },
    /// Reading back did not return what was written.
    #[error("the table or a boot sector reads differently from what was written: do not trust this disk")]
    Unwritten,
    /// What was written may not be durable.
    #[error("cannot flush what was written")]
    Flush {
        /// The operating system's error.
        source: io::Error,
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
        "{}: nothing was written: the file is there already{}",
        path.display(),
        if *.is_journal {
            ", and it may hold the only copy of data on their way: do not remove it; 'straddle resume' with this --journal goes on"
        } else {
            ", and holds no journal: name another one, or remove it"
        }
    )]
    JournalExists {
        /// The file.
        path: PathBuf,
        /// Whether it holds a journal.
        is_journal: bool,
    },
    /// There is no unfinished move.
    #[error(
        "no unfinished move: its table has no marker, and no journal was found at the usual places; if another program has written its table over that of an unfinished move, --restore-table FILE searches all of the disk"
    )]
    Nothing,
    /// There is none although all of the disk was searched.
    #[error(
        "no unfinished move: its table has no marker, and on all of the disk there is no journal that any data need"
    )]
    NothingAnywhere,
    /// The data are not where the journal says.
    #[error(
        "nothing was written: the data are not where the journal says: it is left over from an earlier move, or other data have been written over them"
    )]
    LeftOver,
    /// The journal is a copy of the file that was made for the move.
    #[error(
        "nothing was written: the file named with --journal is a copy of the journal, and may be older than the data: name the journal itself; --journal-copy accepts a copy that was made after the move had stopped"
    )]
    Copied,
    /// Something else is where the journal says that data are.
    #[error(
        "nothing was written: byte {0} does not hold what the journal says: it is an older copy, or of another run, or something has written to the data; --trust-journal goes on all the same"
    )]
    NotThere(ByteOffset),
    /// No data have moved, and the disk was used since.
    #[error(
        "nothing was written: no data have moved, and byte {0} was written to since the journal was made: 'straddle resume --rollback' removes the journal; plan again"
    )]
    UsedSince(ByteOffset),
    /// The journal is older than the data.
    #[error(
        "nothing was written: the data have moved on since the journal was written: it is an older copy, or of another run; --trust-journal goes on all the same"
    )]
    Outdated,
    /// The file that is named as the journal holds none.
    #[error(
        "nothing was written: the file named with --journal holds no journal of a move{}",
        if *.is_begun {
            ", and the move of this disk has begun: its journal, in another file, has the only copy of data on their way: name that file, and remove none"
        } else {
            "; if it was made by an 'apply' that was stopped before it began, no data have moved: remove the file, and apply the plan again"
        }
    )]
    NoJournal {
        /// Whether the disk has the marker of a move, or no table, which a power cut may have torn.
        is_begun: bool,
    },
    /// It has the marker of a copy.
    #[error("a copy to it is not finished: run the same 'straddle apply' again")]
    Copy,
    /// The journal is in a file.
    #[error("its journal is in a file: name it with --journal")]
    Elsewhere,
    /// The journal is of another disk or plan.
    #[error("nothing was written: the journal is of another disk, or of this one at another time: {0}")]
    Foreign(String),
    /// The table of another program lists a partition that the move would not.
    #[error(
        "nothing was written: the table that is there now lists partition {number} at byte {at}, and that of the move would not: if it is used there, the \
         journal is left over from an earlier move, or the move would write over it; only if its data are worth nothing, or copied (another unfinished move may need \
         them), delete it from the table and run this again, and list it again, where it still is, when the move is over"
    )]
    Listed {
        /// Its number.
        number: u32,
        /// Its first byte.
        at: ByteOffset,
    },
    /// It is being rolled back.
    #[error("nothing was written: its rollback has begun and must be completed: --rollback")]
    Turned,
    /// Nothing has moved, and the table is lost.
    #[error("nothing was written: no data have moved, and the table is lost: --rollback restores it")]
    NotBegun,
    /// All data have moved, and the table is lost.
    #[error(
        "nothing was written: all data have moved, and the table is lost: whether the old places hold other data by now is not known; complete the move, without --rollback"
    )]
    NoWayBack,
    /// It is complete.
    #[error("nothing was written: the new table counts already, and there is no way back")]
    Complete,
}

impl MoveError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Plan(error) => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::Moves(error) => error.kind(),
            Self::NotMarked(error)
            | Self::HalfWritten(error)
            | Self::Unsettled(error)
            | Self::NotRemoved { source: error, .. } => error.kind(),
            Self::Copy | Self::Elsewhere | Self::NoJournal { .. } | Self::NeedsJournal(_) => ErrorKind::Usage,
            Self::Refers { .. }
            | Self::Differs { .. }
            | Self::Changed(_)
            | Self::Foreign(_)
            | Self::Larger { .. }
            | Self::OtherTable
            | Self::NotNeeded
            | Self::LeftOver
            | Self::Copied
            | Self::NotThere(_)
            | Self::Listed { .. }
            | Self::UsedSince(_)
            | Self::Outdated
            | Self::Turned
            | Self::NotBegun
            | Self::NoWayBack
            | Self::JournalExists { .. }
            | Self::Complete => ErrorKind::Refused,
            Self::Read(_)
            | Self::Unrecordable(_)
            | Self::Write { .. }
            | Self::Flush { .. }
            | Self::Unwritten
            | Self::List(_)
            | Self::JournalFile { .. }
            | Self::Nothing
            | Self::NothingAnywhere => ErrorKind::Failed,
        }
    }
}

impl From<RelocateError> for MoveError {
    fn from(error: RelocateError) -> Self {
        match error {
            RelocateError::OtherSize { made, found } if found > made => Self::Larger { made, found },
            error => Self::Moves(error),
        }
    }
}

impl From<PlanError> for MoveError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error.into())
    }
}
