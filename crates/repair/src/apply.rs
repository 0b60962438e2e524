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
mod error;
mod stages;
mod undo;

pub(crate) use backup::create_durably;
pub use backup::{Backup, BackupError};
pub use error::ApplyError;
pub use stages::{BackedUp, Prepared, Written};
pub use undo::{LaterWrites, Progress};

pub(crate) use stages::{
    Expected, check_identity as recognise_disk, check_kernel, differing, recognise, tell_kernel,
};
