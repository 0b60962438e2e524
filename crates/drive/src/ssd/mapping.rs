//! The forward map: in which slot of the flash each indirection unit lies.
//!
//! It grows in chunks, where something is written. On a drive that begins full, a chunk that nobody has touched still
//! stands for the units in their order; so filling the drive beforehand costs nothing.

use crate::ssd::narrow;
use crate::ssd::parameters::Layout;

/// Entries in a chunk: 64 KiB of table.
const CHUNK_SHIFT: u32 = 14;
const CHUNK: u32 = 1 << CHUNK_SHIFT;

/// The map. An entry is the slot's number plus one; zero where there is nothing.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    chunks: Vec<Option<Box<[u32]>>>,
    layout: Layout,
    /// Whether an untouched chunk stands for units written in order.
    in_order: bool,
}

impl Mapping {
    pub(super) fn new(layout: Layout, preconditioned: bool) -> Self {
        let chunks = vec![None; layout.units.div_ceil(CHUNK) as usize];
        Self { chunks, layout, in_order: preconditioned }
    }

    /// The slot of the unit, if it is mapped.
    pub(super) fn get(&self, unit: u32) -> Option<u32> {
        match &self.chunks[(unit >> CHUNK_SHIFT) as usize] {
            Some(chunk) => chunk[(unit & (CHUNK - 1)) as usize].checked_sub(1),
            None => self.in_order.then(|| self.layout.slot_in_order(unit)),
        }
    }

    /// Maps the unit to the slot.
    pub(super) fn set(&mut self, unit: u32, slot: u32) {
        *self.entry(unit) = slot + 1;
    }

    /// Maps the unit to the slot; returns where it was.
    pub(super) fn replace(&mut self, unit: u32, slot: u32) -> Option<u32> {
        std::mem::replace(self.entry(unit), slot + 1).checked_sub(1)
    }

    /// Unmaps the unit; returns where it was.
    pub(super) fn take(&mut self, unit: u32) -> Option<u32> {
        std::mem::take(self.entry(unit)).checked_sub(1)
    }

    /// The first unit after `unit` that may be mapped, if it is known that `unit` is not.
    pub(super) fn unmapped_until(&self, unit: u32) -> Option<u32> {
        let index = unit >> CHUNK_SHIFT;
        let absent = !self.in_order && self.chunks[index as usize].is_none();
        absent.then(|| narrow((u64::from(index) + 1) << CHUNK_SHIFT).min(self.layout.units))
    }

    fn entry(&mut self, unit: u32) -> &mut u32 {
        let index = unit >> CHUNK_SHIFT;
        let (layout, in_order) = (&self.layout, self.in_order);
        let chunk = self.chunks[index as usize].get_or_insert_with(|| {
            let first = index << CHUNK_SHIFT;
            let end = layout.units.min(first.saturating_add(CHUNK));
            let mut chunk = vec![0; CHUNK as usize].into_boxed_slice();
            if in_order {
                chunk
                    .iter_mut()
                    .zip(first..end)
                    .for_each(|(entry, unit)| *entry = layout.slot_in_order(unit) + 1);
            }
            chunk
        });
        &mut chunk[(unit & (CHUNK - 1)) as usize]
    }
}
