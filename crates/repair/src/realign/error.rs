//! Why partitions cannot be moved, and why data were not moved, or not all.

use std::fmt;
use std::io;
use std::path::PathBuf;

use straddle_device::ReadError;
use straddle_layout::Content;
use straddle_units::{ByteCount, ByteOffset};

use crate::apply::ApplyError;
use crate::error::PlanError;
use crate::relocate::RelocateError;

/// A partition whose contents would make room by being smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// Its number.
    pub number: u32,
    /// By how many bytes its contents must be smaller.
    pub by: ByteCount,
    /// How many bytes of the partition, from its start, may then be in use.
    pub to: ByteCount,
    /// Its contents, if they are recognised.
    pub content: Option<Content>,
    /// The command that does it, if there is one; DEVICE stands for the partition, unmounted.
    pub command: Option<String>,
}

impl Shrink {
    /// Whether these contents can be shrunk at all; `None` if that is not known.
    pub fn is_possible(&self) -> Option<bool> {
        straddle_audit::can_shrink(self.content?)
    }
}

impl fmt::Display for Shrink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, by, to, .. } = self;
        let content = self.content.map_or("unknown content", Content::name);
        write!(f, "partition {number} ({content}) by {} bytes to {} bytes", by.get(), to.get())?;
        match &self.command {
            Some(command) => write!(f, " ({command})"),
            None if self.is_possible() == Some(false) => f.write_str(", which is not possible"),
            None => Ok(()),
        }
    }
}

/// Why there is no plan to realign a disk. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum RealignError {
    #[error("no partition has to be moved")]
    Nothing,
    #[error(
        "partition {number} starts on a boundary, but its {what} does not; {way}; to move the partition \
         instead, use --partition {number}"
    )]
    Inside { number: u32, what: &'static str, way: String },
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    #[error(
        "there is no room for the extended boot record of logical partition {0}; do not move this partition \
         or the logical partitions before it"
    )]
    Logical(u32),
    #[error("primary partition {0} would be between logical partitions")]
    Mixed(u32),
    #[error("partition {0} is an extended partition, which has no data to align")]
    Container(u32),
    #[error("partition {number} cannot start at byte {start}: {why}")]
    Start { number: u32, start: ByteOffset, why: String },
    #[error(
        "{} cannot be aligned: {} more bytes are needed; shrink {}",
        numbered(.numbers), .missing.get(), joined(.shrink, ", or ")
    )]
    MustShrink { numbers: Vec<u32>, missing: ByteCount, shrink: Vec<Shrink> },
    #[error("{} cannot be aligned: {} more bytes are needed", numbered(.numbers), .missing.get())]
    NoRoom { numbers: Vec<u32>, missing: ByteCount },
    #[error(
        "partition {number} fits at an aligned start only if it is shortened, but it holds data past the \
         recorded end of its contents. To overwrite that data, use --wipe"
    )]
    Unclaimed { number: u32 },
    #[error("partition {number}: {why}")]
    Immovable { number: u32, why: &'static str },
    #[error(
        "the move would overwrite data at byte {at}, which is outside all partitions (perhaps from a deleted \
         partition, a boot loader or an earlier move). To allow this, use --wipe"
    )]
    Occupied { at: ByteOffset },
    #[error("the disk is incomplete: {0}")]
    CutShort(String),
    #[error(
        "{} cannot be moved past each other; keep them in their current order",
        numbered(.numbers)
    )]
    Blocked { numbers: Vec<u32> },
    #[error("the move plan cannot be used: {0}")]
    Invalid(String),
    #[error("cannot plan the new starts")]
    Table(#[from] PlanError),
    #[error("cannot plan the moves")]
    Moves(#[from] RelocateError),
}

impl RealignError {
    /// Whether the disk has no room for all partitions, so that another one may have.
    pub const fn lacks_room(&self) -> bool {
        matches!(
            self,
            Self::NoRoom { .. }
                | Self::MustShrink { .. }
                | Self::Blocked { .. }
                | Self::Logical(_)
                | Self::Mixed(_)
        )
    }

    /// Whether [`Wanted::wipe`](super::Wanted::wipe) allows it.
    pub(super) const fn is_given_up_by_wipe(&self) -> bool {
        matches!(self, Self::Unclaimed { .. } | Self::Occupied { .. })
    }
}

straddle_units::error_kind! {
    RealignError: Refused;
    Self::NoSuchPartition(_) | Self::Container(_) | Self::Start { .. } => Usage,
    Self::Nothing | Self::Inside { .. } | Self::Invalid(_) => Failed,
    Self::Table(error) => error.kind(),
    Self::Moves(error) => error.kind(),
}

fn numbered(numbers: &[u32]) -> String {
    match numbers {
        [number] => format!("partition {number}"),
        _ => format!("partitions {}", joined(numbers, ", ")),
    }
}

fn joined(list: &[impl ToString], between: &str) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}

/// What is active after a step failed, when there is nothing to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum Ending {
    #[error("no data was moved, and the old table is active")]
    NotMarked,
    #[error(
        "all data was moved, and one copy of the new table is active; to write the other copy, use 'straddle \
         plan --repair'"
    )]
    OneCopy,
    #[error(
        "all data was moved and the new table was written, but perhaps not flushed; if a power cut destroys \
         the table, 'straddle resume' writes it again"
    )]
    Unsettled,
    #[error(
        "the move is complete, and the new table is active, but the journal could not be removed; it is no \
         longer needed"
    )]
    CompleteWithJournal,
    #[error(
        "the old layout and its contents are restored, but the journal could not be removed; it is no longer \
         needed"
    )]
    BackWithJournal,
}

/// Why data were not moved, or not all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum MoveError {
    #[error(transparent)]
    Plan(#[from] RealignError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Moves(#[from] RelocateError),
    #[error("cannot read the disk")]
    Read(#[from] ReadError),
    #[error("nothing was written, because partition {number} cannot be moved: {what}")]
    Partition { number: u32, what: &'static str },
    #[error(
        "byte {0} differs from the journal, so another program has overwritten it or the journal belongs to \
         another disk"
    )]
    Changed(ByteOffset),
    #[error(
        "nothing was written, because another program has changed the table since the move stopped, or the \
         journal belongs to another disk"
    )]
    OtherTable,
    #[error("{ending}")]
    Ended { ending: Ending, source: Box<Self> },
    #[error("all data was moved, but the list of unreadable areas cannot be saved")]
    List(#[source] io::Error),
    #[error(
        "nothing was written, because the disk has no room for the journal ({} bytes); use --journal to name \
         a file on another disk",
        .0.get()
    )]
    NeedsJournal(ByteCount),
    #[error("{}: cannot be used for the journal", path.display())]
    JournalFile { path: PathBuf, source: io::Error },
    #[error(
        "{}: nothing was written, because this file exists and may be the journal of an unfinished move. Do \
         not remove the file; run 'straddle resume' with the same --journal. That command resumes the move \
         or identifies the file",
        .0.display()
    )]
    JournalExists(PathBuf),
    #[error(
        "no unfinished move found: the move is complete, was rolled back, or never began ('straddle check' \
         shows where the partitions are). If the journal is in a file, name that file with --journal. If \
         another program has replaced the partition table since the move stopped, add --restore-table FILE"
    )]
    Nothing,
    #[error("{0}")]
    NoJournal(NoJournal),
    #[error(
        "nothing was written, because the journal belongs to another disk or to another move of this disk: \
         {0}"
    )]
    Foreign(String),
    #[error(
        "nothing was written, because no data has been moved and there is nothing to resume. Remove the \
         journal with --rollback (this also restores a lost table), then apply the plan again"
    )]
    NotBegun,
    #[error("nothing was written, because a rollback is in progress; complete it with --rollback")]
    Turned,
    #[error(
        "nothing was written, because the new table is already active and the move can no longer be rolled \
         back"
    )]
    Complete,
}

/// Where a journal is not, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum NoJournal {
    /// On the disk.
    #[error("the journal of this disk is in a file; name the file with --journal")]
    Elsewhere,
    /// On the disk, which has the marker of a copy.
    #[error("a copy to this disk is unfinished; run the same 'straddle apply' again")]
    Copy,
    /// In the file, and the disk has a marker or no table.
    #[error(
        "nothing was written, because the --journal file holds no journal, but this disk has an unfinished \
         move. Name the right file, which holds the only copy of the data being moved; delete nothing"
    )]
    Begun,
    /// In the file, and the disk has a table without a marker.
    #[error(
        "nothing was written, because the --journal file holds no journal. 'straddle apply' was stopped \
         before it moved any data, or after the move was complete. 'straddle check' shows where the \
         partitions are; remove the file, and if the partitions were not moved, apply the plan again"
    )]
    NotBegun,
    #[error(
        "the disk has no unfinished move: its table has no marker, and there is no journal that is still \
         needed"
    )]
    Anywhere,
}

impl MoveError {
    pub(super) fn after(self, ending: Ending) -> Self {
        Self::Ended { ending, source: Box::new(self) }
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
