//! Why writing failed or was refused.

use std::io;

use straddle_device::ReadError;
use straddle_units::ByteCount;

use super::BackupError;
use crate::error::PlanError;

/// Why writing failed or was refused. After [`Write`](Self::Write) and [`Flush`](Self::Flush) the disk has
/// either the old table or the new one, and the backup has the previous contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ApplyError {
    #[error("nothing was written, because {0}")]
    OtherDisk(String),
    #[error(
        "nothing was written, because the backup belongs to {path}, and this disk has no serial number to \
         prove that it is the same disk"
    )]
    Elsewhere { path: String },
    #[error(
        "nothing was written, because undo would shrink partition {partition} to {restored}, but {}",
        outgrown(.used)
    )]
    Outgrown {
        partition: u32,
        /// `None` if its contents record no size.
        used: Option<ByteCount>,
        restored: ByteCount,
    },
    #[error("nothing was written, because {0}")]
    CutShort(String),
    #[error("in use ({0}); nothing was written")]
    InUse(String),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error("cannot read the disk")]
    Read(#[from] ReadError),
    #[error("cannot write {what} at byte {at}; revert the change with the backup")]
    Write {
        what: String,
        at: u64,
        #[source]
        source: io::Error,
    },
    #[error("cannot flush the changes; revert them with the backup")]
    Flush { source: io::Error },
    #[error("the table differs from the plan when read back ({0}); revert the change with the backup")]
    OtherTable(String),
    #[error(
        "{what} at byte {at} differs when read back; revert the change with the backup, and do not trust \
         this disk"
    )]
    Differs { what: String, at: u64 },
    #[error("nothing was written, because the new table would differ from the plan when read back: {0}")]
    WouldDiffer(String),
    #[error(
        "nothing was written, because undo would lose new data in partition {partition} ({size} bytes from \
         byte {start} on have changed since the plan was applied)"
    )]
    WrittenSince { partition: u32, start: u64, size: u64 },
    #[error("the table was written, but {0}")]
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
        Some(used) => format!("its contents use {used}; first shrink them"),
        None => "its contents record no size, so they may have been enlarged too".to_owned(),
    }
}
