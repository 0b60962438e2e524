//! Room for the journal.
//!
//! Invariants: on the disk itself, it is where neither the old table nor the new one has a partition, where no move
//! goes, and, without [`Wanted::wipe`](super::Wanted::wipe), where no data are.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB, Span};

use super::find::GPT_BACKUP;
use super::stored::invalid;
use super::unallocated::{Debris, Look};
use super::{Realign, RealignError, checks, guard};
use crate::error::PlanError;
use crate::plan::{Entry, Format, Slot, span_of};
use crate::relocate::{Job, LARGEST_PAYLOAD, journal_len_with};

/// If no move needs copies in the journal: a long window saves seeks.
const DIRECT: ByteCount = ByteCount::new(64 * MIB);
/// With copies: a longer window is hardly faster.
pub(super) const MAX_WINDOW: ByteCount = ByteCount::new(16 * MIB);
/// If there is less room. Every window costs a flush.
const SMALLER: [ByteCount; 4] =
    [ByteCount::new(4 * MIB), ByteCount::new(MIB), ByteCount::new(256 * KIB), ByteCount::new(64 * KIB)];
/// A journal in the middle of free space ends at a multiple of a power of two, to be found whatever the table
/// lists: at least this, and at most this number of places.
const STEP: u64 = MIB;
const PLACES: u64 = 32;
/// The three tables in the journal, in hexadecimal, with the physical sectors around them: two copies of a
/// GPT of 128 entries, or an MBR; and the least.
const TABLES: (usize, usize) = (320 << 10, 16 << 10);
const LEAST: usize = 64 << 10;
/// A physical sector of 4096 bytes.
const GUARD: usize = 8400;
/// The old and the new extended boot record of a logical partition.
const RECORDS: usize = 2 * (GUARD + (4 << 10));

/// Where the journal of the moves can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Journal {
    /// In these unallocated bytes of the disk.
    #[serde(rename = "unallocated")]
    Inside(Span),
    /// In a file on another disk (`straddle apply --journal FILE`), because the disk itself has no room.
    #[serde(rename = "file")]
    Elsewhere {
        /// The size of the journal in bytes.
        #[serde(rename = "size_bytes")]
        needed: ByteCount,
    },
}

impl Realign {
    pub(super) fn find_journal(&mut self, medium: &dyn Medium, look: Look) -> Result<(), RealignError> {
        let json = serde_json::to_vec(self).map_err(|error| invalid(error.to_string()))?;
        let is_gpt = self.plan.table.format == Format::Gpt;
        let is_logical = |entry: &&Entry| !is_gpt && entry.number > 4;
        let logical = self.plan.table.partitions.iter().filter(is_logical).count();
        let tables = if is_gpt { TABLES.0 } else { TABLES.1 + logical * RECORDS };
        let block_len = usize::try_from(self.plan.block().get()).unwrap_or(0);
        // Two records of each logical partition, old and new.
        let records = self.plan.table.partitions.len().saturating_mul(block_len * 8);
        let records = if self.plan.moves_logical() { records } else { 0 };
        let tables = (tables + guard::boot_blocks(self).len() * GUARD).max(LEAST).saturating_add(records);
        let tables = tables.saturating_add(checks::most_bytes(self.moves.len()));
        let payload = json.len().saturating_add(tables).min(LARGEST_PAYLOAD);
        let distances = self.moves.iter().map(|one| one.from.start().get().abs_diff(one.to.get()));
        let shortest = ByteCount::new(distances.min().unwrap_or_default());
        let block = self.blocks.size();
        let mut debris = Debris::of(medium, self.plan.block());
        let (mut largest, mut data) = (None, None);
        for most in [DIRECT, MAX_WINDOW].into_iter().chain(SMALLER).filter(|most| *most >= block) {
            self.0.window = Job::window(shortest, block, most);
            let job = self.job([0; 16], Vec::new())?;
            if self.window > MAX_WINDOW && job.windows().0 > 0 {
                continue;
            }
            let needed = journal_len_with(&job, payload)?;
            for place in self.places(needed) {
                match self.data_under_journal(&mut debris, place, look) {
                    Ok(None) => {
                        self.0.journal = Journal::Inside(place);
                        return Ok(());
                    }
                    Ok(Some(at)) => data = data.or(Some(at)),
                    Err(ReadError::Io { .. }) => {}
                    Err(error) => return Err(PlanError::from(error).into()),
                }
            }
            largest = largest.or(Some((self.window, needed)));
        }
        if let Some((window, needed)) = largest {
            self.0.window = window;
            self.0.journal = Journal::Elsewhere { needed };
            let why = "which is outside all partitions; to allow this, use --wipe";
            let note = data.map(|at| format!("the journal would overwrite data at byte {at}, {why}"));
            self.0.plan = self.plan.clone().noting(note.into_iter());
        }
        Ok(())
    }

    fn places(&self, needed: ByteCount) -> Vec<Span> {
        let spans = || self.moves.iter().flat_map(|one| one.spans());
        let from = spans().map(|span| span.start().get()).min().unwrap_or(u64::MAX);
        let to = spans().map(|span| span.end().get()).max().unwrap_or(0);
        let far =
            |place: &Span| place.start().get().saturating_sub(to).max(from.saturating_sub(place.end().get()));
        let mut found = Vec::new();
        for gap in self.unallocated() {
            let size = self.plan.disk.size;
            let within = |end: &ByteOffset| *end > gap.start() && *end < gap.end();
            let nominal = nominal_ends(size).filter(within);
            // A backup GPT at the very end would overwrite it, if another program converts the table.
            let backup = ByteCount::new(GPT_BACKUP * self.plan.block().get());
            let before_backup = gap.end().checked_back(backup).filter(within);
            let is_last = self.plan.table.format == Format::Mbr && gap.end().get() == size.get();
            let lasting = nominal.chain(before_backup.filter(|_| is_last)).map(|end| (false, end));
            for (is_listed, end) in lasting.chain([(true, gap.end())]) {
                let Some(end) = self.blocks.floor(end) else { continue };
                let start = end.checked_back(needed).and_then(|start| self.blocks.floor(start));
                let Some(start) = start.filter(|start| *start >= gap.start()) else { continue };
                let place = Span::between(start, end);
                found.extend(place.map(|place| (is_listed, far(&place), Reverse(gap.len()), place)));
            }
        }
        found.sort_by_key(|(is_listed, far, rank, _)| (*is_listed, *far, *rank));
        found.into_iter().map(|(.., place)| place).collect()
    }

    pub(super) fn unallocated(&self) -> Vec<Span> {
        let block = self.plan.block();
        let relinks = self.plan.moves_logical();
        let entries = self.plan.before.iter().chain(&self.plan.table.partitions);
        let entries = entries.filter(|entry| !relinks || entry.slot != Slot::Extended);
        let listed = entries.filter_map(|entry| span_of(entry, block));
        let taken = listed.chain(self.moves.iter().filter_map(|one| one.destination()));
        let taken = taken.chain(self.plan.record_sectors());
        self.plan.movable_space().gaps(taken)
    }
}

pub(super) fn nominal_ends(size: ByteCount) -> impl Iterator<Item = ByteOffset> {
    let step = size.get().div_ceil(PLACES).checked_next_power_of_two().unwrap_or(u64::MAX).max(STEP);
    (1..=size.get() / step).filter_map(move |count| count.checked_mul(step)).map(ByteOffset::new)
}
