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
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum CopyError {
    #[error("the disk cannot be copied: {0}")]
    Source(String),
    #[error("the disk is not empty, but holds {}; to allow overwriting this, use --wipe", .0.join(", "))]
    NotEmpty(Vec<String>),
    #[error(
        "nothing was written, because the copy would overwrite byte {at}, which is not zero and may be data. \
         To allow this, plan again with 'straddle realign SOURCE --to DISK --wipe'"
    )]
    NotZero { at: ByteOffset },
    #[error(
        "nothing was written, because the copy would overwrite byte {at}, which cannot be read and may be \
         data. To allow this, plan again with 'straddle realign SOURCE --to DISK --wipe'"
    )]
    Unknown { at: ByteOffset, source: ReadError },
    #[error("the disk is too small; the copy needs {needed} bytes, but the disk has only {}", .size.get())]
    TooSmall { needed: u64, size: ByteCount },
    #[error(
        "partition {number} does not fit at its full size, and holds data after the recorded end of its \
         contents. To copy that data too, use a larger disk; to omit it, use --wipe"
    )]
    Unclaimed { number: u32 },
    #[error("the partitions would end beyond byte 2^64")]
    TooLarge,
    #[error("the copy plan cannot be used: {0}")]
    Invalid(String),
    #[error("nothing was written, because {0}")]
    OtherSource(String),
    #[error(
        "{}: the source was in use or written to during the copy, so no partition table was written to the \
         new disk. When no program writes to the source any longer, run the same command again",
        .0.display()
    )]
    SourceWritten(PathBuf),
    #[error(
        "could not save the list of unreadable areas, so no partition table was written to the new disk. \
         Fix the problem, then run the same command again"
    )]
    List(#[source] io::Error),
    #[error(
        "nothing was written, because the copy is already complete. To repeat it, plan again with 'straddle \
         realign SOURCE --to DISK --wipe'"
    )]
    Finished,
    #[error("nothing was written, because the contents have changed since the plan was made; plan again")]
    Changed,
    #[error("nothing was written, because this is the source of the copy; choose another disk")]
    Itself,
    #[error(transparent)]
    Table(#[from] PlanError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Record(#[from] MoveError),
    #[error("cannot read the source or the new disk")]
    Read(#[from] ReadError),
    #[error("byte {at} of the source cannot be read; to skip unreadable data, use --skip-bad")]
    Unreadable { at: ByteOffset, source: ReadError },
    #[error("cannot write byte {at}, so the copy is unfinished; run the same command again")]
    Write { at: ByteOffset, source: io::Error },
    #[error("cannot flush the disk, so the copy is unfinished; run the same command again")]
    Flush { source: io::Error },
    #[error("{len} bytes at byte {at} differ when read back; do not trust this disk")]
    Differs { at: ByteOffset, len: u64 },
    #[error("the new table differs when read back ({0}); do not trust this disk")]
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
