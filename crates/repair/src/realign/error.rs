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
pub enum RealignError {
    /// No partition has to move.
    #[error("no partition has to move")]
    Nothing,
    /// Only the data of a layer in a partition are misaligned, and its format has a way to align them.
    #[error(
        "partition {number} starts on a boundary, and its {what} does not: {way}; --partition {number} moves the partition instead"
    )]
    Inside {
        /// The partition's number.
        number: u32,
        /// What is misaligned.
        what: &'static str,
        /// How its format aligns it.
        way: String,
    },
    /// The table has no partition with this number.
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    /// A logical partition whose extended boot record would have no place: the chain of records begins with
    /// it, and it is not the first on the disk.
    #[error(
        "logical partition {0} has no place for its extended boot record: leave it, or the ones before it"
    )]
    Logical(u32),
    /// Only logical partitions may be among logical ones.
    #[error("primary partition {0} would be among the logical ones")]
    Mixed(u32),
    /// The container of logical partitions.
    #[error("partition {0} is the container of logical partitions, which has no data to be aligned")]
    Container(u32),
    /// A requested start that cannot be had.
    #[error("partition {number} cannot start at byte {start}: {why}")]
    Start {
        /// The partition's number.
        number: u32,
        /// The requested start.
        start: ByteOffset,
        /// Why not.
        why: String,
    },
    /// There is no room, but there would be if a partition's contents were smaller.
    #[error(
        "{} no room at an aligned start: {} bytes are missing; shrink {}",
        numbered(.numbers), .missing.get(), alternatives(.shrink)
    )]
    MustShrink {
        /// The partitions that share the space.
        numbers: Vec<u32>,
        /// How many bytes of space are missing.
        missing: ByteCount,
        /// The contents of which one must be smaller; those that can be shrunk, by the fewest bytes, first.
        shrink: Vec<Shrink>,
    },
    /// There is no room, whichever of the contents is smaller.
    #[error("{} no room at an aligned start: {} bytes are missing", numbered(.numbers), .missing.get())]
    NoRoom {
        /// The partitions that share the space.
        numbers: Vec<u32>,
        /// How many bytes of space are missing.
        missing: ByteCount,
    },
    /// There is no room for all of a partition, and something lies behind its contents.
    #[error(
        "partition {number} has no room at an aligned start as long as it is, and behind the end of its contents are data that they do not account for: another \
         program's, or what they left when they were made smaller; --wipe gives them up"
    )]
    Unclaimed {
        /// The partition's number.
        number: u32,
    },
    /// What is in a partition does not allow it to be moved.
    #[error("partition {number}: {why}")]
    Immovable {
        /// The partition's number.
        number: u32,
        /// The reason.
        why: &'static str,
    },
    /// Data lie where the moves would write, and no partition has them.
    #[error(
        "byte {at} is unallocated and holds data, perhaps those of a deleted partition or a boot loader, or what an earlier move left, where the move would write: --wipe gives them up"
    )]
    Occupied {
        /// Their first byte.
        at: ByteOffset,
    },
    /// A partition's contents are larger than it.
    #[error("it is not whole: {0}")]
    CutShort(String),
    /// Partitions wait for one another to move, and none can make a detour.
    #[error(
        "{} to pass one another: the largest free space has {} bytes, and a detour needs {} more",
        numbered(.numbers), .largest.get(), .missing.get()
    )]
    Blocked {
        /// The partitions.
        numbers: Vec<u32>,
        /// The largest free space.
        largest: ByteCount,
        /// How many more bytes it would have to have.
        missing: ByteCount,
    },
    /// A stored plan contradicts itself.
    #[error("the plan to realign cannot be used: {0}")]
    Invalid(String),
    /// The table with the new places cannot be planned.
    #[error("the new places cannot be planned")]
    Table(#[from] PlanError),
    /// The moves cannot be made.
    #[error("the moves cannot be made")]
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
