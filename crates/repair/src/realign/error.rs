//! Why partitions cannot be moved.

use std::fmt;

use crate::relocate::RelocateError;
use straddle_layout::Content;
use straddle_units::{ByteCount, ByteOffset};

use crate::error::PlanError;

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
    #[error("no partition has to move")]
    Nothing,
    #[error(
        "partition {number} starts on a boundary, but its {what} does not: {way}; --partition {number} \
         moves the partition instead"
    )]
    Inside { number: u32, what: &'static str, way: String },
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    #[error(
        "there is no room for the extended boot record of logical partition {0}: do not move it or the \
        logical partitions before it"
    )]
    Logical(u32),
    #[error("primary partition {0} would be among the logical ones")]
    Mixed(u32),
    #[error("partition {0} is an extended partition, which has no data to align")]
    Container(u32),
    #[error("partition {number} cannot start at byte {start}: {why}")]
    Start { number: u32, start: ByteOffset, why: String },
    #[error(
        "{} no room at an aligned start: {} more bytes are needed; shrink {}",
        numbered(.numbers), .missing.get(), alternatives(.shrink)
    )]
    MustShrink { numbers: Vec<u32>, missing: ByteCount, shrink: Vec<Shrink> },
    #[error("{} no room at an aligned start: {} more bytes are needed", numbered(.numbers), .missing.get())]
    NoRoom { numbers: Vec<u32>, missing: ByteCount },
    #[error(
        "partition {number} does not fit at an aligned start at its full size. It holds data after the \
        recorded end of its contents, from another program or from before it was shrunk: --wipe allows \
        overwriting that data"
    )]
    Unclaimed { number: u32 },
    #[error("partition {number}: {why}")]
    Immovable { number: u32, why: &'static str },
    #[error(
        "the move would overwrite data at byte {at}, outside partitions (perhaps a deleted partition, a boot \
        loader or an earlier move): --wipe allows that"
    )]
    Occupied { at: ByteOffset },
    #[error("it is incomplete: {0}")]
    CutShort(String),
    #[error(
        "{} no room to move past one another: the largest unallocated space is {} bytes, and {} more are \
        needed",
        numbered(.numbers), .largest.get(), .missing.get()
    )]
    Blocked { numbers: Vec<u32>, largest: ByteCount, missing: ByteCount },
    #[error("the move plan cannot be used: {0}")]
    Invalid(String),
    #[error("cannot plan the new starts")]
    Table(#[from] PlanError),
    #[error("cannot plan the moves")]
    Moves(#[from] RelocateError),
}

impl RealignError {
    /// Whether the disk has no places for all partitions, so that another one may.
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

    /// Whether it is not so with [`Wanted::wipe`](super::Wanted::wipe).
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

/// Lists partitions in words, followed by the verb.
fn numbered(numbers: &[u32]) -> String {
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match numbers {
        [number] => format!("partition {number} has"),
        _ => format!("partitions {} have", list.join(", ")),
    }
}

fn alternatives(shrink: &[Shrink]) -> String {
    let list: Vec<String> = shrink.iter().map(Shrink::to_string).collect();
    list.join(", or ")
}
