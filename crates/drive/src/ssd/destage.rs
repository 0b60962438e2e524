//! From the buffer to flash: which units are programmed, when, and what has to be read first.
//!
//! Whole units are programmed as soon as they fill a group. A partial unit stays, so that the host can write
//! the rest, until the buffer holds too many of them, a flush or a forced write asks for it, or it has waited
//! too long; then the rest is read, if the unit was ever written. A group that is not full is programmed with
//! padding if a command waits for it.

use straddle_units::io::Time;

use crate::drive::MediaEvent;
use crate::ssd::agenda::Lane;
use crate::ssd::blocks::Stream;
use crate::ssd::buffer::Stage;
use crate::ssd::index::{EntryIndex, Slot, Superblock};
use crate::ssd::nand::Work;
use crate::ssd::parameters::SECTOR_BYTES;
use crate::ssd::{Ssd, narrow};

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) stream: Stream,
    pages: u32,
    /// The buffer's entries, and where their units were before.
    entries: Vec<(EntryIndex, Option<Slot>)>,
    /// For garbage collection: the victims, and the number of units from each.
    victims: Vec<(Superblock, u32)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    unused: Vec<u32>,
    in_flight: [u32; 2],
}

impl Groups {
    pub(super) fn begin(&mut self, stream: Stream) -> u32 {
        let index = self.unused.pop().unwrap_or_else(|| {
            self.groups.push(Group { stream, pages: 0, entries: Vec::new(), victims: Vec::new() });
            narrow(self.groups.len() as u64 - 1)
        });
        self.groups[index as usize].stream = stream;
        index
    }

    pub(super) fn add_moved(&mut self, group: u32, victim: Superblock, count: u32) {
        let victims = &mut self.groups[group as usize].victims;
        match victims.last_mut().filter(|last| last.0 == victim) {
            Some(last) => last.1 += count,
            None => victims.push((victim, count)),
        }
    }

    pub(super) const fn in_flight(&self, stream: Stream) -> u32 {
        self.in_flight[stream as usize]
    }
}

impl Ssd {
    pub(super) fn destage(&mut self) {
        let per_group = self.layout.slots_per_group();
        self.read_rests();
        while self.groups.in_flight(Stream::Host) < self.layout.window && !self.host_waits() {
            let ready = self.buffer.ready();
            if ready == 0 || (ready < per_group && !self.must_pad()) {
                return;
            }
            let Some(first_slot) = self.host_group() else { return };
            self.store(first_slot, per_group);
        }
    }

    pub(super) fn program(&mut self, group: u32, first_slot: Slot) {
        let programmed = &mut self.groups.groups[group as usize];
        programmed.pages = self.layout.pages_per_group;
        self.groups.in_flight[programmed.stream as usize] += 1;
        self.push_pages(first_slot, Work::Program { group }, self.layout.page_bytes);
    }

    /// Queues the work for each page of a group, with `bytes` to transfer for each.
    pub(super) fn push_pages(&mut self, first_slot: Slot, work: Work, bytes: u32) {
        let first = self.layout.first_page(first_slot);
        for page in first..first + self.layout.pages_per_group {
            self.nand.push(self.nand.die_of(page), work, bytes, self.now, &mut self.agenda);
        }
    }

    pub(super) fn page_programmed(&mut self, index: u32) {
        let group = &mut self.groups.groups[index as usize];
        group.pages -= 1;
        if group.pages > 0 {
            return;
        }
        let stream = group.stream;
        self.groups.in_flight[stream as usize] -= 1;
        let bytes = self.layout.group_bytes();
        self.record.counters.media_write_bytes += bytes;
        // The vectors are put back, to avoid an allocation per group.
        match stream {
            Stream::Host => {
                self.record.counters.unit_write_bytes += bytes;
                let mut entries = std::mem::take(&mut self.groups.groups[index as usize].entries);
                entries.drain(..).for_each(|(entry, _)| self.stored(entry));
                self.groups.groups[index as usize].entries = entries;
            }
            Stream::Collected => {
                self.record.counters.gc_write_bytes += bytes;
                let mut victims = std::mem::take(&mut self.groups.groups[index as usize].victims);
                victims.drain(..).for_each(|(victim, units)| self.moved(victim, units));
                self.groups.groups[index as usize].victims = victims;
            }
        }
        self.groups.unused.push(index);
        match stream {
            Stream::Host => {
                self.flushed();
                self.feed();
                self.destage();
            }
            Stream::Collected => self.collect_on(),
        }
    }

    pub(super) fn rest_read(&mut self, index: EntryIndex) {
        let entry = self.buffer.entry_mut(index);
        entry.reads -= 1;
        if entry.reads == 0 {
            self.buffer.complete(index, self.now);
            self.destage();
        }
    }

    pub(super) fn watch_age(&mut self) {
        if !self.age_timer {
            self.age_timer = true;
            self.agenda.push(Lane::Age, self.now.saturating_add(self.destage_after), 0);
        }
    }

    /// Handles the age timer: programs data that has been in the buffer too long.
    pub(super) fn aged(&mut self) {
        self.age_timer = false;
        self.destage();
        if self.buffer.used > 0 {
            let partial = self.buffer.first_partial().map(|(_, since)| since);
            let oldest = partial.into_iter().chain(self.buffer.ready_since()).min();
            let due = |since: u64| since.saturating_add(self.destage_after);
            let next = oldest.map(due).filter(|&next| next > self.now).unwrap_or(due(self.now));
            self.age_timer = true;
            self.agenda.push(Lane::Age, next, 0);
        }
    }

    fn is_old(&self, since: u64) -> bool {
        since.saturating_add(self.destage_after) <= self.now
    }

    fn is_stuck(&self) -> bool {
        self.host.is_short_of_room() && self.groups.in_flight(Stream::Host) == 0
    }

    fn must_pad(&self) -> bool {
        let last = self.buffer.partial() == 0 && self.buffer.reading == 0;
        self.buffer.urgent_ready > 0
            || (last && (self.host.is_flushing() || self.is_stuck()))
            || self.buffer.ready_since().is_some_and(|since| self.is_old(since))
    }

    /// Reads the rest of the partial units that have to be programmed.
    fn read_rests(&mut self) {
        let per_group = self.layout.slots_per_group();
        while let Some((index, since)) = self.buffer.first_partial() {
            let coming = self.buffer.ready() + self.buffer.reading;
            let must = self.host.is_flushing()
                || self.buffer.entry(index).urgent
                || self.buffer.partial() > self.partial_limit
                || (coming < per_group && self.is_stuck())
                || self.is_old(since);
            if !must || self.buffer.reading >= self.layout.window * per_group {
                return;
            }
            let Some(slot) = self.mapping.get(self.buffer.entry(index).unit) else {
                self.buffer.complete(index, self.now);
                continue;
            };
            let unit_bytes = self.layout.unit_bytes();
            self.record.counters.rmw_reads += 1;
            self.record.counters.rmw_read_bytes += unit_bytes;
            self.record.counters.media_read_bytes += unit_bytes;
            self.buffer.begin_reading(index, self.layout.pages_per_group);
            let bytes = self.layout.page_bytes.min(narrow(unit_bytes));
            self.push_pages(slot, Work::UnitRead { entry: index }, bytes);
        }
    }

    fn store(&mut self, first_slot: Slot, most: u32) {
        let group = self.groups.begin(Stream::Host);
        let mut entries = std::mem::take(&mut self.groups.groups[group as usize].entries);
        let mut units = std::mem::take(&mut self.units);
        units.clear();
        // One step after the other over all of them, so that their cache misses overlap.
        while units.len() < most as usize
            && let Some(entry) = self.buffer.take_ready()
        {
            units.push(Some(self.buffer.entry(entry).unit));
            entries.push((entry, None));
        }
        for (place, ((_, before), unit)) in (0..).zip(entries.iter_mut().zip(&units)) {
            *before = unit.and_then(|unit| self.mapping.replace(unit, first_slot.after(place)));
        }
        entries.iter().filter_map(|&(_, before)| before).for_each(|before| self.blocks.invalidate(before));
        self.blocks.assign(first_slot, &units);
        for &(entry, _) in &entries {
            self.note_runs(entry, |at, offset, length| MediaEvent::Storing { at, offset, length });
        }
        self.groups.groups[group as usize].entries = entries;
        self.units = units;
        self.record.counters.destages += 1;
        self.program(group, first_slot);
    }

    fn stored(&mut self, index: EntryIndex) {
        self.note_runs(index, |at, offset, length| MediaEvent::Stored { at, offset, length });
        debug_assert_eq!(self.buffer.entry(index).stage, Stage::Storing);
        let mut waiters = std::mem::take(&mut self.buffer.entry_mut(index).waiters);
        self.buffer.remove(index, self.now);
        if !waiters.is_empty() {
            for command in waiters.drain(..) {
                self.awaited(command);
            }
            self.buffer.entry_mut(index).waiters = waiters;
        }
        if self.buffer.used == 0 && self.age_timer {
            self.age_timer = false;
            self.agenda.clear(Lane::Age);
        }
    }

    /// Reports the sectors that the host wrote of an entry; with power-loss protection, that was on arrival.
    fn note_runs(&mut self, index: EntryIndex, event: impl Fn(Time, u64, u64) -> MediaEvent) {
        let Some(events) = &mut self.record.media_events else { return };
        if self.power_loss_protection {
            return;
        }
        let start = u64::from(self.buffer.entry(index).unit.get()) << self.layout.unit_shift;
        for (first, end) in self.buffer.runs(index) {
            let (first, end) = (u64::from(first) * SECTOR_BYTES, u64::from(end) * SECTOR_BYTES);
            events.push(event(Time::from_nanos(self.now), start + first, end - first));
        }
    }
}
