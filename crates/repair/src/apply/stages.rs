//! The three stages of writing.
//!
//! Invariants: a [`Prepared`] exists only if the disk is the plan's and the steps were made from that plan; a
//! [`BackedUp`] only when every byte that its steps overwrite is in a file on stable storage; a [`Written`] only when
//! it has been read back.

use std::io;
use std::path::Path;

use straddle_device::shown::with_causes;
use straddle_device::sysfs::{self, Attributes, KernelPartition};
use straddle_device::{Medium, ReadError};
use straddle_layout::{Partition, Problem, Role, Stack, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::ApplyError;
use super::backup::{BackupFile, Subject};
use crate::encode::{Step, encode, writes};
use crate::error::{PlanError, UNFINISHED};
use crate::fingerprint::{Fingerprint, bytes_at};
use crate::foresee;
use crate::foresee::{difference, lay_steps};
use crate::lost::Lost;
use crate::plan::{Change, Entry, Plan, Slot};
use crate::target::{Disk, Target, directory_of};

/// Steps together with their disk; what they overwrite is stored in a backup. Nothing is written yet.
///
/// The only next stage is [`write`](Self::write); see [`apply`](super) for all stages.
pub struct BackedUp<'a> {
    pub(super) disk: &'a mut dyn Disk,
    /// An undo has none.
    pub(super) plan: Option<&'a Plan>,
    pub(super) steps: Vec<Step>,
}

impl<'a> BackedUp<'a> {
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

    /// Has the kernel reread the partition table of a block device, and compares the partitions it then lists
    /// with the plan's table. Does nothing for an image, whose table no kernel reads.
    pub fn tell_kernel(&self) -> Result<(), ApplyError> {
        tell_kernel(self.disk, self.plan.map(Expected::of))
    }
}

/// The partitions that the kernel is to list: number, first byte, and length (`None` for an extended one, of
/// which it lists only the beginning).
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
            io::ErrorKind::ResourceBusy => "a partition of the disk is open",
            _ => "the kernel cannot read the new table",
        };
        return Err(ApplyError::Kernel(format!(
            "the kernel still lists partitions at their old positions ({}), because {why} ({}). Before using \
             the disk, remove these partitions with 'partx -d {}', or reboot",
            former.join(", "),
            with_causes(error),
            sysfs::node_of(name).display()
        )));
    }
    if let Err(error) = read {
        let has_all = !found.is_empty() && table.is_some_and(|table| table.0.len() == found.len());
        let has_none = found.is_empty() && directory.list("holders").is_empty();
        if has_all || (has_none && sysfs::never_lists_partitions(name, &directory).is_some()) {
            return Ok(());
        }
        return Err(ApplyError::Kernel(format!(
            "the kernel cannot read it ({}); {}",
            with_causes(&error),
            way_out(name)
        )));
    }
    let Some(Expected(wanted)) = wanted else { return Ok(()) };
    let found: Vec<_> = found.iter().map(|listed| (listed.number, listed.span.start().get())).collect();
    let wanted: Vec<_> = wanted.into_iter().map(|(number, start, _)| (number, start)).collect();
    // A kernel without enough minor numbers lists no partitions at all.
    if found != wanted {
        let what = if found.is_empty() { "none of the table's partitions" } else { "other partitions" };
        return Err(ApplyError::Kernel(format!("the kernel lists {what}; {}", way_out(name))));
    }
    Ok(())
}

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
                "{what} at byte {at} has changed since it was saved, so another program is writing to the \
                 disk"
            );
            return Err(ApplyError::InUse(why));
        }
    }
    Ok(())
}

fn flush(disk: &mut dyn Disk) -> Result<(), ApplyError> {
    disk.flush().map_err(|source| ApplyError::Flush { source })
}

/// What the medium does not return as it was last written: name, first byte and length.
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

/// Has the kernel reread the present table. BLKRRPART fails while any process has a partition open, and would
/// then also fail for the new table.
pub(crate) fn check_kernel(disk: &dyn Disk) -> Result<(), ApplyError> {
    match disk.reread_table() {
        Some(Err(error)) if error.os_kind() == io::ErrorKind::ResourceBusy => {
            Err(ApplyError::InUse(format!("a partition of the disk is open ({})", with_causes(&error))))
        }
        // A kernel that reads no tables, or none from this device, has none to replace.
        _ => Ok(()),
    }
}

/// The steps of a plan, together with the disk that it was made for. Nothing is written yet.
///
/// The only next stage is [`back_up`](Self::back_up); see [`apply`](super) for all stages.
pub struct Prepared<'a> {
    disk: &'a mut dyn Disk,
    plan: &'a Plan,
    stack: Stack,
    steps: Vec<Step>,
}

impl<'a> Prepared<'a> {
    /// Checks `plan` against `target` and its contents.
    pub fn of(target: &'a mut Target<'_>, plan: &'a Plan) -> Result<Self, ApplyError> {
        let stack = recognise(target, plan)?;
        check_kept(plan, &stack)?;
        check_lost(plan, target, &stack)?;
        check_whole(plan, target)?;
        if plan.converts.is_some() {
            // The fingerprint covers the table, but not the contents of the partitions.
            crate::contents::check(target, &stack, plan.block())?;
        }
        let steps = encode(plan, target, &stack)?;
        foresee::check(target, plan, &steps)?;
        Ok(Self { disk: target, plan, stack, steps })
    }

    /// The steps to be written, for display.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Stores the bytes that will be overwritten in a new file at `path`, after checking that the kernel
    /// would accept a new table for the disk.
    pub fn back_up(self, path: &Path) -> Result<BackedUp<'a>, ApplyError> {
        let Self { disk, plan, stack, steps } = self;
        check_kernel(disk)?;
        BackupFile::of_plan(plan, &stack, &steps, disk)?.store(path)?;
        Ok(BackedUp { disk, plan: Some(plan), steps })
    }
}

pub(crate) fn recognise(disk: &dyn Disk, plan: &Plan) -> Result<Stack, ApplyError> {
    check_identity(disk, plan)?;
    let (block, planned) = (plan.block(), &plan.disk);
    let stack = plan.read_present(disk)?;
    refuse_unfinished(disk, &stack)?;
    let found = Fingerprint::of(disk, &stack, block, planned.serial.clone())?;
    if found == *planned {
        return Ok(stack);
    }
    let why = "its partition table differs from the one that the plan was made for; plan again";
    Err(ApplyError::OtherDisk(why.to_owned()))
}

pub(super) fn refuse_unfinished(disk: &dyn Medium, stack: &Stack) -> Result<(), ApplyError> {
    let is_marked = straddle_layout::marker(disk, stack)?.is_some();
    if is_marked || crate::realign::unmarked(disk, stack).is_some() {
        return Err(ApplyError::OtherDisk(UNFINISHED.to_owned()));
    }
    Ok(())
}

/// Refuses a change where contents reach past the end of their partition, unless it makes that large enough.
fn check_whole(plan: &Plan, disk: &dyn Disk) -> Result<(), ApplyError> {
    if plan.fresh || plan.converts.is_some() {
        return Ok(());
    }
    let stack = straddle_layout::read_all(disk, Some(plan.block()), None)?;
    let has_room = |problem: &&Problem| {
        let Problem::CutShort { number: Some(number), recorded, .. } = problem else { return false };
        let present = stack.partitions.iter().find(|partition| partition.number == *number);
        let mut spans = plan.table.spans(plan.block());
        present.is_some_and(|present| {
            spans.any(|span| span.start() == present.span.start() && span.len() >= *recorded)
        })
    };
    let cut_short = stack.cut_short().find(|problem| !has_room(problem));
    cut_short.map_or(Ok(()), |problem| Err(ApplyError::CutShort(problem.to_string())))
}

pub(crate) fn check_identity(disk: &dyn Disk, plan: &Plan) -> Result<(), ApplyError> {
    let (block, planned, identity) = (plan.block(), &plan.disk, disk.identity());
    let refuse = |why: String| Err(ApplyError::OtherDisk(why));
    let (size, wanted) = (disk.len().get(), planned.size.get());
    if size != wanted {
        return refuse(format!("the plan is for a disk of {wanted} bytes, but this disk has {size}"));
    }
    if let Some(sector) = identity.sector.filter(|sector| *sector != block) {
        return refuse(format!("the plan uses {block}-byte sectors, but the disk has {sector}-byte sectors"));
    }
    if planned.serial == identity.serial {
        return Ok(());
    }
    let numbered = |serial: Option<&String>| {
        serial.map_or_else(|| "without a serial number".to_owned(), |s| format!("with the serial number {s}"))
    };
    let (wanted, found) = (numbered(planned.serial.as_ref()), numbered(identity.serial.as_ref()));
    refuse(format!("the plan is for a disk {wanted}, but this is a disk {found}"))
}

/// The fingerprint does not cover the contents of a disk without a table.
fn check_lost(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<(), ApplyError> {
    if plan.converts.is_some() {
        return Ok(());
    }
    let wipes = !plan.wipe.is_empty();
    let found = crate::lost::find(medium, stack, (&plan.table, plan.block()), plan.fresh, wipes)?;
    // Newly recognised content counts; a changed label does not.
    let is_reported = |lost: &&Lost| {
        plan.lost.iter().any(|listed| {
            (listed.partition, &listed.content) == (lost.partition, &lost.content)
                && listed.at.contains(lost.at)
        })
    };
    found.iter().find(|lost| !is_reported(lost)).map_or(Ok(()), |lost| {
        Err(ApplyError::OtherDisk(format!(
            "contents that the plan does not list would be lost: {lost}; plan again"
        )))
    })
}

/// A plan file may say anything about what it keeps.
fn check_kept(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    if plan.converts.is_some() {
        return check_converted(plan, stack);
    }
    let first = stack.partitions.iter().find(|p| p.role == Role::Extended).map(|p| p.start);
    for entry in &plan.table.partitions {
        let sectors = match entry.change {
            Change::New => continue,
            Change::Kept => entry.sectors,
            Change::Grown { from } => from,
            Change::Moved { .. } => return Err(PlanError::MovesData(entry.number).into()),
        };
        let number = entry.number;
        let invalid = |what: &str| {
            Err(PlanError::Invalid(format!("partition {number}, which the plan keeps, {what}")).into())
        };
        let same = stack.partitions.iter().filter(|p| p.start == entry.start && p.count == sectors);
        let Some(present) = same.min_by_key(|p| p.number != number).filter(|_| !plan.fresh) else {
            return invalid("is missing");
        };
        let was = crate::plan::kept(present);
        // The number of a logical partition depends on those before it, and is compared when the steps are
        // known. If the first one is removed, the next takes over its record.
        let is_first = first.is_some_and(|ebr| entry.slot == Slot::Logical { ebr });
        let is_chained = was.is_logical() && (entry.slot == was.slot || is_first);
        if !is_chained && (entry.slot, number) != (was.slot, was.number) {
            return invalid(&format!("is partition {} on the disk", was.number));
        }
        let planned = (&entry.kind, &entry.uuid, &entry.name, entry.attributes, entry.bootable);
        if planned != (&was.kind, &was.uuid, &was.name, was.attributes, was.bootable) {
            return invalid("has a different type, UUID, name, attributes or active flag on the disk");
        }
    }
    Ok(())
}

fn check_converted(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    let is_same = |partition: &Partition| {
        let entry = plan.table.entry(partition.number);
        entry.is_some_and(|entry| {
            let stays = plan.span(entry) == Some(partition.span);
            match partition.role {
                // The container's records move, and so does its start.
                Role::Extended => entry.slot == Slot::Extended,
                Role::Primary => entry.slot == Slot::Primary && stays,
                Role::Logical { .. } => entry.is_logical() && stays,
            }
        })
    };
    if stack.partitions.len() == plan.table.partitions.len() && stack.partitions.iter().all(is_same) {
        return Ok(());
    }
    let why = "the partitions to convert differ from those on the disk".to_owned();
    Err(PlanError::Invalid(why).into())
}
