//! Why a disk is not copied.

use std::io;
use std::path::PathBuf;

use straddle_device::ReadError;
use straddle_units::{ByteCount, ByteOffset};

use crate::apply::ApplyError;
use crate::error::PlanError;
use crate::realign::MoveError;

/// Why a disk is not copied. The source is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source cannot be copied.
    #[error("cannot be copied: {0}")]
    Source(String),
    /// The new disk is not empty.
    #[error("not empty: it holds {}; --wipe allows overwriting it", .0.join(", "))]
    NotEmpty(Vec<String>),
    /// The copy would write over bytes that are not zeros.
    #[error(
        "nothing was written: the copy would overwrite byte {at}, which is not zero and may be data; to \
         allow that, plan again with 'straddle realign SOURCE --to DISK --wipe'"
    )]
    NotZero {
        /// The first such byte.
        at: ByteOffset,
    },
    /// It is not known whether the copy would write over something.
    #[error(
        "nothing was written: the copy would overwrite byte {at}, which cannot be read and may be data; to \
         allow that, plan again with 'straddle realign SOURCE --to DISK --wipe'"
    )]
    Unknown {
        /// Where the read began.
        at: ByteOffset,
        /// Why not.
        source: ReadError,
    },
    /// The new disk is too small.
    #[error("too small: {needed} bytes are needed, but it has {}", .size.get())]
    TooSmall {
        /// How many bytes are needed.
        needed: u64,
        /// Its size.
        size: ByteCount,
    },
    /// A partition has to become smaller, and would lose data.
    #[error(
        "partition {number} does not fit at its full size, and holds data after the recorded end of its \
        contents. Use a larger disk to copy that data too, or --wipe to omit it"
    )]
    Unclaimed {
        /// The partition's number.
        number: u32,
    },
    /// Sizes that do not fit 64 bits.
    #[error("its partitions end past 2^64 bytes")]
    TooLarge,
    /// A stored plan contradicts itself.
    #[error("the copy plan cannot be used: {0}")]
    Invalid(String),
    /// The source is not the one of the plan, or has changed since.
    #[error("nothing was written: {0}")]
    OtherSource(String),
    /// The source was written to during the copy, or is in use.
    #[error(
        "{}: it is in use, or was written to during the copy; the new disk has no table. Run the same \
         command again when nothing writes to the source",
        .0.display()
    )]
    SourceWritten(PathBuf),
    /// The list of what could not be read cannot be kept.
    #[error(
        "the list of unreadable areas cannot be saved; the new disk has no table: run the same command \
         again"
    )]
    List(#[source] io::Error),
    /// It has the table of the plan, which is written last.
    #[error(
        "nothing was written: the copy is already complete; to repeat it: 'straddle realign SOURCE --to \
         DISK --wipe'"
    )]
    Finished,
    /// What is on the new disk has changed since the plan was made.
    #[error("nothing was written: its contents have changed since the plan was made: plan again")]
    Changed,
    /// The new disk is the source, or a file that the source reads.
    #[error("nothing was written: it is the source of the copy: give another disk")]
    Itself,
    /// The table cannot be made.
    #[error(transparent)]
    Table(#[from] PlanError),
    /// The new disk is not the plan's, or in use.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A boot sector cannot record its new start.
    #[error(transparent)]
    Record(#[from] MoveError),
    /// The source or the new disk cannot be read.
    #[error("cannot read")]
    Read(#[from] ReadError),
    /// The source cannot be read at this byte.
    #[error("byte {at} of the source cannot be read; --skip-bad continues without it")]
    Unreadable {
        /// The first byte.
        at: ByteOffset,
        /// Why not.
        source: ReadError,
    },
    /// A write failed.
    #[error("cannot write byte {at}; the copy is unfinished: run the same command again")]
    Write {
        /// Where.
        at: ByteOffset,
        /// The operating system's error.
        source: io::Error,
    },
    /// What was written may not be durable.
    #[error("cannot flush the disk; the copy is unfinished: run the same command again")]
    Flush {
        /// The operating system's error.
        source: io::Error,
    },
    /// Reading back did not return what was written.
    #[error("{len} bytes at byte {at} differ when read back: do not trust this disk")]
    Differs {
        /// Where they begin.
        at: ByteOffset,
        /// How many were compared.
        len: u64,
    },
    /// The new table is not read as it was written.
    #[error("the new table differs when read back ({0}): do not trust this disk")]
    OtherTable(String),
}

straddle_units::error_kind! {
    CopyError: Failed;
    Self::Source(_)
    | Self::NotEmpty(_)
    | Self::NotZero { .. }
    | Self::Finished
    | Self::TooSmall { .. }
    | Self::Unclaimed { .. }
    | Self::OtherSource(_)
    | Self::Itself
    | Self::Changed => Refused,
    Self::Table(error) => error.kind(),
    Self::Apply(error) => error.kind(),
    Self::Record(error) => error.kind(),
}
