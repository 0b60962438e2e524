//! The flash blocks: which slot holds which unit, and which superblock to collect.
//!
//! A superblock is free, open for one of two streams of writes, sealed, or a victim of garbage collection.
//! Sealed ones are kept in buckets by their number of valid units. The reverse map of a superblock that was filled in
//! order and is still fully valid is not stored.

use std::collections::VecDeque;

use crate::ssd::index::{Slot, Superblock, Unit};
use crate::ssd::narrow;
use crate::ssd::parameters::Layout;
use crate::ssd::start::{FlashStart, SteadyState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Host,
    /// Units that garbage collection moves. They have a stream of their own because they tend to live longer.
    Collected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Sealed,
    Victim,
}

#[derive(Clone, Debug)]
enum Reverse {
    Empty,
    InOrder(Unit),
    /// The unit of each slot; `None` if its contents are stale.
    Table(Box<[Option<Unit>]>),
}

#[derive(Clone, Debug)]
struct Contents {
    state: State,
    valid: u32,
    previous: Option<Superblock>,
    next: Option<Superblock>,
    reverse: Reverse,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    superblock: Superblock,
    next_group: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Blocks {
    layout: Layout,
    superblocks: Vec<Contents>,
    /// For each number of valid units, the first sealed superblock that has it.
    buckets: Vec<Option<Superblock>>,
    /// All buckets below this one are empty.
    lowest: u32,
    free: VecDeque<Superblock>,
    open: [Option<Open>; 2],
}

impl Blocks {
    pub(super) fn new(layout: Layout, start: FlashStart) -> Self {
        let empty =
            Contents { state: State::Free, valid: 0, previous: None, next: None, reverse: Reverse::Empty };
        let mut blocks = Self {
            layout,
            superblocks: vec![empty; layout.superblocks as usize],
            buckets: vec![None; layout.slots as usize + 1],
            lowest: layout.slots,
            free: VecDeque::new(),
            open: [None; 2],
        };
        match start {
            FlashStart::Empty => {}
            FlashStart::InOrder => blocks.fill_in_order(),
            FlashStart::Steady => blocks.fill_steadily(),
        }
        for index in (0..layout.superblocks).map(Superblock::new) {
            if blocks.valid(index) > 0 {
                blocks.seal(index);
            } else {
                blocks.free.push_back(index);
            }
        }
        blocks
    }

    fn fill_in_order(&mut self) {
        for (superblock, index) in
            self.superblocks.iter_mut().zip(0..self.layout.units.div_ceil(self.layout.slots))
        {
            let first = index * self.layout.slots;
            superblock.valid = self.layout.slots.min(self.layout.units - first);
            superblock.reverse = Reverse::InOrder(Unit::new(first));
        }
    }

    fn fill_steadily(&mut self) {
        let steady = SteadyState::of(self.layout);
        for (slot, unit) in steady.slots() {
            let (superblock, place) = self.layout.split(slot);
            if let [entry] = self.entries(superblock, place, 1) {
                *entry = Some(unit);
            }
        }
        for (superblock, valid) in steady.superblocks() {
            self.superblocks[superblock.at()].valid = valid;
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn open_groups(&self, stream: Stream) -> u32 {
        self.open[stream as usize].map_or(0, |open| self.layout.groups - open.next_group)
    }

    /// Opens a free superblock if necessary, provided that `keep` of them remain free.
    pub(super) fn allocate(&mut self, stream: Stream, keep: usize) -> Option<Slot> {
        if self.open_groups(stream) == 0 {
            if let Some(full) = self.open[stream as usize].take() {
                self.seal(full.superblock);
            }
            if self.free.len() <= keep {
                return None;
            }
            let superblock = self.free.pop_front()?;
            self.open[stream as usize] = Some(Open { superblock, next_group: 0 });
            self.superblocks[superblock.at()].state = State::Open;
        }
        let open = self.open[stream as usize].as_mut()?;
        let place = open.next_group << self.layout.group_shift;
        open.next_group += 1;
        Some(self.layout.slot(open.superblock, place))
    }

    pub(super) fn unit_at(&self, slot: Slot) -> Option<Unit> {
        let (superblock, place) = self.layout.split(slot);
        match &self.superblocks[superblock.at()].reverse {
            Reverse::Empty => None,
            Reverse::InOrder(first) => {
                let unit = first.get() + place;
                (place < self.layout.slots && unit < self.layout.units).then(|| Unit::new(unit))
            }
            Reverse::Table(units) => units[place as usize],
        }
    }

    pub(super) fn valid_in_group(&self, first_slot: Slot) -> u32 {
        let (superblock, place) = self.layout.split(first_slot);
        let slots = self.layout.slots_per_group();
        match &self.superblocks[superblock.at()].reverse {
            Reverse::Table(units) => {
                let units = &units[place as usize..(place + slots) as usize];
                units.iter().map(|unit| u32::from(unit.is_some())).sum()
            }
            _ => (0..slots).map(|place| u32::from(self.unit_at(first_slot.after(place)).is_some())).sum(),
        }
    }

    /// Removes up to `most` valid units from a group of a victim into `into`; returns their number.
    pub(super) fn take_group(&mut self, first_slot: Slot, most: u32, into: &mut [Option<Unit>]) -> u32 {
        let (index, place) = self.layout.split(first_slot);
        // Which slots are stale follows no pattern, so a branch on it would be mispredicted.
        let mut taken = 0;
        for entry in self.entries(index, place, self.layout.slots_per_group()) {
            let take = entry.is_some() & (taken < most);
            if let Some(unit) = into.get_mut(taken as usize) {
                *unit = *entry;
            }
            taken += u32::from(take);
            *entry = if take { None } else { *entry };
        }
        self.change(index, |valid| valid - taken);
        taken
    }

    /// Assigns the units to the slots from `first_slot` on, which were stale and are all in one group.
    pub(super) fn assign(&mut self, first_slot: Slot, units: &[Option<Unit>]) {
        let (index, place) = self.layout.split(first_slot);
        let count = narrow(units.len() as u64);
        self.entries(index, place, count).iter_mut().zip(units).for_each(|(entry, unit)| *entry = *unit);
        self.change(index, |valid| valid + count);
    }

    pub(super) fn invalidate(&mut self, slot: Slot) {
        let (index, place) = self.layout.split(slot);
        debug_assert!(self.unit_at(slot).is_some());
        if let [entry] = self.entries(index, place, 1) {
            *entry = None;
        }
        self.change(index, |valid| valid - 1);
    }

    pub(super) fn valid(&self, superblock: Superblock) -> u32 {
        self.superblocks[superblock.at()].valid
    }

    /// Takes the sealed superblock with the fewest valid units, if collecting it gains space.
    pub(super) fn take_victim(&mut self) -> Option<Superblock> {
        while self.lowest < self.layout.slots && self.buckets[self.lowest as usize].is_none() {
            self.lowest += 1;
        }
        if self.lowest >= self.layout.slots {
            return None;
        }
        let index = self.buckets[self.lowest as usize]?;
        self.unlink(index);
        self.superblocks[index.at()].state = State::Victim;
        Some(index)
    }

    pub(super) fn release(&mut self, superblock: Superblock) {
        debug_assert_eq!(self.superblocks[superblock.at()].state, State::Victim);
        debug_assert_eq!(self.superblocks[superblock.at()].valid, 0);
        self.superblocks[superblock.at()].state = State::Free;
        self.free.push_back(superblock);
    }

    /// `count` entries of a superblock's reverse map, which is created in full if it was not stored.
    fn entries(&mut self, superblock: Superblock, place: u32, count: u32) -> &mut [Option<Unit>] {
        let (slots, units) = (self.layout.slots, self.layout.units);
        let reverse = &mut self.superblocks[superblock.at()].reverse;
        match *reverse {
            Reverse::Table(_) => {}
            Reverse::InOrder(first) => {
                let mut table = vec![None; slots as usize].into_boxed_slice();
                let held = (units - first.get()).min(slots) as usize;
                table[..held]
                    .iter_mut()
                    .zip(0..)
                    .for_each(|(entry, place)| *entry = Some(first.after(place)));
                *reverse = Reverse::Table(table);
            }
            Reverse::Empty => *reverse = Reverse::Table(vec![None; slots as usize].into_boxed_slice()),
        }
        match reverse {
            Reverse::Table(table) => &mut table[place as usize..(place + count) as usize],
            Reverse::Empty | Reverse::InOrder(_) => &mut [],
        }
    }

    fn change(&mut self, index: Superblock, valid: impl Fn(u32) -> u32) {
        let superblock = &mut self.superblocks[index.at()];
        if superblock.state == State::Sealed {
            self.unlink(index);
            self.superblocks[index.at()].valid = valid(self.superblocks[index.at()].valid);
            self.link(index);
        } else {
            superblock.valid = valid(superblock.valid);
        }
    }

    fn seal(&mut self, index: Superblock) {
        self.superblocks[index.at()].state = State::Sealed;
        self.link(index);
    }

    fn link(&mut self, index: Superblock) {
        let valid = self.superblocks[index.at()].valid;
        let next = self.buckets[valid as usize].replace(index);
        if let Some(next) = next {
            self.superblocks[next.at()].previous = Some(index);
        }
        let superblock = &mut self.superblocks[index.at()];
        (superblock.previous, superblock.next) = (None, next);
        self.lowest = self.lowest.min(valid);
    }

    fn unlink(&mut self, index: Superblock) {
        let Contents { valid, previous, next, .. } = self.superblocks[index.at()];
        match previous {
            None => self.buckets[valid as usize] = next,
            Some(previous) => self.superblocks[previous.at()].next = next,
        }
        if let Some(next) = next {
            self.superblocks[next.at()].previous = previous;
        }
    }
}
