//! Writing: the only code of the project that changes what is on a disk that it was not given to play with.
//!
//! The law of this module: nothing is written before the disk is known to be the plan's, nobody uses it, and every byte that
//! will be overwritten is in a backup on stable storage; nothing is said to be done before it was read back.

mod backup;

use std::io;

use straddle_device::{Medium, ReadError};
use straddle_layout::{Role, Stack, read_stack};
use straddle_units::{ByteCount, ByteOffset};

use crate::disk::{Disk, DiskError};
use crate::encode::{Step, encode};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::foresee::{self, lay_over};
use crate::lost::Lost;
use crate::plan::{Change, Plan, Slot};

pub use backup::{Backup, BackupError};

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The disk is not the one that the plan, or the backup, was made for, or is no longer as it was. Nothing was written.
    #[error("nothing was written: {0}")]
    OtherDisk(String),
    /// It cannot be opened. Nothing was written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Somebody uses it. Nothing was written.
    #[error("nothing was written: it is in use: {0}")]
    InUse(String),
    /// The plan cannot be encoded. Nothing was written.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The backup cannot be kept, or read. Nothing was written.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The disk cannot be read.
    #[error("the disk cannot be read")]
    Read(#[from] ReadError),
    /// A write failed: the table is the old one or the new one, and the backup has what was there.
    #[error("writing {what} at byte {at} failed: undo with the backup")]
    Write {
        /// What was written.
        what: String,
        /// Where.
        at: u64,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// What was written is not what is read.
    #[error(
        "{what} at byte {at} reads differently from what was written: do not trust this disk; undo with the backup"
    )]
    Differs {
        /// What was written.
        what: String,
        /// Where.
        at: u64,
    },
    /// What would be written is not read as the plan's table. Nothing was written.
    #[error("nothing was written: with these changes the table would be read as another one: {0}")]
    WouldDiffer(String),
    /// The kernel did not take the new table.
    #[error("the table is written, but {0}")]
    Kernel(String),
}

/// The steps that `plan` takes on `disk`, once it is certain that it is the plan's disk.
pub fn prepare(disk: &dyn Disk, plan: &Plan, serial: Option<&str>) -> Result<Vec<Step>, ApplyError> {
    plan.validate()?;
    let block = plan.block()?;
    let size = disk.len().get();
    if size != plan.disk.size {
        return Err(ApplyError::OtherDisk(format!(
            "the plan is for a disk of {} bytes, and this one has {size}",
            plan.disk.size
        )));
    }
    if plan.disk.serial.as_deref() != serial {
        let told = |serial: Option<&str>| {
            serial.map_or_else(
                || "without a serial number".to_owned(),
                |s| format!("with the serial number {s}"),
            )
        };
        return Err(ApplyError::OtherDisk(format!(
            "the plan is for a disk {}, and this is one {}",
            told(plan.disk.serial.as_deref()),
            told(serial)
        )));
    }
    let stack = plan.read_present(as_medium(disk))?;
    let found = Fingerprint::of(as_medium(disk), &stack, block, plan.disk.serial.clone())?;
    if found != plan.disk {
        return Err(ApplyError::OtherDisk(
            "the table on it is not the one that the plan was made for: plan again".to_owned(),
        ));
    }
    check_kept(plan, &stack)?;
    check_lost(plan, as_medium(disk), &stack)?;
    if plan.converts.is_some() {
        // The table is as it was; what is in the partitions may not be.
        crate::contents::check(as_medium(disk), &stack, block)?;
    }
    let steps = encode(plan, as_medium(disk), &stack)?;
    foresee::check(as_medium(disk), plan, &steps)?;
    Ok(steps)
}

/// Whether nothing is lost that the plan does not name: what is in a disk without a table is not in its fingerprint.
fn check_lost(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<(), ApplyError> {
    if plan.converts.is_some() {
        return Ok(());
    }
    let wipes = !plan.wipe.is_empty();
    let found = crate::lost::find(medium, stack, (&plan.table, plan.block()?), plan.fresh, wipes)?;
    // What was unknown and is now known counts; another label does not.
    let is_told = |lost: &&Lost| {
        plan.lost.iter().any(|told| (told.partition, &told.content) == (lost.partition, &lost.content))
    };
    match found.iter().find(|lost| !is_told(lost)) {
        None => Ok(()),
        Some(lost) => Err(ApplyError::OtherDisk(format!(
            "the plan does not say that this would be lost: {lost}: plan again"
        ))),
    }
}

/// Whether what the plan says to keep is there: a file may say anything.
fn check_kept(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    if plan.converts.is_some() {
        return check_converted(plan, stack);
    }
    for entry in &plan.table.partitions {
        let sectors = match entry.change {
            Change::New => continue,
            Change::Kept => entry.sectors,
            Change::Grown { from } => from,
        };
        let is_there =
            |p: &straddle_layout::Partition| p.start.get() == entry.start && p.count.get() == sectors;
        if plan.fresh || !stack.partitions.iter().any(is_there) {
            let number = entry.number;
            return Err(
                PlanError::Invalid(format!("partition {number}, which it keeps, is not there")).into()
            );
        }
    }
    Ok(())
}

/// Whether the converted table lists the partitions that are there, each with its bytes.
fn check_converted(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    let is_same = |partition: &straddle_layout::Partition| {
        let entry = plan.table.partitions.iter().find(|entry| entry.number == partition.number);
        entry.is_some_and(|entry| match partition.role {
            // Its records, and so its start, move.
            Role::Extended => entry.slot == Slot::Extended,
            Role::Primary => entry.slot == Slot::Primary && plan.span(entry) == Some(partition.span),
            Role::Logical { .. } => {
                matches!(entry.slot, Slot::Logical { .. }) && plan.span(entry) == Some(partition.span)
            }
        })
    };
    if stack.partitions.len() == plan.table.partitions.len() && stack.partitions.iter().all(is_same) {
        return Ok(());
    }
    let why = "the partitions that it converts are not those that are there".to_owned();
    Err(PlanError::Invalid(why).into())
}

fn as_medium(disk: &dyn Disk) -> &dyn straddle_device::Medium {
    disk
}

/// Writes `steps`, and reads everything back. [`Backup::store`] has to have kept what they overwrite.
pub fn write(disk: &mut dyn Disk, steps: &[Step]) -> Result<(), ApplyError> {
    for step in steps {
        match step {
            Step::Write { at, new, what, .. } => disk
                .write_at(ByteOffset::new(*at), new)
                .map_err(|source| ApplyError::Write { what: what.clone(), at: *at, source })?,
            Step::Flush => flush(disk)?,
        }
    }
    flush(disk)?;
    verify(disk, steps)
}

fn flush(disk: &mut dyn Disk) -> Result<(), ApplyError> {
    disk.flush().map_err(|source| ApplyError::Write { what: "the cache".to_owned(), at: 0, source })
}

/// Compares what is on the disk with what was written last at each place.
fn verify(disk: &dyn Disk, steps: &[Step]) -> Result<(), ApplyError> {
    for (index, step) in steps.iter().enumerate() {
        let Step::Write { at, new, what, .. } = step else { continue };
        let mut found = vec![0; new.len()];
        disk.read_at(ByteOffset::new(*at), &mut found)?;
        // A later step may have written over a part of it.
        let mut expected = new.clone();
        for later in &steps[index + 1..] {
            if let Step::Write { at: from, new, .. } = later {
                lay_over(&mut expected, *at, new, *from);
            }
        }
        if found != expected {
            return Err(ApplyError::Differs { what: what.clone(), at: *at });
        }
    }
    Ok(())
}

/// Whether the table that is read from `disk` is the plan's: every partition with its number, place and type.
pub fn agrees(disk: &dyn Disk, plan: &Plan) -> Result<(), ApplyError> {
    let stack = read_stack(as_medium(disk), Some(plan.block()?), None)?;
    match foresee::difference(&stack, &plan.table) {
        None => Ok(()),
        Some(why) => Err(ApplyError::Differs { what: format!("the table ({why})"), at: 0 }),
    }
}

/// How many bytes the steps write.
pub fn written(steps: &[Step]) -> ByteCount {
    let len = |step: &Step| match step {
        Step::Write { new, .. } => u64::try_from(new.len()).unwrap_or(u64::MAX),
        Step::Flush => 0,
    };
    ByteCount::new(steps.iter().map(len).sum())
}

/// Has the kernel read the table of a block device, and compares what it then lists with `plan`'s table, or the table that
/// is read from the disk where there is no plan (after an undo).
pub fn tell_kernel(disk: &crate::disk::FileDisk, name: &str, plan: Option<&Plan>) -> Result<(), ApplyError> {
    straddle_device::ioctl::reread_partitions(disk.file()).map_err(|error| {
        ApplyError::Kernel(format!(
            "the kernel still has the former one in use ({error}): reboot before using the disk"
        ))
    })?;
    let directory = straddle_device::sysfs::Directory::new(std::path::Path::new("/sys/block").join(name));
    let mut found: Vec<(u32, u64)> = straddle_device::sysfs::partitions(&directory)
        .iter()
        .map(|partition| (partition.number, partition.span.start().get()))
        .collect();
    found.sort_unstable();
    let Some(plan) = plan else { return Ok(()) };
    let block = plan.disk.sector;
    let mut wanted: Vec<(u32, u64)> =
        plan.table.partitions.iter().map(|entry| (entry.number, entry.start.saturating_mul(block))).collect();
    wanted.sort_unstable();
    // Kernels without room for so many minors list none at all.
    if found != wanted {
        return Err(ApplyError::Kernel(format!(
            "the kernel lists partitions (number, byte) {found:?}, where the table has {wanted:?}"
        )));
    }
    Ok(())
}
