//! Predicting a disk after a plan's steps: it is written only if a reader would find the plan's table.

use straddle_device::{Medium, ReadError};
use straddle_layout::{Partition, Stack, read_stack};
use straddle_units::{ByteCount, ByteOffset};

use crate::apply::ApplyError;
use crate::encode::{Step, writes};
use crate::plan::{Entry, Plan, Table};

/// The unit in which a medium fails to read.
const UNIT: usize = 512;

pub(crate) struct After<'a> {
    pub(crate) medium: &'a dyn Medium,
    pub(crate) steps: &'a [Step],
}

impl Medium for After<'_> {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        if self.medium.read_at(at, buf).is_err() {
            // What cannot be read may be what the steps write.
            for (from, unit) in (at.get()..).step_by(UNIT).zip(buf.chunks_mut(UNIT)) {
                match self.medium.read_at(ByteOffset::new(from), unit) {
                    Err(error) if !self.is_written(from, unit.len()) => return Err(error),
                    _ => {}
                }
            }
        }
        lay_steps(buf, at.get(), self.steps);
        Ok(())
    }
}

impl After<'_> {
    fn is_written(&self, at: u64, len: usize) -> bool {
        let ends = |from: u64, len: usize| from.saturating_add(len as u64);
        writes(self.steps).any(|(from, _, new, _)| from <= at && ends(at, len) <= ends(from, new.len()))
    }
}

pub(crate) fn lay_steps(bytes: &mut [u8], at: u64, steps: &[Step]) {
    for (from, _, new, _) in writes(steps) {
        lay_over(bytes, at, new, from);
    }
}

pub(crate) fn lay_over(under: &mut [u8], at: u64, over: &[u8], over_at: u64) {
    let into = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let (skipped, place) = (into(over_at, at), into(at, over_at));
    let (Some(over), Some(under)) = (over.get(skipped..), under.get_mut(place..)) else { return };
    let shared = over.len().min(under.len());
    under[..shared].copy_from_slice(&over[..shared]);
}

pub(crate) fn check(medium: &dyn Medium, plan: &Plan, steps: &[Step]) -> Result<(), ApplyError> {
    let after = After { medium, steps };
    let stack = read_stack(&after, Some(plan.block()), None)?;
    difference(&stack, &plan.table).map_or(Ok(()), |why| Err(ApplyError::WouldDiffer(why)))
}

pub(crate) fn difference(stack: &Stack, table: &Table) -> Option<String> {
    let is_it = |found: &Partition, entry: &Entry| {
        (found.number, found.start, found.count) == (entry.number, entry.start, entry.sectors)
    };
    let listed = |found: &&Partition| table.partitions.iter().any(|entry| is_it(found, entry));
    let mut read = stack.partitions.iter().filter(|found| !stack.is_window(found));
    if let Some(found) = read.find(|found| !listed(found)) {
        let (number, start, sectors) = (found.number, found.start.get(), found.count.get());
        return Some(format!(
            "the table lists partition {number} ({sectors} sectors from sector {start}), which is not in the \
             plan"
        ));
    }
    let read = |entry: &&Entry| stack.partitions.iter().any(|found| is_it(found, entry));
    let missing = table.partitions.iter().find(|entry| !read(entry))?;
    let (number, start, sectors) = (missing.number, missing.start, missing.sectors);
    Some(format!(
        "the table does not list partition {number} of the plan ({sectors} sectors from sector {start})"
    ))
}

#[cfg(test)]
mod tests {
    use super::lay_over;

    #[test]
    fn bytes_are_laid_over_where_they_are_shared() {
        // (start of the bytes laid over, result in the four bytes at 10)
        for (over_at, expected) in [(6, b"...."), (8, b"cd.."), (10, b"abcd"), (12, b"..ab"), (14, b"....")] {
            let mut under = *b"....";
            lay_over(&mut under, 10, b"abcd", over_at);
            assert_eq!(&under, expected, "{over_at}");
        }
        let mut under = *b"....";
        lay_over(&mut under, 10, b"xxabcdxx", 8);
        assert_eq!(&under, b"abcd");
    }
}
