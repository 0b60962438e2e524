//! The second and third stages: steps whose backup is stored may be written, once.
//!
//! Invariants: a [`BackedUp`] is made only when every byte that its steps overwrite is in a file on stable
//! storage; a [`Written`] only when what was written has been read back.

use std::io;
use std::path::Path;

use straddle_device::ReadError;
use straddle_device::shown::with_causes;
use straddle_device::sysfs::{self, Attributes, KernelPartition};
use straddle_layout::{Partition, Role, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::ApplyError;
use super::backup::{BackupFile, Subject};
use crate::encode::{Step, writes};
use crate::fingerprint::bytes_at;
use crate::foresee::{difference, lay_steps};
use crate::plan::{Entry, Plan, Slot};
use crate::target::{Disk, directory_of};

/// Steps together with their disk; what they overwrite is stored in a backup. Nothing is written yet.
///
/// The only next stage is [`write`](Self::write); see [`apply`](super) for all stages.
pub struct BackedUp<'a> {
    pub(super) disk: &'a mut dyn Disk,
    /// The plan that the disk is to match afterwards; an undo has none.
    pub(super) plan: Option<&'a Plan>,
    pub(super) steps: Vec<Step>,
}

impl<'a> BackedUp<'a> {
    /// Stores what `steps`, which restore the table of a move, overwrite in a new file at `path`. The table
    /// has the marker if `is_marker`.
    pub(crate) fn of_restored(
        disk: &'a mut dyn Disk,
        steps: Vec<Step>,
        (is_marker, path): (bool, &Path),
    ) -> Result<Self, ApplyError> {
        let subject = if is_marker { Subject::Marker } else { Subject::Table };
        BackupFile::of(subject, &steps, disk).store(path)?;
        Ok(Self { disk, plan: None, steps })
    }

    /// The steps to be written, for display.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Writes the steps and verifies them by reading back: the bytes, and with a plan also the table.
    pub fn write(self) -> Result<Written<'a>, ApplyError> {
        let Self { disk, plan, steps } = self;
        check_unchanged(disk, &steps)?;
        for step in &steps {
            match step {
                Step::Write { at, new, what, .. } => disk
                    .write_at(ByteOffset::new(*at), new)
                    .map_err(|source| ApplyError::Write { what: what.clone(), at: *at, source })?,
                Step::Flush => flush(disk)?,
            }
        }
        flush(disk)?;
        if let Some((what, at, _)) = differing(disk, &steps)? {
            return Err(ApplyError::Differs { what, at });
        }
        if let Some(plan) = plan
            && let Some(why) = difference(&read_stack(disk, Some(plan.block()), None)?, &plan.table)
        {
            return Err(ApplyError::OtherTable(why));
        }
        Ok(Written { disk, plan, steps })
    }
}

/// A disk whose changes were written and read back.
pub struct Written<'a> {
    disk: &'a dyn Disk,
    plan: Option<&'a Plan>,
    steps: Vec<Step>,
}

impl Written<'_> {
    /// The number of bytes written.
    pub fn bytes(&self) -> ByteCount {
        ByteCount::new(writes(&self.steps).map(|(_, _, new, _)| new.len() as u64).sum())
    }

    /// The number of separate writes.
    pub fn places(&self) -> usize {
        writes(&self.steps).count()
    }

    /// Has the kernel reread the partition table of a block device, and compares the partitions it then lists
    /// with the plan's table. Does nothing for an image, whose table no kernel reads.
    pub fn tell_kernel(&self) -> Result<(), ApplyError> {
        tell_kernel(self.disk, self.plan.map(Expected::of))
    }
}

/// The partitions that the kernel is to list: number, first byte, and length, except of an extended one, of
/// which it lists only the beginning.
pub(crate) struct Expected(Vec<(u32, u64, Option<u64>)>);

impl Expected {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self::with(&plan.table.partitions, plan.block())
    }

    pub(crate) fn before(plan: &Plan) -> Self {
        Self::with(&plan.before, plan.block())
    }

    fn with(entries: &[Entry], block: BlockSize) -> Self {
        let of = |entry: &Entry| {
            let len = (entry.slot != Slot::Extended).then(|| entry.sectors.get().saturating_mul(block.get()));
            (entry.number, entry.start.byte(block).get(), len)
        };
        let mut listed: Vec<_> = entries.iter().map(of).collect();
        listed.sort_unstable();
        Self(listed)
    }

    /// Those of the table on the disk.
    fn on(disk: &dyn Disk) -> Option<Self> {
        let stack = read_stack(disk, disk.identity().sector, None).ok()?;
        let of = |partition: &Partition| {
            let len = (partition.role != Role::Extended).then(|| partition.span.len().get());
            (partition.number, partition.span.start().get(), len)
        };
        Some(Self(stack.partitions.iter().map(of).collect()))
    }

    fn has(&self, listed: &KernelPartition) -> bool {
        let (start, len) = (listed.span.start().get(), listed.span.len().get());
        self.0
            .iter()
            .any(|(number, at, of)| (*number, *at) == (listed.number, start) && of.is_none_or(|of| of == len))
    }
}

/// Has the kernel reread the table of `disk`, and compares the partitions it then lists with `wanted`.
pub(crate) fn tell_kernel(disk: &dyn Disk, wanted: Option<Expected>) -> Result<(), ApplyError> {
    let Some(name) = &disk.identity().kernel_name else { return Ok(()) };
    let directory = directory_of(name);
    let Some(read) = disk.reread_table() else { return Ok(()) };
    let found = sysfs::partitions(&directory);
    let known = if wanted.is_none() && read.is_err() { Expected::on(disk) } else { None };
    let table = wanted.as_ref().or(known.as_ref());
    let former = found.iter().filter(|listed| table.is_some_and(|table| !table.has(listed)));
    let former: Vec<&str> = former.map(|listed| listed.name.as_str()).collect();
    if let (Err(error), false) = (&read, former.is_empty()) {
        let why = match error.os_kind() {
            io::ErrorKind::ResourceBusy => "one of its partitions is open",
            _ => "it cannot read the new table",
        };
        return Err(ApplyError::Kernel(format!(
            "the kernel still uses the old positions of partitions ({}), because {why} ({}). Before using \
             the disk, remove them with 'partx -d {}', or reboot",
            former.join(", "),
            with_causes(error),
            sysfs::node_of(name).display()
        )));
    }
    if let Err(error) = read {
        let has_all = !found.is_empty() && table.is_some_and(|table| table.0.len() == found.len());
        // There is nothing that could be out of date.
        let has_none = found.is_empty() && directory.list("holders").is_empty();
        if has_all || (has_none && sysfs::never_lists_partitions(name, &directory).is_some()) {
            return Ok(());
        }
        return Err(ApplyError::Kernel(format!(
            "the kernel cannot read it ({}): {}",
            with_causes(&error),
            way_out(name)
        )));
    }
    let Some(Expected(wanted)) = wanted else { return Ok(()) };
    let found: Vec<_> = found.iter().map(|listed| (listed.number, listed.span.start().get())).collect();
    let wanted: Vec<_> = wanted.into_iter().map(|(number, start, _)| (number, start)).collect();
    // A kernel without enough minor numbers lists no partitions at all.
    if found != wanted {
        let what = if found.is_empty() { "none of its partitions" } else { "other partitions" };
        return Err(ApplyError::Kernel(format!("the kernel lists {what}: {}", way_out(name))));
    }
    Ok(())
}

/// What makes the kernel list the partitions of the device `name`.
fn way_out(name: &str) -> String {
    let attach = match name.starts_with("loop") {
        true => ", or attach the image again with 'losetup -P' (--partscan),",
        false => "",
    };
    format!("before using the disk, run 'partprobe {}'{attach}", sysfs::node_of(name).display())
}

/// Checks that the disk still holds what the backup has: a program that takes no locks may have written.
fn check_unchanged(disk: &dyn Disk, steps: &[Step]) -> Result<(), ApplyError> {
    for (index, step) in steps.iter().enumerate() {
        let Step::Write { at, old, what, .. } = step else { continue };
        let mut found = bytes_at(disk, ByteOffset::new(*at), old.len())?;
        // An earlier step may write to the same place.
        let mut expected = old.clone();
        lay_steps(&mut expected, *at, &steps[..index]);
        lay_steps(&mut found, *at, &steps[..index]);
        if found != expected {
            let why = format!(
                "{what} at byte {at} has changed since it was saved: another program is writing to it"
            );
            return Err(ApplyError::InUse(why));
        }
    }
    Ok(())
}

fn flush(disk: &mut dyn Disk) -> Result<(), ApplyError> {
    disk.flush().map_err(|source| ApplyError::Flush { source })
}

/// What the medium does not return as it was last written: its name, first byte and length.
pub(crate) fn differing(disk: &dyn Disk, steps: &[Step]) -> Result<Option<(String, u64, u64)>, ReadError> {
    for (index, step) in steps.iter().enumerate() {
        let Step::Write { at, new, what, .. } = step else { continue };
        let start = ByteOffset::new(*at);
        if let Some(span) = Span::of_buffer(start, new) {
            disk.drop_cache(span);
        }
        let found = bytes_at(disk, start, new.len())?;
        // A later step may have overwritten part of it.
        let mut expected = new.clone();
        lay_steps(&mut expected, *at, &steps[index + 1..]);
        if found != expected {
            return Ok(Some((what.clone(), *at, new.len() as u64)));
        }
    }
    Ok(None)
}

/// Has the kernel reread the present table of a block device before anything is written. BLKRRPART fails
/// while any process has a partition open, and would then also fail for the new table.
pub(crate) fn check_kernel(disk: &dyn Disk) -> Result<(), ApplyError> {
    match disk.reread_table() {
        Some(Err(error)) if error.os_kind() == io::ErrorKind::ResourceBusy => {
            Err(ApplyError::InUse(format!("one of its partitions is open ({})", with_causes(&error))))
        }
        // A kernel that reads no tables, or none from this device, has none to replace.
        _ => Ok(()),
    }
}
