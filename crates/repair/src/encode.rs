//! Encoding a plan as the bytes to write.
//!
//! Invariants: each [`Step`] holds the present and the new bytes, in whole logical blocks, and only blocks that change.
//! The steps before a flush may reach the medium in any order and in part: whatever part of them has, a reader that
//! checks checksums as the UEFI specification requires finds the old table or the new one. Each unit of 512 bytes is
//! written completely or not at all.

mod gpt;
mod mbr;
mod over;

use serde::{Deserialize, Serialize};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr::SECTOR_BYTES;
use straddle_layout::{Role, Stack, TableKind, beside};
use straddle_units::{ByteCount, ByteOffset, Lba, Span};

use crate::document::hexadecimal;
use crate::error::PlanError;
use crate::fingerprint::bytes_of;
use crate::plan::{Format, Plan};

pub(crate) use gpt::CurrentGpt;
pub(crate) use mbr::{Laid, unlisted_slots};

/// One step of writing a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Bytes to write.
    #[non_exhaustive]
    Write {
        /// Byte offset.
        at: u64,
        /// The bytes there now.
        #[serde(with = "hexadecimal")]
        old: Vec<u8>,
        /// The bytes to write there, as many as `old`.
        #[serde(with = "hexadecimal")]
        new: Vec<u8>,
        /// The name of the structure, for messages.
        what: String,
    },
    /// Everything before this step is on the medium before anything after it.
    Flush,
}

/// Whether the bytes before the entries of the MBR are cleared with what the plan wipes: a file system or a
/// table of another kind begins there.
fn wipes_boot_code(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<bool, PlanError> {
    if plan.wipe.is_empty() || matches!(stack.kind, TableKind::Content(_) | TableKind::Foreign(_)) {
        return Ok(!plan.wipe.is_empty());
    }
    let in_it = |at: Span| at.start().get() < SECTOR_BYTES as u64;
    Ok(beside(medium, stack)?.iter().any(|found| !found.is_table() && in_it(found.at)))
}

/// Returns the steps of `plan` on the disk `medium`, on which `stack` was read.
///
/// # Errors
///
/// If the table cannot be written so that a power cut leaves the old one or the new one, or if it would go over data
/// that no table accounts for and the plan does not list.
pub fn encode(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<Vec<Step>, PlanError> {
    let steps = Steps::of_table(plan, medium, stack)?;
    over::check(plan, medium, stack, &steps.steps)?;
    steps.wiped(plan)
}

/// The same for a disk of which nothing is kept.
pub(crate) fn encode_over_all(
    plan: &Plan,
    medium: &dyn Medium,
    stack: &Stack,
) -> Result<Vec<Step>, PlanError> {
    Steps::of_table(plan, medium, stack)?.wiped(plan)
}

/// Returns the extended boot records before and after `plan`, each with its byte; `None` if no logical
/// partition moves.
pub(crate) fn chains(
    plan: &Plan,
    medium: &dyn Medium,
    stack: &Stack,
) -> Result<Option<[Laid; 2]>, PlanError> {
    let block = plan.block().get();
    mbr::chains(plan, stack, &Steps { medium, block, unit: block, steps: Vec::new() })
}

/// Refuses to overwrite a record of the old table's logical partitions while the old table still counts,
/// which is until byte 0 is written.
fn spare_old_chain(plan: &Plan, stack: &Stack, steps: &[Step]) -> Result<(), PlanError> {
    let is_new = plan.fresh || plan.converts.is_some();
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

struct Steps<'a> {
    medium: &'a dyn Medium,
    /// The size in bytes of the sectors in which the table counts.
    block: u64,
    /// The size in bytes of the units in which steps are written.
    unit: u64,
    steps: Vec<Step>,
}

impl<'a> Steps<'a> {
    fn of_table(plan: &Plan, medium: &'a dyn Medium, stack: &Stack) -> Result<Self, PlanError> {
        let block = plan.block().get();
        // If the present table counts in another sector size, structures of both tables can share a larger
        // sector.
        let unit = block.min(stack.block.get());
        let mut steps = Self { medium, block, unit, steps: Vec::new() };
        match plan.table.format {
            Format::Gpt => gpt::encode(plan, stack, &mut steps)?,
            Format::Mbr => mbr::encode(plan, stack, &mut steps)?,
        }
        spare_old_chain(plan, stack, &steps.steps)?;
        Ok(steps)
    }

    /// The steps, and those that clear what the plan wipes: nothing needs the previous contents by then.
    fn wiped(mut self, plan: &Plan) -> Result<Vec<Step>, PlanError> {
        for wipe in &plan.wipe {
            let len = usize::try_from(wipe.len().get()).unwrap_or(0);
            self.write(wipe.start().get(), &vec![0; len], "erased contents")?;
        }
        self.flush();
        Ok(self.steps)
    }
}

impl Steps<'_> {
    /// The byte offset of a sector of the table; saturates.
    fn byte(&self, lba: Lba) -> u64 {
        lba.get().saturating_mul(self.block)
    }

    /// Reads the present bytes of the medium.
    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, ReadError> {
        let span = Span::new(ByteOffset::new(at), ByteCount::new(len));
        let past_end = ReadError::PastEnd { at: ByteOffset::new(at), want: 0, len: self.medium.len().get() };
        bytes_of(self.medium, span.ok_or(past_end)?)
    }

    /// Adds steps that write `new` at byte `at`, the start of a unit. Only units that change are written,
    /// each run of them as one step. The bytes of the last unit beyond `new` keep their value.
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

    /// Whether a step writes byte `at`.
    fn writes(&self, at: u64) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Write { at: from, new, .. } => at
                .checked_sub(*from)
                .is_some_and(|past| usize::try_from(past).is_ok_and(|past| past < new.len())),
            Step::Flush => false,
        })
    }

    /// Adds a flush if the last step is a write.
    fn flush(&mut self) {
        if matches!(self.steps.last(), Some(Step::Write { .. })) {
            self.steps.push(Step::Flush);
        }
    }
}
