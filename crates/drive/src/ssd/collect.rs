//! Garbage collection: freeing the superblocks that hold the fewest valid units.
//!
//! It begins when few superblocks are free. The valid units of the victim are read, packed into groups of a separate
//! stream, and programmed; when the last is durable the victim is erased. One free superblock is always reserved for
//! it. While it works, the host may use only as much flash as it gains, so that the host is not stopped abruptly.

use crate::ssd::blocks::Stream;
use crate::ssd::index::{Die, Slot, Superblock, Unit};
use crate::ssd::nand::Work;
use crate::ssd::parameters::Layout;
use crate::ssd::{Ssd, narrow};

/// Garbage collection begins when at most this number of superblocks is free or about to be.
const FEW_FREE: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Read {
    first_slot: Slot,
    pages: u32,
    room: u32,
}

#[derive(Clone, Copy, Debug)]
struct Filling {
    group: u32,
    first_slot: Slot,
    units: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Victim {
    moving: u32,
    emptied: bool,
    blocks: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    victim: Option<Superblock>,
    next_group: u32,
    valid_at_first: u32,
    /// Units that the host has written since then.
    host_units: u64,
    reads: Vec<Read>,
    unused: Vec<u32>,
    reading: u32,
    /// Units being read, for which room is reserved.
    reserved: u32,
    filling: Option<Filling>,
    units: Vec<Option<Unit>>,
    victims: Vec<Victim>,
    emptied: usize,
    erasing: usize,
    host_blocked: bool,
    /// Whether the host got no group, for lack of a superblock or to stay in step.
    host_waits: bool,
}

impl Collector {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            units: vec![None; layout.slots_per_group() as usize],
            victims: vec![Victim::default(); layout.superblocks as usize],
            ..Self::default()
        }
    }
}

impl Ssd {
    pub(super) const fn host_waits(&self) -> bool {
        self.collector.host_waits
    }

    /// Whether the host has to wait so as not to get ahead of garbage collection.
    fn is_paced(&self) -> bool {
        let Some(victim) = self.collector.victim else { return false };
        let before = self.collector.valid_at_first;
        let moved = u64::from(before.saturating_sub(self.blocks.valid(victim)));
        let ahead = u64::from(self.layout.window << self.layout.group_shift);
        let won = u64::from(self.layout.slots - before);
        self.collector.host_units * u64::from(before) > (moved + ahead) * won
    }

    /// Allocates a group for the host's data, if garbage collection leaves one.
    pub(super) fn host_group(&mut self) -> Option<Slot> {
        self.collector.host_waits = true;
        self.collector.host_blocked = false;
        if self.is_paced() {
            return None;
        }
        let slot = self.blocks.allocate(Stream::Host, 1);
        self.collector.host_waits = slot.is_none();
        self.collector.host_blocked = slot.is_none();
        if slot.is_some() {
            self.collector.host_units += u64::from(self.layout.slots_per_group());
        }
        if self.collector.victim.is_none() {
            self.collect();
        }
        slot
    }

    pub(super) fn collect_on(&mut self) {
        self.collect();
        if std::mem::take(&mut self.collector.host_waits) {
            self.destage();
        }
    }

    fn collect(&mut self) {
        loop {
            let Some(victim) = self.collector.victim else {
                if !self.needs_collection() || !self.begin_victim() {
                    break;
                }
                continue;
            };
            self.read_victim(victim);
            if self.collector.next_group < self.layout.groups || self.collector.reading > 0 {
                break;
            }
            if self.blocks.valid(victim) > 0 {
                // Units for which there was no room are read again; without any room, the loop ends.
                self.collector.next_group = 0;
                continue;
            }
            self.collector.victim = None;
            self.collector.emptied += 1;
            self.collector.victims[victim.at()].emptied = true;
            self.erase_if_durable(victim);
        }
        self.pad_if_stuck();
    }

    pub(super) fn victim_read(&mut self, index: u32) {
        let read = &mut self.collector.reads[index as usize];
        read.pages -= 1;
        if read.pages > 0 {
            return;
        }
        let Read { first_slot, room, .. } = *read;
        self.collector.unused.push(index);
        self.collector.reading -= 1;
        self.collector.reserved -= room;
        self.move_group(first_slot, room);
        self.collect_on();
    }

    pub(super) fn moved(&mut self, victim: Superblock, units: u32) {
        let state = &mut self.collector.victims[victim.at()];
        debug_assert_eq!(state.blocks, 0, "erased before what was in it is durable");
        state.moving -= units;
        self.erase_if_durable(victim);
    }

    pub(super) fn block_erased(&mut self, superblock: Superblock) {
        self.record.counters.erases += 1;
        let victim = &mut self.collector.victims[superblock.at()];
        victim.blocks -= 1;
        if victim.blocks > 0 {
            return;
        }
        victim.emptied = false;
        self.collector.emptied -= 1;
        self.collector.erasing -= 1;
        self.blocks.release(superblock);
        self.collect_on();
    }

    fn needs_collection(&self) -> bool {
        let few = self.blocks.free() + self.collector.emptied <= FEW_FREE;
        // Other victims have to fill the group for which the last units of emptied victims wait.
        few || (self.collector.filling.is_some() && self.collector.host_blocked && self.is_collection_idle())
    }

    fn is_collection_idle(&self) -> bool {
        self.collector.victim.is_none()
            && self.collector.erasing == 0
            && self.groups.in_flight(Stream::Collected) == 0
    }

    fn begin_victim(&mut self) -> bool {
        let Some(victim) = self.blocks.take_victim() else { return false };
        self.collector.victim = Some(victim);
        self.collector.next_group = 0;
        self.collector.host_units = 0;
        self.collector.valid_at_first = self.blocks.valid(victim);
        true
    }

    fn read_victim(&mut self, victim: Superblock) {
        while self.collector.next_group < self.layout.groups {
            let under_way = self.collector.reading + self.groups.in_flight(Stream::Collected);
            if self.blocks.valid(victim) <= self.collector.reserved {
                self.collector.next_group = self.layout.groups;
                return;
            }
            if under_way >= self.layout.window {
                return;
            }
            let place = self.collector.next_group << self.layout.group_shift;
            let first_slot = self.layout.slot(victim, place);
            let valid = self.blocks.valid_in_group(first_slot);
            if valid == 0 {
                self.collector.next_group += 1;
                continue;
            }
            let room = valid.min(self.collection_room());
            if room == 0 {
                return;
            }
            self.read_group(first_slot, room);
            if room < valid {
                return;
            }
            self.collector.next_group += 1;
        }
    }

    fn read_group(&mut self, first_slot: Slot, room: u32) {
        let read = Read { first_slot, pages: self.layout.pages_per_group, room };
        let index = self.collector.unused.pop().unwrap_or_else(|| {
            self.collector.reads.push(read);
            narrow(self.collector.reads.len() as u64 - 1)
        });
        self.collector.reads[index as usize] = read;
        self.collector.reading += 1;
        self.collector.reserved += room;
        let bytes = self.layout.page_bytes.min(room << self.layout.unit_shift);
        self.record.counters.media_read_bytes += u64::from(bytes) * u64::from(self.layout.pages_per_group);
        self.push_pages(first_slot, Work::CollectRead { read: index }, bytes);
    }

    /// Units that can be moved and for which no room is reserved yet.
    fn collection_room(&self) -> u32 {
        let per_group = self.layout.slots_per_group();
        let filling = self.collector.filling.map_or(0, |filling| per_group - filling.units);
        let open = self.blocks.open_groups(Stream::Collected) << self.layout.group_shift;
        let free = if self.blocks.free() > 0 { self.layout.slots } else { 0 };
        (filling + open).saturating_add(free).saturating_sub(self.collector.reserved)
    }

    /// Moves up to `room` units of a group of a victim; a full group is programmed at once.
    fn move_group(&mut self, from: Slot, mut room: u32) {
        let (victim, _) = self.layout.split(from);
        let per_group = self.layout.slots_per_group();
        let mut units = std::mem::take(&mut self.collector.units);
        while room > 0 {
            let filling = self.collector.filling.or_else(|| {
                let first_slot = self.blocks.allocate(Stream::Collected, 0)?;
                let group = self.groups.begin(Stream::Collected);
                Some(Filling { group, first_slot, units: 0 })
            });
            // Room was reserved; units that still find none stay valid and are read again.
            let Some(mut filling) = filling else { break };
            let count = self.blocks.take_group(from, room.min(per_group - filling.units), &mut units);
            if count == 0 {
                self.collector.filling = Some(filling);
                break;
            }
            let to = filling.first_slot.after(filling.units);
            let moved = &units[..count as usize];
            self.blocks.assign(to, moved);
            for (place, unit) in (0..).zip(moved.iter().flatten()) {
                self.mapping.set(*unit, to.after(place));
            }
            self.collector.victims[victim.at()].moving += count;
            self.groups.add_moved(filling.group, victim, count);
            filling.units += count;
            room -= count;
            self.collector.filling = Some(filling);
            if filling.units == per_group {
                self.program_filling();
            }
        }
        self.collector.units = units;
    }

    fn program_filling(&mut self) {
        if let Some(Filling { group, first_slot, .. }) = self.collector.filling.take() {
            self.program(group, first_slot);
        }
    }

    /// Pads the last group if emptied victims wait for it and nothing is left to collect that could fill it.
    fn pad_if_stuck(&mut self) {
        if self.collector.host_blocked && self.is_collection_idle() {
            self.program_filling();
        }
    }

    fn erase_if_durable(&mut self, victim: Superblock) {
        let state = &mut self.collector.victims[victim.at()];
        if !state.emptied || state.moving > 0 || state.blocks > 0 {
            return;
        }
        state.blocks = self.layout.dies;
        self.collector.erasing += 1;
        for die in 0..self.layout.dies {
            let work = Work::Erase { superblock: victim };
            self.nand.push(Die::new(die), work, 0, self.now, &mut self.agenda);
        }
    }
}
