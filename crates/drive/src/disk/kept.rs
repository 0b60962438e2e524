//! Sectors that the drive has written and still has in memory: a partial write to one of them need not read
//! it.
//!
//! Invariants: what is kept equals what is on the platters, because every write to a sector
//! passes through the buffer and is kept again. The oldest runs are forgotten first.

use std::collections::VecDeque;

/// The largest number of runs that are kept.
const RUNS: usize = 256;

/// Runs of physical sectors, the newest last.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    runs: VecDeque<(u64, u64)>,
    sectors: u64,
    /// The largest number of sectors that are kept.
    capacity: u64,
}

impl Kept {
    pub(super) const fn new(capacity: u64) -> Self {
        Self { runs: VecDeque::new(), sectors: 0, capacity }
    }

    /// Keeps the sectors from `first` to `end`, which have been written.
    pub(super) fn keep(&mut self, first: u64, end: u64) {
        if self.capacity == 0 {
            return;
        }
        let first = first.max(end.saturating_sub(self.capacity));
        self.runs.push_back((first, end));
        self.sectors += end - first;
        while self.sectors > self.capacity || self.runs.len() > RUNS {
            let Some((first, end)) = self.runs.pop_front() else { return };
            self.sectors -= end - first;
        }
    }

    pub(super) fn holds(&self, sector: u64) -> bool {
        self.runs.iter().rev().any(|&(first, end)| (first..end).contains(&sector))
    }
}
