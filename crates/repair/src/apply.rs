//! Writing a table: the only code that changes a partition table while the data stay where they are.
//!
//! Invariants: nothing is written until the disk is known to be the plan's, it is not in use, and
//! a backup of every byte that will be overwritten is written and synchronised. Nothing is reported as done before
//! it was read back. The types enforce this order: a [`Prepared`] becomes a [`BackedUp`], and a [`BackedUp`]
//! becomes a [`Written`]. An undo starts from a stored [`Backup`], which yields a [`BackedUp`].
//!
//! ```
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, Target};
//! fn apply(disk: &mut Target<'_>, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan)?;
//!     let backed_up = prepared.back_up(Path::new("plan.json.undo"))?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Without a stored backup there is no `write` to call:
//!
//! ```compile_fail,E0599
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, Target};
//! fn apply(disk: &mut Target<'_>, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan)?;
//!     prepared.write()?;
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
//!     let prepared = Prepared::of(disk, plan)?;
//!     let backed_up = prepared.back_up(Path::new("plan.json.undo"))?;
//!     backed_up.write()?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! The disk cannot be used for anything else between its examination and the write:
//!
//! ```compile_fail,E0499
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, Target};
//! fn apply(disk: &mut Target<'_>, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan)?;
//!     let backed_up = prepared.back_up(Path::new("plan.json.undo"))?;
//!     drop(Prepared::of(disk, plan));
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Steps can be read, but not constructed outside this crate:
//!
//! ```
//! # use straddle_repair::Step;
//! fn length(step: &Step) -> usize {
//!     match step {
//!         Step::Write { new, .. } => new.len(),
//!         Step::Flush => 0,
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0639
//! # use straddle_repair::Step;
//! fn step() -> Step {
//!     Step::Write { at: 0, old: vec![0; 512], new: vec![1; 512], what: "a boot sector".to_owned() }
//! }
//! ```
//!
//! Nor can a [`BackedUp`], from which steps are written:
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
//! ```
//! # use straddle_device::{Medium, ReadError};
//! # use straddle_repair::Target;
//! # use straddle_units::ByteOffset;
//! fn read(disk: &mut Target<'_>) -> Result<(), ReadError> {
//!     disk.read_at(ByteOffset::new(0), &mut [0; 512])
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use straddle_repair::Target;
//! # use straddle_units::ByteOffset;
//! fn write(disk: &mut Target<'_>) {
//!     disk.write_at(ByteOffset::new(0), &[0; 512]).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0616
//! # use straddle_repair::Target;
//! fn file(disk: Target<'static>) {
//!     let _ = disk.held;
//! }
//! ```
//!
//! An undo needs a file with the form and the checksum of a backup, and writes only once. The checksum is not a
//! signature: [`Backup::load`] says what a file made by hand can do.
//!
//! ```
//! # use std::path::Path;
//! # use straddle_repair::{apply::{ApplyError, Backup, LaterWrites}, Target};
//! fn undo(disk: &mut Target<'_>) -> Result<(), ApplyError> {
//!     let backup = Backup::load(Path::new("plan.json.undo"))?;
//!     let backed_up = backup.undo(disk, LaterWrites::Refuse)?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use std::path::Path;
//! # use straddle_repair::{apply::{ApplyError, Backup, LaterWrites}, Target};
//! fn undo(disk: &mut Target<'_>) -> Result<(), ApplyError> {
//!     let backup = Backup::load(Path::new("plan.json.undo"))?;
//!     let backed_up = backup.undo(disk, LaterWrites::Refuse)?;
//!     backed_up.write()?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail,E0277
//! # use straddle_repair::apply::Backup;
//! fn made_up(json: &str) -> Backup {
//!     serde_json::from_str(json).unwrap()
//! }
//! ```

mod backup;
mod earlier;
mod error;
mod prepared;
mod undo;
mod written;

pub use backup::{Backup, BackupError};
pub use earlier::Progress;
pub use error::ApplyError;
pub use prepared::Prepared;
pub use undo::LaterWrites;
pub use written::{BackedUp, Written};

pub(crate) use prepared::{check_identity as recognise_disk, recognise};
pub(crate) use written::{Expected, check_kernel, differing, tell_kernel};
