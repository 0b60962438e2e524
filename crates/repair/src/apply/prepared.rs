//! The first of the three stages: a plan checked against its disk.
//!
//! Invariants: a [`Prepared`] exists only if the disk is the plan's and the steps were made from that plan.

use std::path::Path;

use straddle_device::Medium;
use straddle_layout::{Partition, Problem, Role, Stack};

use super::backup::BackupFile;
use super::{ApplyError, BackedUp, check_kernel};
use crate::encode::{Step, encode};
use crate::error::{PlanError, UNFINISHED};
use crate::fingerprint::Fingerprint;
use crate::foresee;
use crate::lost::Lost;
use crate::plan::{Change, Plan, Slot};
use crate::target::{Disk, Target};

/// The steps of a plan, together with the disk that it was made for. Nothing is written yet.
///
/// The only next stage is [`back_up`](Self::back_up); see [`apply`](super) for all stages.
pub struct Prepared<'a> {
    disk: &'a mut dyn Disk,
    plan: &'a Plan,
    /// What was read on the disk.
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

/// Returns what is read on `disk`, after checking that it is the plan's disk.
pub(crate) fn recognise(disk: &dyn Disk, plan: &Plan) -> Result<Stack, ApplyError> {
    check_identity(disk, plan)?;
    let (block, planned) = (plan.block(), &plan.disk);
    let stack = plan.read_present(disk)?;
    refuse_unfinished(disk, &stack)?;
    let found = Fingerprint::of(disk, &stack, block, planned.serial.clone())?;
    if found == *planned {
        return Ok(stack);
    }
    let why = "its partition table is not the one that the plan was made for: plan again";
    Err(ApplyError::OtherDisk(why.to_owned()))
}

pub(super) fn refuse_unfinished(disk: &dyn Medium, stack: &Stack) -> Result<(), ApplyError> {
    let is_marked = straddle_layout::marker(disk, stack)?.is_some();
    if is_marked || crate::realign::unmarked(disk, stack).is_some() {
        return Err(ApplyError::OtherDisk(UNFINISHED.to_owned()));
    }
    Ok(())
}

/// Refuses a change on a disk where contents reach past the end of their partition, unless it makes that
/// partition large enough.
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

/// Checks the size, the sectors and the serial number of the disk.
pub(crate) fn check_identity(disk: &dyn Disk, plan: &Plan) -> Result<(), ApplyError> {
    let (block, planned, identity) = (plan.block(), &plan.disk, disk.identity());
    let refuse = |why: String| Err(ApplyError::OtherDisk(why));
    let (size, wanted) = (disk.len().get(), planned.size.get());
    if size != wanted {
        return refuse(format!("the plan is for a {wanted}-byte disk, but this disk has {size} bytes"));
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
    refuse(format!("the plan is for a disk {wanted}; this is a disk {found}"))
}

/// Checks that nothing is lost that the plan does not name. The fingerprint does not cover the contents of a
/// disk without a table.
fn check_lost(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<(), ApplyError> {
    if plan.converts.is_some() {
        return Ok(());
    }
    let wipes = !plan.wipe.is_empty();
    let found = crate::lost::find(medium, stack, (&plan.table, plan.block()), plan.fresh, wipes)?;
    // Content that was unknown to the plan and is now recognised counts; a changed label does not.
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

/// Checks that the partitions that the plan says it keeps are on the disk: a plan file may say anything.
fn check_kept(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    if plan.converts.is_some() {
        return check_converted(plan, stack);
    }
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
        // The number of a logical partition depends on those before it. If the first one is removed, the next
        // takes over its record.
        let is_chained = entry.is_logical() && was.is_logical();
        if !is_chained && (entry.slot, number) != (was.slot, was.number) {
            return invalid(&format!("is partition {} on the disk", was.number));
        }
        let planned = (&entry.kind, &entry.uuid, &entry.name, entry.attributes, entry.bootable);
        if planned != (&was.kind, &was.uuid, &was.name, was.attributes, was.bootable) {
            return invalid("has a different type, UUID, name, attributes or active flag on the disk");
        }
    }
    check_numbers(plan, stack)
}

/// Checks that logical partitions have the numbers that the kernel will give them, counting along the chain.
fn check_numbers(plan: &Plan, stack: &Stack) -> Result<(), ApplyError> {
    let invalid = |number: u32, what: &str| {
        let why = format!("logical partition {number}, which the plan keeps, {what}");
        ApplyError::from(PlanError::Invalid(why))
    };
    let first = stack.partitions.iter().find(|p| p.role == Role::Extended).map(|p| p.start);
    let mut kept = Vec::new();
    for entry in &plan.table.partitions {
        let Slot::Logical { ebr } = entry.slot else { continue };
        if entry.change == Change::New {
            continue;
        }
        let found = stack.partitions.iter().find(|p| p.start == entry.start);
        let Some((was_number, Role::Logical { ebr: was })) = found.map(|p| (p.number, p.role)) else {
            return Err(invalid(entry.number, "is not a logical partition on the disk"));
        };
        if ebr != was && Some(ebr) != first {
            return Err(invalid(entry.number, "has a different record on the disk"));
        }
        kept.push((was_number, entry.number));
    }
    kept.sort_unstable();
    match kept.iter().zip(5..).find(|((_, planned), number)| planned != number) {
        None => Ok(()),
        Some(((was, planned), number)) => {
            Err(invalid(*planned, &format!("is partition {was} on the disk, but would become {number}")))
        }
    }
}

/// Checks that the converted table lists exactly the present partitions, each with the same bytes.
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
    let why = "the partitions to convert are not those on the disk".to_owned();
    Err(PlanError::Invalid(why).into())
}
