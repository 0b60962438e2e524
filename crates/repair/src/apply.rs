//! Writing: the only code of the project that changes what is on a disk that it was not given to play with.
//!
//! The law of this module: nothing is written before the disk is known to be the plan's, nobody uses it, and every byte that
//! will be overwritten is in a backup on stable storage; nothing is said to be done before it was read back. The types hold
//! it: a [`Prepared`] becomes a [`BackedUp`], and that a [`Written`]. An undo starts with a stored [`Backup`], which makes a
//! [`BackedUp`].
//!
//! ```
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, disk::FileDisk};
//! fn apply(disk: &mut FileDisk, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan, None)?;
//!     let backed_up = prepared.back_up(Path::new("plan.json.undo"))?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Without a stored backup there is nothing to call:
//!
//! ```compile_fail,E0599
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, disk::FileDisk};
//! fn apply(disk: &mut FileDisk, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan, None)?;
//!     prepared.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Nothing is written twice:
//!
//! ```compile_fail,E0382
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, disk::FileDisk};
//! fn apply(disk: &mut FileDisk, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan, None)?;
//!     let backed_up = prepared.back_up(Path::new("plan.json.undo"))?;
//!     backed_up.write()?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Nothing else happens to the disk between the look at it and the write:
//!
//! ```compile_fail,E0499
//! # use std::path::Path;
//! # use straddle_repair::{Plan, apply::{ApplyError, Prepared}, disk::{Disk, FileDisk}};
//! fn apply(disk: &mut FileDisk, plan: &Plan) -> Result<(), ApplyError> {
//!     let prepared = Prepared::of(disk, plan, None)?;
//!     let backed_up = prepared.back_up(Path::new("plan.json.undo"))?;
//!     disk.flush().unwrap();
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! Steps are read, and cannot be made by hand:
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
//! Nor can anything that is written from:
//!
//! ```compile_fail,E0451
//! # use straddle_repair::{Step, apply::BackedUp, disk::FileDisk};
//! fn pretend(disk: &mut FileDisk, steps: Vec<Step>) -> BackedUp<'_> {
//!     BackedUp { disk, plan: None, steps }
//! }
//! ```
//!
//! A disk takes bytes only from here, and its file is not given away:
//!
//! ```compile_fail,E0423
//! # use straddle_repair::disk::{Disk, FileDisk, WritePermit};
//! # use straddle_units::ByteOffset;
//! fn write(disk: &mut FileDisk) {
//!     disk.write_at(ByteOffset::new(0), &[0; 512], &WritePermit(())).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0616
//! # use straddle_repair::disk::FileDisk;
//! fn file(disk: &FileDisk) -> &std::fs::File {
//!     &disk.file
//! }
//! ```
//!
//! An undo takes a backup that was stored, once:
//!
//! ```
//! # use std::path::Path;
//! # use straddle_repair::{apply::{ApplyError, Backup, LaterWrites}, disk::FileDisk};
//! fn undo(disk: &mut FileDisk) -> Result<(), ApplyError> {
//!     let backup = Backup::load(Path::new("plan.json.undo"))?;
//!     let backed_up = backup.undo(disk, None, LaterWrites::Refuse)?;
//!     backed_up.write()?;
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use std::path::Path;
//! # use straddle_repair::{apply::{ApplyError, Backup, LaterWrites}, disk::FileDisk};
//! fn undo(disk: &mut FileDisk) -> Result<(), ApplyError> {
//!     let backup = Backup::load(Path::new("plan.json.undo"))?;
//!     let backed_up = backup.undo(disk, None, LaterWrites::Refuse)?;
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

use written::check_kernel;
