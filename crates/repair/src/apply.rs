//! Writing a table while the data stay where they are.
//!
//! Invariants: nothing is written until the disk is known to be the plan's and not in use, and a backup of every byte
//! that will be overwritten is synchronised. Nothing is reported as done before it was read back. The types enforce
//! this order: a [`Prepared`] becomes a [`BackedUp`], and that a [`Written`]. An undo starts from a stored [`Backup`],
//! which yields a [`BackedUp`].
//!
//! ```
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, Target};
//! fn apply(disk: &mut Target<'_>, plan: &Plan) -> Result<(), ApplyError> {
//!     Prepared::of(disk, plan)?.back_up(Path::new("plan.json.undo"))?.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Without a stored backup there is no `write` to call:
//!
//! ```compile_fail,E0599
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, Target};
//! fn apply(disk: &mut Target<'_>, plan: &Plan) -> Result<(), ApplyError> {
//!     Prepared::of(disk, plan)?.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Nothing is written twice:
//!
//! ```compile_fail,E0382
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, Target};
//! fn apply(disk: &mut Target<'_>, plan: &Plan) -> Result<(), ApplyError> {
//!     let backed_up = Prepared::of(disk, plan)?.back_up(Path::new("plan.json.undo"))?;
//!     backed_up.write()?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! A [`BackedUp`], from which steps are written, cannot be constructed outside this crate:
//!
//! ```compile_fail,E0451
//! # use straddle_repair::{Step, apply::BackedUp, Target};
//! fn pretend(disk: &mut Target<'_>, steps: Vec<Step>) -> BackedUp<'_> {
//!     BackedUp { disk, plan: None, steps }
//! }
//! ```
//!
//! A target gives out its bytes, and takes none:
//!
//! ```compile_fail,E0599
//! # use straddle_repair::Target;
//! # use straddle_units::ByteOffset;
//! fn write(disk: &mut Target<'_>) {
//!     disk.write_at(ByteOffset::new(0), &[0; 512]).unwrap();
//! }
//! ```
//!
//! The checksum of a backup is not a signature: [`Backup::load`] says what a file made by hand can do.

mod backup;
mod stages;
mod undo;

use std::io;

use straddle_device::ReadError;
use straddle_units::ByteCount;

use crate::error::PlanError;
pub(crate) use backup::create_durably;
pub use backup::{Backup, BackupError};
pub use stages::{BackedUp, Prepared, Written};
pub use undo::{LaterWrites, Progress};

pub(crate) use stages::{
    Expected, check_identity as recognise_disk, check_kernel, differing, recognise, tell_kernel,
};

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
