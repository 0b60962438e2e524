//! From a plan to the bytes that make it true.
//!
//! The law of this module: it writes nothing itself. Each [`Step`] says what is there and what is to be, in whole logical
//! blocks, and only blocks that change. Steps up to a flush may reach the medium in any order and in part; whatever part of
//! them has, a reader that checks sums as the UEFI specification wants finds the old table or the new one. A unit of 512
//! bytes is taken to be written whole or not at all.

mod gpt;
mod mbr;

use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr::SECTOR_BYTES;
use straddle_layout::{Role, Stack, TableKind, beside};
use straddle_units::{ByteCount, ByteOffset, Lba, Span};

use crate::error::PlanError;
use crate::fingerprint::bytes_of;
use crate::plan::{Format, Plan};

pub(crate) use gpt::CurrentGpt;
pub(crate) use mbr::unlisted_slots;

/// One step of writing a table. It is read, and never made, outside this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes to write.
    #[non_exhaustive]
    Write {
        /// Where.
        at: u64,
        /// What is there now.
        old: Vec<u8>,
        /// What is to be there: as many bytes.
        new: Vec<u8>,
        /// What they are.
        what: String,
    },
    /// Everything before is on the medium before anything behind.
    Flush,
}

/// Whether what stands before the entries of an MBR goes with what the plan wipes: a file system begins there, or a table of
/// another kind.
fn wipes_boot_code(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<bool, PlanError> {
    if plan.wipe().is_empty() || matches!(stack.kind, TableKind::Content(_) | TableKind::Foreign(_)) {
        return Ok(!plan.wipe().is_empty());
    }
    let in_it = |at: Span| at.start().get() < SECTOR_BYTES as u64;
    Ok(beside(medium, stack)?.iter().any(|found| !found.is_table() && in_it(found.at)))
}

/// The steps of `plan` on the disk `medium`, on which `stack` was read.
pub fn encode(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<Vec<Step>, PlanError> {
    let block = plan.block().get();
    // Where the present table counts in another size, structures of both share sectors of the larger one.
    let unit = block.min(stack.block.get());
    let mut steps = Steps { medium, block, unit, steps: Vec::new() };
    match plan.table().format {
        Format::Gpt => gpt::encode(plan, stack, &mut steps)?,
        Format::Mbr => mbr::encode(plan, stack, &mut steps)?,
    }
    spare_old_chain(plan, stack, &steps.steps)?;
    // Only now does nothing need what was there before.
    for wipe in plan.wipe() {
        let len = usize::try_from(wipe.len().get()).unwrap_or(0);
        steps.write(wipe.start().get(), &vec![0; len], "what was there before")?;
    }
    steps.flush();
    Ok(steps.steps)
}

/// Refuses to write over a record of the old table's logical partitions while the old table still counts: until byte 0 is
/// written.
fn spare_old_chain(plan: &Plan, stack: &Stack, steps: &[Step]) -> Result<(), PlanError> {
    let is_new = plan.is_fresh() || plan.converts().is_some();
    if !is_new || stack.kind != TableKind::Mbr {
        return Ok(());
    }
    let records: Vec<u64> = (stack.partitions.iter())
        .filter_map(|partition| match partition.role {
            Role::Logical { ebr } => ebr.to_bytes(stack.block).map(ByteOffset::get),
            Role::Extended => Some(partition.span.start().get()),
            Role::Primary => None,
        })
        .collect();
    for step in steps {
        let Step::Write { at, new, .. } = step else { continue };
        if *at == 0 {
            break;
        }
        let end = at.saturating_add(u64::try_from(new.len()).unwrap_or(u64::MAX));
        if let Some(record) = records.iter().find(|record| (*at..end).contains(record)) {
            return Err(PlanError::InTheWay(*record));
        }
    }
    Ok(())
}

/// Steps in the making.
struct Steps<'a> {
    medium: &'a dyn Medium,
    /// The sector that the table counts in.
    block: u64,
    /// What is written as a whole.
    unit: u64,
    steps: Vec<Step>,
}

impl Steps<'_> {
    /// The first byte of a sector of the table, or the last that can be counted.
    fn byte(&self, lba: Lba) -> u64 {
        lba.get().saturating_mul(self.block)
    }

    /// What is on the medium now.
    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, ReadError> {
        let span = Span::new(ByteOffset::new(at), ByteCount::new(len));
        let past_end = ReadError::PastEnd { at: ByteOffset::new(at), want: 0, len: self.medium.len().get() };
        bytes_of(self.medium, span.ok_or(past_end)?)
    }

    /// Writes `new` at byte `at`, which is a unit's start: those units of it that change, each run a step. What of the last
    /// unit is not given stays.
    fn write(&mut self, at: u64, new: &[u8], what: &str) -> Result<(), ReadError> {
        let block = usize::try_from(self.unit).unwrap_or(usize::MAX);
        let len = new.len().next_multiple_of(block);
        let old = self.read(at, u64::try_from(len).unwrap_or(u64::MAX))?;
        let mut whole = old.clone();
        whole[..new.len()].copy_from_slice(new);
        let mut run: Option<(usize, usize)> = None;
        for start in (0..=len).step_by(block) {
            let changes = start < len && old[start..start + block] != whole[start..start + block];
            match (&mut run, changes) {
                (Some((_, end)), true) => *end = start + block,
                (None, true) => run = Some((start, start + block)),
                (Some((from, to)), false) => {
                    let offset = u64::try_from(*from).unwrap_or(u64::MAX);
                    self.steps.push(Step::Write {
                        at: at.saturating_add(offset),
                        old: old[*from..*to].to_vec(),
                        new: whole[*from..*to].to_vec(),
                        what: what.to_owned(),
                    });
                    run = None;
                }
                (None, false) => {}
            }
        }
        Ok(())
    }

    /// Whether byte `at` is written.
    fn writes(&self, at: u64) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Write { at: from, new, .. } => at
                .checked_sub(*from)
                .is_some_and(|past| usize::try_from(past).is_ok_and(|past| past < new.len())),
            Step::Flush => false,
        })
    }

    /// A barrier, where there is something to keep apart.
    fn flush(&mut self) {
        if matches!(self.steps.last(), Some(Step::Write { .. })) {
            self.steps.push(Step::Flush);
        }
    }
}
