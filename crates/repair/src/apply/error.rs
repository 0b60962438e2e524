//! Why writing failed or was refused.

use std::io;

use straddle_device::ReadError;
use straddle_units::ByteCount;

use super::BackupError;
use crate::error::PlanError;

/// Why writing failed or was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The disk is not the one that the plan or the backup was made for, or has changed since. Nothing was
    /// written.
    #[error("nothing was written: {0}")]
    OtherDisk(String),
    /// The backup is of a disk at another path, and neither has a serial number. Nothing was written.
    #[error(
        "nothing was written: the backup is of {path}, and this disk has no serial number to identify it by"
    )]
    Elsewhere {
        /// The disk's path then.
        path: String,
    },
    /// What is in a partition is larger than the partition would become. Nothing was written.
    #[error(
        "nothing was written: undo would shrink partition {partition} to {restored}, but {}",
        outgrown(.used)
    )]
    Outgrown {
        /// The partition's number.
        partition: u32,
        /// How much of it is used; `None` if its contents record no size.
        used: Option<ByteCount>,
        /// The size that it would have.
        restored: ByteCount,
    },
    /// What is in a partition records a larger size than it has room for. Nothing was written.
    #[error("nothing was written: {0}")]
    CutShort(String),
    /// The disk is in use. Nothing was written.
    #[error("nothing was written: it is in use: {0}")]
    InUse(String),
    /// The plan cannot be encoded. Nothing was written.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The backup cannot be stored or read. Nothing was written.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The disk cannot be read.
    #[error("cannot read the disk")]
    Read(#[from] ReadError),
    /// A write failed. The disk has either the old table or the new one, and the backup has the previous
    /// contents.
    #[error("cannot write {what} at byte {at}: revert the change with the backup")]
    Write {
        /// What was written.
        what: String,
        /// Its byte offset.
        at: u64,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// What was written may not be durable. The disk has either the old table or the new one, and the backup has the
    /// previous contents.
    #[error("cannot flush the changes: revert them with the backup")]
    Flush {
        /// The operating system's error.
        source: io::Error,
    },
    /// All bytes are as they were written, and the table that they make is another one.
    #[error("the table differs when read back ({0}): revert it with the backup")]
    OtherTable(String),
    /// Reading back did not return what was written.
    #[error(
        "{what} at byte {at} differs when read back: revert it with the backup, and do not trust this \
        disk"
    )]
    Differs {
        /// What was written.
        what: String,
        /// Its byte offset.
        at: u64,
    },
    /// Read back, the planned bytes would not give the plan's table. Nothing was written.
    #[error("nothing was written: the changed table would not be read as planned: {0}")]
    WouldDiffer(String),
    /// A partition that the plan made or grew has been written to since.
    #[error(
        "nothing was written: undo would lose what was written to partition {partition} since the apply \
        ({size} bytes from byte {start} changed)"
    )]
    WrittenSince {
        /// The partition's number.
        partition: u32,
        /// First byte of the range that differs.
        start: u64,
        /// Length of that range in bytes.
        size: u64,
    },
    /// The kernel did not accept the new table.
    #[error("the table is written, but {0}")]
    Kernel(String),
}

straddle_units::error_kind! {
    ApplyError: Refused;
    Self::Plan(error) => error.kind(),
    Self::Backup(error) => error.kind(),
    Self::Read(_)
    | Self::Write { .. }
    | Self::Flush { .. }
    | Self::Differs { .. }
    | Self::OtherTable(_)
    | Self::Kernel(_) => Failed,
}

fn outgrown(used: &Option<ByteCount>) -> String {
    match used {
        Some(used) => format!("its contents use {used}: shrink them first"),
        None => "its contents record no size, so they may have been grown too".to_owned(),
    }
}
