//! The flash blocks: which slot holds which unit, how many units of a superblock are valid, and which one to collect.
//!
//! A superblock is free, open for one of two streams of writes, sealed, or a victim of garbage collection. The sealed
//! ones stand in buckets by their number of valid units, so that the one with the fewest is found at once. The reverse
//! map of a superblock that was filled in order and has lost nothing is not stored.

use std::collections::VecDeque;

use crate::ssd::parameters::Layout;
use crate::ssd::{NONE, narrow};

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Data from the host.
    Host,
    /// Units that garbage collection moves; apart, because they tend to live longer.
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
    /// Nothing was ever written here.
    Empty,
    /// Units in order, from this one.
    InOrder(u32),
    /// For each slot the unit plus one; zero if what it holds is stale.
    Table(Box<[u32]>),
}

#[derive(Clone, Debug)]
struct Superblock {
    state: State,
    valid: u32,
    /// Neighbours in the bucket.
    previous: u32,
    next: u32,
    reverse: Reverse,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    superblock: u32,
    next_group: u32,
}

/// All superblocks.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    layout: Layout,
    superblocks: Vec<Superblock>,
    /// The first sealed superblock with each number of valid units.
    buckets: Vec<u32>,
    /// No bucket below has any.
    lowest: u32,
    free: VecDeque<u32>,
    open: [Open; 2],
}

impl Blocks {
    pub(super) fn new(layout: Layout, preconditioned: bool) -> Self {
        let empty =
            Superblock { state: State::Free, valid: 0, previous: NONE, next: NONE, reverse: Reverse::Empty };
        let mut blocks = Self {
            layout,
            superblocks: vec![empty; layout.superblocks as usize],
            buckets: vec![NONE; layout.slots as usize + 1],
            lowest: layout.slots,
            free: VecDeque::new(),
            open: [Open { superblock: NONE, next_group: 0 }; 2],
        };
        let full = if preconditioned { layout.units.div_ceil(layout.slots) } else { 0 };
        for index in 0..full {
            let first = index * layout.slots;
            let superblock = &mut blocks.superblocks[index as usize];
            superblock.valid = layout.slots.min(layout.units - first);
            superblock.reverse = Reverse::InOrder(first);
            blocks.seal(index);
        }
        blocks.free.extend(full..layout.superblocks);
        blocks
    }

    /// Number of free superblocks.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Groups that can still be taken from the superblock that the stream has open.
    pub(super) fn open_groups(&self, stream: Stream) -> u32 {
        let open = self.open[stream as usize];
        if open.superblock == NONE { 0 } else { self.layout.groups - open.next_group }
    }

    /// Takes the next group of the stream and returns its first slot; opens a free superblock if it must and may, that
    /// is, if `keep` will be left.
    pub(super) fn allocate(&mut self, stream: Stream, keep: usize) -> Option<u32> {
        if self.open_groups(stream) == 0 {
            let full = std::mem::replace(&mut self.open[stream as usize].superblock, NONE);
            if full != NONE {
                self.seal(full);
            }
            if self.free.len() <= keep {
                return None;
            }
            let superblock = self.free.pop_front()?;
            self.open[stream as usize] = Open { superblock, next_group: 0 };
            self.superblocks[superblock as usize].state = State::Open;
        }
        let open = &mut self.open[stream as usize];
        let place = open.next_group << self.layout.group_shift;
        open.next_group += 1;
        Some((open.superblock << self.layout.slot_shift) | place)
    }

    /// The unit whose valid copy is in the slot.
    pub(super) fn unit_at(&self, slot: u32) -> Option<u32> {
        let (superblock, place) = self.layout.split(slot);
        match &self.superblocks[superblock as usize].reverse {
            Reverse::Empty => None,
            Reverse::InOrder(first) => {
                let unit = first + place;
                (place < self.layout.slots && unit < self.layout.units).then_some(unit)
            }
            Reverse::Table(units) => units[place as usize].checked_sub(1),
        }
    }

    /// Number of valid units among the slots of a group.
    pub(super) fn valid_in_group(&self, first_slot: u32) -> u32 {
        let (superblock, place) = self.layout.split(first_slot);
        let slots = self.layout.slots_per_group();
        match &self.superblocks[superblock as usize].reverse {
            Reverse::Table(units) => {
                let units = &units[place as usize..(place + slots) as usize];
                units.iter().map(|&unit| u32::from(unit != 0)).sum()
            }
            _ => (first_slot..first_slot + slots).map(|slot| u32::from(self.unit_at(slot).is_some())).sum(),
        }
    }

    /// Takes up to `most` valid units out of a group of a victim, where they are valid no more, and puts them into the
    /// beginning of `into`, which has room for a group. Returns how many there were.
    pub(super) fn take_group(&mut self, first_slot: u32, most: u32, into: &mut [u32]) -> u32 {
        let (index, place) = self.layout.split(first_slot);
        // Which slots are stale follows no pattern; without branches on it, no time goes into guessing.
        let mut taken = 0;
        for entry in self.entries(index, place, self.layout.slots_per_group()) {
            let take = u32::from(*entry != 0) & u32::from(taken < most);
            if let Some(unit) = into.get_mut(taken as usize) {
                *unit = entry.wrapping_sub(1);
            }
            taken += take;
            *entry *= 1 - take;
        }
        self.change(index, |valid| valid - taken);
        taken
    }

    /// The slots from `first_slot`, so far stale and all in one group, hold the units from now on.
    pub(super) fn assign(&mut self, first_slot: u32, units: &[u32]) {
        let (index, place) = self.layout.split(first_slot);
        let count = narrow(units.len() as u64);
        self.entries(index, place, count).iter_mut().zip(units).for_each(|(entry, unit)| *entry = unit + 1);
        self.change(index, |valid| valid + count);
    }

    /// What the slot holds is stale from now on.
    pub(super) fn invalidate(&mut self, slot: u32) {
        let (index, place) = self.layout.split(slot);
        debug_assert!(self.unit_at(slot).is_some());
        if let [entry] = self.entries(index, place, 1) {
            *entry = 0;
        }
        self.change(index, |valid| valid - 1);
    }

    /// Number of valid units in the superblock.
    pub(super) fn valid(&self, superblock: u32) -> u32 {
        self.superblocks[superblock as usize].valid
    }

    /// Takes the sealed superblock with the fewest valid units, if collecting it gains anything.
    pub(super) fn take_victim(&mut self) -> Option<u32> {
        while self.lowest < self.layout.slots && self.buckets[self.lowest as usize] == NONE {
            self.lowest += 1;
        }
        if self.lowest >= self.layout.slots {
            return None;
        }
        let index = self.buckets[self.lowest as usize];
        self.unlink(index);
        self.superblocks[index as usize].state = State::Victim;
        Some(index)
    }

    /// The victim has been erased.
    pub(super) fn release(&mut self, superblock: u32) {
        debug_assert_eq!(self.superblocks[superblock as usize].state, State::Victim);
        debug_assert_eq!(self.superblocks[superblock as usize].valid, 0);
        self.superblocks[superblock as usize].state = State::Free;
        self.free.push_back(superblock);
    }

    /// `count` entries of a superblock's reverse map, which is written out.
    fn entries(&mut self, superblock: u32, place: u32, count: u32) -> &mut [u32] {
        let (slots, units) = (self.layout.slots, self.layout.units);
        let reverse = &mut self.superblocks[superblock as usize].reverse;
        match *reverse {
            Reverse::Table(_) => {}
            Reverse::InOrder(first) => {
                let unit = |place| if first + place < units { first + place + 1 } else { 0 };
                *reverse = Reverse::Table((0..slots).map(unit).collect());
            }
            Reverse::Empty => *reverse = Reverse::Table(vec![0; slots as usize].into_boxed_slice()),
        }
        match reverse {
            Reverse::Table(table) => &mut table[place as usize..(place + count) as usize],
            Reverse::Empty | Reverse::InOrder(_) => &mut [],
        }
    }

    fn change(&mut self, index: u32, valid: impl Fn(u32) -> u32) {
        let superblock = &mut self.superblocks[index as usize];
        if superblock.state == State::Sealed {
            self.unlink(index);
            self.superblocks[index as usize].valid = valid(self.superblocks[index as usize].valid);
            self.link(index);
        } else {
            superblock.valid = valid(superblock.valid);
        }
    }

    fn seal(&mut self, index: u32) {
        self.superblocks[index as usize].state = State::Sealed;
        self.link(index);
    }

    fn link(&mut self, index: u32) {
        let valid = self.superblocks[index as usize].valid;
        let next = std::mem::replace(&mut self.buckets[valid as usize], index);
        if next != NONE {
            self.superblocks[next as usize].previous = index;
        }
        let superblock = &mut self.superblocks[index as usize];
        (superblock.previous, superblock.next) = (NONE, next);
        self.lowest = self.lowest.min(valid);
    }

    fn unlink(&mut self, index: u32) {
        let Superblock { valid, previous, next, .. } = self.superblocks[index as usize];
        match previous {
            NONE => self.buckets[valid as usize] = next,
            _ => self.superblocks[previous as usize].next = next,
        }
        if next != NONE {
            self.superblocks[next as usize].previous = previous;
        }
    }
}
