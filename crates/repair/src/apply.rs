//! Writing: the only code of the project that changes what is on a disk that it was not given to play with.
//!
//! The law of this module: nothing is written before the disk is known to be the plan's, nobody uses it, and every byte that
//! will be overwritten is in a backup on stable storage; nothing is said to be done before it was read back.

mod backup;
mod earlier;

use std::io;

use straddle_device::ioctl::reread_partitions;
use straddle_device::sysfs::Directory;
use straddle_device::{Medium, ReadError};
use straddle_layout::{Partition, Role, Stack, read_stack};
use straddle_units::{ByteCount, ByteOffset};

use crate::disk::{Disk, DiskError, FileDisk};
use crate::encode::{Step, encode};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::foresee::{self, lay_over};
use crate::lost::Lost;
use crate::plan::{Change, Entry, Plan, Slot};

pub use backup::{Backup, BackupError};
pub use earlier::Progress;

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
    /// A partition that the plan made holds something now.
    #[error(
        "nothing was written: partition {partition} has been written to since ({size} bytes from byte {start} on are not as they \
         were), and what is in it would be lost with it"
    )]
    WrittenSince {
        /// The partition's number.
        partition: u32,
        /// The first byte that was compared.
        start: u64,
        /// How many were.
        size: u64,
    },
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
        let number = entry.number;
        let invalid = |what: &str| {
            Err(PlanError::Invalid(format!("partition {number}, which it keeps, {what}")).into())
        };
        let is_there = |p: &&Partition| p.start.get() == entry.start && p.count.get() == sectors;
        let mut same: Vec<&Partition> = stack.partitions.iter().filter(is_there).collect();
        same.sort_by_key(|p| p.number != number);
        let Some(present) = same.first().filter(|_| !plan.fresh) else {
            return invalid("is not there");
        };
        let was = crate::plan::kept(present);
        // Logical partitions are counted along the chain: their numbers follow from those that go or come before them, and
        // where the first goes its record becomes the next one's.
        let is_renumbered = match (entry.slot, was.slot) {
            (Slot::Logical { .. }, Slot::Logical { .. }) => false,
            (slot, was_slot) => slot != was_slot || number != was.number,
        };
        if is_renumbered {
            return invalid(&format!("is partition {} on the disk", was.number));
        }
        let told = (&entry.kind, &entry.uuid, &entry.name, entry.attributes, entry.bootable);
        if told != (&was.kind, &was.uuid, &was.name, was.attributes, was.bootable) {
            return invalid("has another type, identity, name, attributes or active flag on the disk");
        }
    }
    check_numbers(plan, stack)
}

/// Whether logical partitions have the numbers that they will have: the kernel counts them along the chain.
fn check_numbers(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    let invalid = |number: u32, what: &str| {
        ApplyError::from(PlanError::Invalid(format!("logical partition {number}, which it keeps, {what}")))
    };
    let mut kept: Vec<(&Entry, u32, u64)> = Vec::new();
    for entry in &plan.table.partitions {
        let Slot::Logical { ebr } = entry.slot else { continue };
        if entry.change == Change::New {
            continue;
        }
        let found = stack.partitions.iter().find(|p| p.start.get() == entry.start);
        let Some(Role::Logical { ebr: was }) = found.map(|p| p.role) else {
            return Err(invalid(entry.number, "is not one on the disk"));
        };
        let first = stack.partitions.iter().find(|p| p.role == Role::Extended).map(|p| p.start.get());
        if ebr != was.get() && Some(ebr) != first {
            return Err(invalid(entry.number, "has another record on the disk"));
        }
        kept.extend(found.map(|p| (entry, p.number, ebr)));
    }
    kept.sort_by_key(|(_, was, _)| *was);
    match kept.iter().zip(5..).find(|((entry, ..), number)| entry.number != *number) {
        None => Ok(()),
        Some(((entry, was, _), number)) => {
            Err(invalid(entry.number, &format!("is partition {was} on the disk, and would become {number}")))
        }
    }
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

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Has the kernel read the present table of a block device again, before anything is written: it refuses while a partition is
/// open (BLKRRPART), by whomever, and so would refuse the new one.
pub fn check_kernel(disk: &FileDisk) -> Result<(), ApplyError> {
    if !disk.is_device() {
        return Ok(());
    }
    match reread_partitions(disk.file()) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Err(ApplyError::InUse(format!("somebody has a partition of it open ({})", told(&error))))
        }
        // A kernel that reads no tables, or none of this device, has none to give up.
        _ => Ok(()),
    }
}

/// Has the kernel read the table of a block device, and compares what it then lists with `plan`'s table, or the table that
/// is read from the disk where there is no plan (after an undo).
pub fn tell_kernel(disk: &FileDisk, name: &str, plan: Option<&Plan>) -> Result<(), ApplyError> {
    let directory = Directory::new(std::path::Path::new("/sys/block").join(name));
    let listed = || -> Vec<(u32, u64)> {
        let mut found: Vec<(u32, u64)> = straddle_device::sysfs::partitions(&directory)
            .iter()
            .map(|partition| (partition.number, partition.span.start().get()))
            .collect();
        found.sort_unstable();
        found
    };
    let former = listed();
    if let Err(error) = reread_partitions(disk.file()) {
        let still = error.kind() == io::ErrorKind::ResourceBusy && !former.is_empty();
        return Err(ApplyError::Kernel(if still {
            format!(
                "the kernel still has the former one, a partition of which somebody has open ({}): reboot before using the disk",
                told(&error)
            )
        } else {
            format!("the kernel does not read it ({})", told(&error))
        }));
    }
    let found = listed();
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
