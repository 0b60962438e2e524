//! The write buffer: for each indirection unit, the sectors that flash does not hold yet.
//!
//! Each unit takes the room of a whole one. It has at most one entry to which the host adds, and at most one older
//! entry that is being programmed and no longer changes. An entry is *whole* when all of the unit is known: written
//! by the host, read from flash or copied from the older entry, or without a rest.

use crate::ssd::index::{EntryIndex, Unit};
use crate::ssd::narrow;
use crate::ssd::parameters::{Layout, SECTOR_BYTES};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not whole; waits for the host to write the rest of the unit.
    Partial,
    Reading,
    /// Whole; waits to be programmed.
    Ready,
    Storing,
    /// Waits for an older entry of the same unit that is being programmed.
    Held,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) unit: Unit,
    pub(super) stage: Stage,
    /// Whether a command waits for it to be durable.
    pub(super) urgent: bool,
    covered: u32,
    pub(super) reads: u32,
    since: u64,
    /// The neighbours in the list of its stage.
    previous: Option<EntryIndex>,
    next: Option<EntryIndex>,
    chain: Option<EntryIndex>,
    pub(super) waiters: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: Option<EntryIndex>,
    last: Option<EntryIndex>,
    length: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    layout: Layout,
    /// Units for which there is unreserved room.
    pub(super) room: u32,
    entries: Vec<Entry>,
    bits: Vec<u64>,
    words: usize,
    unused: Vec<EntryIndex>,
    buckets: Vec<Option<EntryIndex>>,
    bucket_shift: u32,
    partial: List,
    ready: List,
    pub(super) urgent_ready: u32,
    pub(super) reading: u32,
    held: u32,
    /// Units in the buffer, including those being programmed.
    pub(super) used: u32,
}

impl Buffer {
    pub(super) fn new(layout: Layout, units: u32) -> Self {
        let buckets = units.next_power_of_two().max(2);
        let sectors = layout.unit_bytes() / SECTOR_BYTES;
        Self {
            layout,
            room: units,
            entries: Vec::new(),
            bits: Vec::new(),
            words: narrow(sectors.div_ceil(64)) as usize,
            unused: Vec::new(),
            buckets: vec![None; buckets as usize],
            bucket_shift: 32 - buckets.trailing_zeros(),
            partial: List::default(),
            ready: List::default(),
            urgent_ready: 0,
            reading: 0,
            held: 0,
            used: 0,
        }
    }

    pub(super) const fn partial(&self) -> u32 {
        self.partial.length
    }

    pub(super) const fn ready(&self) -> u32 {
        self.ready.length
    }

    pub(super) fn entry(&self, index: EntryIndex) -> &Entry {
        &self.entries[index.at()]
    }

    pub(super) fn entry_mut(&mut self, index: EntryIndex) -> &mut Entry {
        &mut self.entries[index.at()]
    }

    pub(super) fn find(&self, unit: Unit) -> Option<EntryIndex> {
        let mut next = self.buckets[self.bucket(unit)];
        while let Some(index) = next {
            let entry = &self.entries[index.at()];
            if entry.unit == unit {
                break;
            }
            next = entry.chain;
        }
        next
    }

    /// Uses reserved room. Returns the entry, and whether the data joined an existing one, which releases the room.
    pub(super) fn put(&mut self, unit: Unit, from: u32, to: u32, now: u64) -> (EntryIndex, bool) {
        let latest = self.find(unit);
        let open = latest.filter(|&index| self.entries[index.at()].stage != Stage::Storing);
        let (index, joined) = match open {
            Some(index) => (index, true),
            None => (self.create(unit, latest.is_some(), now), false),
        };
        self.room += u32::from(joined);
        self.cover(index, from, to);
        let entry = &self.entries[index.at()];
        if entry.stage == Stage::Partial && entry.covered == self.sectors(unit) {
            self.unlink(index);
            self.make_ready(index, now);
        }
        (index, joined)
    }

    /// Moves the entry ahead of the others, because a command waits for it.
    pub(super) fn hasten(&mut self, index: EntryIndex) {
        let entry = &mut self.entries[index.at()];
        if std::mem::replace(&mut entry.urgent, true) {
            return;
        }
        let stage = entry.stage;
        if matches!(stage, Stage::Partial | Stage::Ready) {
            self.unlink(index);
            self.link_first(index);
            self.urgent_ready += u32::from(stage == Stage::Ready);
        }
    }

    pub(super) fn first_partial(&self) -> Option<(EntryIndex, u64)> {
        self.partial.first.map(|index| (index, self.entries[index.at()].since))
    }

    pub(super) fn ready_since(&self) -> Option<u64> {
        self.ready.first.map(|index| self.entries[index.at()].since)
    }

    /// Records that the rest of a partial entry is to be read, in `pages` pages.
    pub(super) fn begin_reading(&mut self, index: EntryIndex, pages: u32) {
        self.unlink(index);
        self.reading += 1;
        let entry = &mut self.entries[index.at()];
        (entry.stage, entry.reads) = (Stage::Reading, pages);
    }

    pub(super) fn complete(&mut self, index: EntryIndex, now: u64) {
        match self.entries[index.at()].stage {
            Stage::Reading => self.reading -= 1,
            _ => self.unlink(index),
        }
        self.make_ready(index, now);
    }

    /// Takes the next entry to be programmed; it no longer changes.
    pub(super) fn take_ready(&mut self) -> Option<EntryIndex> {
        let index = self.ready.first?;
        self.unlink(index);
        let entry = &mut self.entries[index.at()];
        entry.stage = Stage::Storing;
        self.urgent_ready -= u32::from(entry.urgent);
        Some(index)
    }

    /// The entry is stored, or its data is not needed. A newer entry of the unit can proceed.
    pub(super) fn remove(&mut self, index: EntryIndex, now: u64) {
        let Entry { unit, stage, urgent, .. } = self.entries[index.at()];
        match stage {
            Stage::Partial | Stage::Ready => {
                self.unlink(index);
                self.urgent_ready -= u32::from(urgent && stage == Stage::Ready);
            }
            Stage::Reading => self.reading -= 1,
            Stage::Held => self.held -= 1,
            Stage::Storing => {}
        }
        self.unchain(index);
        self.unused.push(index);
        self.used -= 1;
        self.room += 1;
        if self.held > 0
            && let Some(newer) = self.find(unit)
            && self.entries[newer.at()].stage == Stage::Held
        {
            self.held -= 1;
            self.make_ready(newer, now);
        }
    }

    /// Whether the entry by itself has sectors `from..to` of its unit.
    pub(super) fn knows(&self, index: EntryIndex, from: u32, to: u32) -> bool {
        let known = matches!(self.entries[index.at()].stage, Stage::Ready | Stage::Storing | Stage::Held);
        known || (from..to).all(|sector| self.bit(index, sector))
    }

    pub(super) fn runs(&self, index: EntryIndex) -> impl Iterator<Item = (u32, u32)> + '_ {
        let sectors = self.sectors(self.entries[index.at()].unit);
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = (at..sectors).find(|&sector| self.bit(index, sector))?;
            let end = (first..sectors).find(|&sector| !self.bit(index, sector)).unwrap_or(sectors);
            at = end;
            Some((first, end))
        })
    }

    pub(super) fn indexes(&self) -> impl Iterator<Item = EntryIndex> + '_ {
        self.buckets
            .iter()
            .flat_map(|&first| std::iter::successors(first, |&index| self.entries[index.at()].chain))
    }

    fn sectors(&self, unit: Unit) -> u32 {
        let start = u64::from(unit.get()) << self.layout.unit_shift;
        narrow(self.layout.unit_bytes().min(self.layout.capacity - start) / SECTOR_BYTES)
    }

    fn create(&mut self, unit: Unit, held: bool, now: u64) -> EntryIndex {
        let bucket = self.bucket(unit);
        let index = self.unused.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                unit,
                stage: Stage::Partial,
                urgent: false,
                covered: 0,
                reads: 0,
                since: 0,
                previous: None,
                next: None,
                chain: None,
                waiters: Vec::new(),
            });
            self.bits.resize(self.bits.len() + self.words, 0);
            EntryIndex::new(narrow(self.entries.len() as u64 - 1))
        });
        let (first, words) = (index.at() * self.words, self.words);
        // With the usual single word, a call to fill memory would be slow.
        self.bits[first] = 0;
        if words > 1 {
            self.bits[first + 1..first + words].fill(0);
        }
        let chain = self.buckets[bucket].replace(index);
        let entry = &mut self.entries[index.at()];
        entry.unit = unit;
        (entry.urgent, entry.covered, entry.reads, entry.since, entry.chain) = (false, 0, 0, now, chain);
        entry.stage = if held { Stage::Held } else { Stage::Partial };
        self.used += 1;
        if held {
            self.held += 1;
        } else {
            self.link_last(index);
        }
        index
    }

    fn make_ready(&mut self, index: EntryIndex, now: u64) {
        let entry = &mut self.entries[index.at()];
        (entry.stage, entry.since) = (Stage::Ready, now);
        if entry.urgent {
            self.urgent_ready += 1;
            self.link_first(index);
        } else {
            self.link_last(index);
        }
    }

    fn cover(&mut self, index: EntryIndex, from: u32, to: u32) {
        let bits = &mut self.bits[index.at() * self.words..];
        let mut added = 0;
        for (word, bits) in (from / 64..).zip(&mut bits[(from / 64) as usize..to.div_ceil(64) as usize]) {
            let (low, high) = (from.max(word * 64) - word * 64, to.min(word * 64 + 64) - word * 64);
            let mask = (u64::MAX >> (64 - (high - low))) << low;
            added += (mask & !*bits).count_ones();
            *bits |= mask;
        }
        self.entries[index.at()].covered += added;
    }

    fn bit(&self, index: EntryIndex, sector: u32) -> bool {
        self.bits[index.at() * self.words + (sector / 64) as usize] >> (sector % 64) & 1 != 0
    }

    fn bucket(&self, unit: Unit) -> usize {
        /// 2^32 over the golden ratio: spreads neighbouring units over the buckets.
        const SPREAD: u32 = 0x9E37_79B9;
        (unit.get().wrapping_mul(SPREAD) >> self.bucket_shift) as usize
    }

    fn unchain(&mut self, index: EntryIndex) {
        let bucket = self.bucket(self.entries[index.at()].unit);
        let after = self.entries[index.at()].chain;
        if self.buckets[bucket] == Some(index) {
            self.buckets[bucket] = after;
            return;
        }
        let mut next = self.buckets[bucket];
        while let Some(before) = next {
            let entry = &mut self.entries[before.at()];
            if entry.chain == Some(index) {
                entry.chain = after;
                return;
            }
            next = entry.chain;
        }
    }

    fn list(&mut self, stage: Stage) -> &mut List {
        debug_assert!(matches!(stage, Stage::Partial | Stage::Ready));
        if stage == Stage::Partial { &mut self.partial } else { &mut self.ready }
    }

    fn link_last(&mut self, index: EntryIndex) {
        let list = self.list(self.entries[index.at()].stage);
        list.length += 1;
        let previous = list.last.replace(index);
        match previous {
            None => list.first = Some(index),
            Some(previous) => self.entries[previous.at()].next = Some(index),
        }
        let entry = &mut self.entries[index.at()];
        (entry.previous, entry.next) = (previous, None);
    }

    fn link_first(&mut self, index: EntryIndex) {
        let list = self.list(self.entries[index.at()].stage);
        list.length += 1;
        let next = list.first.replace(index);
        match next {
            None => list.last = Some(index),
            Some(next) => self.entries[next.at()].previous = Some(index),
        }
        let entry = &mut self.entries[index.at()];
        (entry.previous, entry.next) = (None, next);
    }

    fn unlink(&mut self, index: EntryIndex) {
        let Entry { stage, previous, next, .. } = self.entries[index.at()];
        let list = self.list(stage);
        list.length -= 1;
        if previous.is_none() {
            list.first = next;
        }
        if next.is_none() {
            list.last = previous;
        }
        if let Some(previous) = previous {
            self.entries[previous.at()].next = next;
        }
        if let Some(next) = next {
            self.entries[next.at()].previous = previous;
        }
    }
}
