//! The forward map from units to slots, in chunks. On a drive that starts full, an untouched chunk stands for units
//! written in order, so filling the drive beforehand costs nothing.

use crate::ssd::index::{Slot, Unit};
use crate::ssd::narrow;
use crate::ssd::parameters::Layout;
use crate::ssd::start::{FlashStart, SteadyState};

/// Entries in a chunk: 64 KiB of table.
const CHUNK_SHIFT: u32 = 14;
const CHUNK: u32 = 1 << CHUNK_SHIFT;

type Chunk = Box<[Option<Slot>]>;

#[derive(Clone, Debug)]
pub(super) struct Mapping {
    chunks: Vec<Option<Chunk>>,
    layout: Layout,
    in_order: bool,
}

impl Mapping {
    pub(super) fn new(layout: Layout, start: FlashStart) -> Self {
        let chunks = vec![None; layout.units.div_ceil(CHUNK) as usize];
        let mut mapping = Self { chunks, layout, in_order: start == FlashStart::InOrder };
        if start == FlashStart::Steady {
            SteadyState::of(layout).slots().for_each(|(slot, unit)| mapping.set(unit, slot));
        }
        mapping
    }

    pub(super) fn get(&self, unit: Unit) -> Option<Slot> {
        match &self.chunks[unit.at() >> CHUNK_SHIFT] {
            Some(chunk) => chunk[unit.at() & (CHUNK as usize - 1)],
            None => self.in_order.then(|| self.layout.slot_in_order(unit)),
        }
    }

    pub(super) fn set(&mut self, unit: Unit, slot: Slot) {
        *self.entry(unit) = Some(slot);
    }

    pub(super) fn replace(&mut self, unit: Unit, slot: Slot) -> Option<Slot> {
        self.entry(unit).replace(slot)
    }

    pub(super) fn take(&mut self, unit: Unit) -> Option<Slot> {
        self.entry(unit).take()
    }

    /// If `unit` is known to be unmapped, the first unit after it that may be mapped, or the number of units.
    pub(super) fn unmapped_until(&self, unit: Unit) -> Option<Unit> {
        let index = unit.get() >> CHUNK_SHIFT;
        let absent = !self.in_order && self.chunks[index as usize].is_none();
        absent.then(|| Unit::new(narrow((u64::from(index) + 1) << CHUNK_SHIFT).min(self.layout.units)))
    }

    fn entry(&mut self, unit: Unit) -> &mut Option<Slot> {
        let index = unit.get() >> CHUNK_SHIFT;
        let (layout, in_order) = (&self.layout, self.in_order);
        let chunk = self.chunks[index as usize].get_or_insert_with(|| {
            let first = index << CHUNK_SHIFT;
            let end = layout.units.min(first.saturating_add(CHUNK));
            let mut chunk = vec![None; CHUNK as usize].into_boxed_slice();
            let mut at = if in_order { first } else { end };
            while at < end {
                // Consecutive units are in consecutive slots up to the end of the superblock.
                let slot = layout.slot_in_order(Unit::new(at));
                let run = (layout.slots - at % layout.slots).min(end - at);
                let entries = &mut chunk[(at - first) as usize..(at - first + run) as usize];
                entries.iter_mut().zip(0..).for_each(|(entry, place)| *entry = Some(slot.after(place)));
                at += run;
            }
            chunk
        });
        &mut chunk[unit.at() & (CHUNK as usize - 1)]
    }
}
