//! Encoding a plan as the bytes to write.
//!
//! Invariants: each [`Step`] holds the present and the new bytes of whole logical blocks that change. The
//! steps before a flush may reach the medium in any order and in part, by units of 512 bytes: a reader that
//! checks checksums as the UEFI specification requires finds the old table or the new one.

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
pub(crate) use mbr::{Laid, chains, unlisted_slots};

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

pub(crate) fn writes(steps: &[Step]) -> impl DoubleEndedIterator<Item = (u64, &[u8], &[u8], &str)> {
    steps.iter().filter_map(|step| match step {
        Step::Write { at, old, new, what } => Some((*at, &old[..], &new[..], &what[..])),
        Step::Flush => None,
    })
}

/// A file system or a table of another kind begins there.
fn wipes_boot_code(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<bool, PlanError> {
    if plan.wipe.is_empty() || matches!(stack.kind, TableKind::Content(_) | TableKind::Foreign(_)) {
        return Ok(!plan.wipe.is_empty());
    }
    let in_it = |at: Span| at.start().get() < SECTOR_BYTES as u64;
    Ok(beside(medium, stack)?.iter().any(|found| !found.is_table() && in_it(found.at)))
}

/// The steps of `plan` on the disk `medium`, on which `stack` was read.
///
/// # Errors
///
/// If the table cannot be written so that a power cut leaves the old one or the new one, or if it would
/// overwrite data that no table accounts for and the plan does not list.
pub fn encode(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<Vec<Step>, PlanError> {
    let steps = Steps::of_table(plan, medium, stack)?;
    over::check(plan, medium, stack, &steps.steps)?;
    steps.wiped(plan)
}

pub(crate) fn encode_over_all(
    plan: &Plan,
    medium: &dyn Medium,
    stack: &Stack,
) -> Result<Vec<Step>, PlanError> {
    Steps::of_table(plan, medium, stack)?.wiped(plan)
}

/// Refuses to overwrite a record of the old chain while it counts, which is until byte 0 is written.
fn spare_old_chain(plan: &Plan, stack: &Stack, steps: &[Step]) -> Result<(), PlanError> {
    let is_new = plan.fresh || plan.converts.is_some();
    if !is_new || stack.kind != TableKind::Mbr {
        return Ok(());
    }
    let records: Vec<u64> = (stack.partitions.iter())
        .filter_map(|partition| match partition.role {
            Role::Logical { ebr } => Some(ebr.byte(stack.block).get()),
            Role::Extended => Some(partition.span.start().get()),
            Role::Primary => None,
        })
        .collect();
    let mut early = writes(steps).take_while(|(at, ..)| *at != 0);
    let over = early.find_map(|(at, _, new, _)| {
        let end = at.saturating_add(new.len() as u64);
        records.iter().find(|record| (at..end).contains(record))
    });
    over.map_or(Ok(()), |record| Err(PlanError::InTheWay(*record)))
}

struct Steps<'a> {
    medium: &'a dyn Medium,
    block: u64,
    /// Steps are written in units of this many bytes.
    unit: u64,
    steps: Vec<Step>,
}

impl<'a> Steps<'a> {
    fn new(plan: &Plan, medium: &'a dyn Medium, stack: &Stack) -> Self {
        let block = plan.block().get();
        // If the present table counts in another size, structures of both can share a larger sector.
        Self { medium, block, unit: block.min(stack.block.get()), steps: Vec::new() }
    }

    fn of_table(plan: &Plan, medium: &'a dyn Medium, stack: &Stack) -> Result<Self, PlanError> {
        let mut steps = Self::new(plan, medium, stack);
        match plan.table.format {
            Format::Gpt => gpt::encode(plan, stack, &mut steps)?,
            Format::Mbr => mbr::encode(plan, stack, &mut steps)?,
        }
        spare_old_chain(plan, stack, &steps.steps)?;
        Ok(steps)
    }

    /// Nothing needs the previous contents of what the plan wipes by then.
    fn wiped(mut self, plan: &Plan) -> Result<Vec<Step>, PlanError> {
        for wipe in &plan.wipe {
            self.write(wipe.start().get(), &vec![0; wipe.len().in_memory()], "erased contents")?;
        }
        self.flush();
        Ok(self.steps)
    }

    fn byte(&self, lba: Lba) -> u64 {
        lba.get().saturating_mul(self.block)
    }

    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, ReadError> {
        let at = ByteOffset::new(at);
        let past_end = ReadError::PastEnd { at, want: 0, len: self.medium.len().get() };
        bytes_of(self.medium, Span::new(at, ByteCount::new(len)).ok_or(past_end)?)
    }

    fn sector(&self, lba: Lba) -> Result<Vec<u8>, ReadError> {
        self.read(self.byte(lba), self.block)
    }

    /// Adds steps that write `new` at byte `at`, the start of a unit, one for each run of changed units. The
    /// bytes of the last unit beyond `new` keep their value.
    fn write(&mut self, at: u64, new: &[u8], what: &str) -> Result<(), ReadError> {
        let unit = ByteCount::new(self.unit).in_memory();
        let len = new.len().next_multiple_of(unit);
        let old = self.read(at, len as u64)?;
        let mut whole = old.clone();
        whole[..new.len()].copy_from_slice(new);
        let units: Vec<_> = old.chunks(unit).zip(whole.chunks(unit)).collect();
        let mut at = at;
        for run in units.chunk_by(|(a, b), (c, d)| (a == b) == (c == d)) {
            let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = run.iter().copied().unzip();
            let (old, new) = (old.concat(), new.concat());
            let next = at.saturating_add(old.len() as u64);
            if old != new {
                self.steps.push(Step::Write { at, old, new, what: what.to_owned() });
            }
            at = next;
        }
        Ok(())
    }

    fn writes(&self, at: u64) -> bool {
        writes(&self.steps).any(|(from, _, new, _)| (from..from + new.len() as u64).contains(&at))
    }

    fn flush(&mut self) {
        if matches!(self.steps.last(), Some(Step::Write { .. })) {
            self.steps.push(Step::Flush);
        }
    }
}
