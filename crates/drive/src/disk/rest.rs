//! How a partly written physical sector waits for its rest, when that is on its way.
//!
//! In a stream of misaligned writes, the end of one and the start of the next make a whole sector, and nothing has to
//! be read. So a partial sector stays in the buffer while its rest is known to come (a write that waits for room
//! brings it) or likely to come (it ends a stream). It never holds up other work: a flush, or a host that waits for
//! the medium, ends waiting for what is only likely; all waiting ends where nothing else can be done.

use straddle_units::io::Time;

use crate::disk::Disk;
use crate::disk::buffer::Extent;
use crate::disk::geometry::Position;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Likely,
    Known,
    None,
}

impl Patience {
    pub(super) const fn less(self) -> Option<Self> {
        match self {
            Self::Likely => Some(Self::Known),
            Self::Known => Some(Self::None),
            Self::None => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) from: u64,
    pub(super) end: u64,
    pub(super) place: Position,
}

impl Disk {
    pub(super) fn patience(&self) -> Patience {
        if self.intake.through.is_empty() && !self.queue.has_flush() {
            Patience::Likely
        } else {
            Patience::Known
        }
    }

    /// The part of an extent to write next; `None` while all of it waits.
    #[inline]
    pub(super) fn next_of(&self, start: u64, extent: &Extent, patience: Patience) -> Option<Next> {
        if !extent.streamed && extent.coming == [false; 2] {
            return Some(Next { from: start, end: extent.end, place: extent.place });
        }
        let left = self.left_behind(start, extent, patience);
        let (from, end) = self.buffer.body(start, extent, left)?;
        Some(Next { from, end, place: self.buffer.place(start, extent, left, &self.mechanism.geometry) })
    }

    /// Which of the two partial sectors of an extent wait for their rest.
    fn left_behind(&self, start: u64, extent: &Extent, patience: Patience) -> [bool; 2] {
        let partial = self.buffer.partial(start, extent);
        let known = patience != Patience::None && !self.intake.waiting.is_empty();
        let likely =
            patience == Patience::Likely && extent.streamed && self.now < self.expected_until(extent);
        [partial[0] && known && extent.coming[0], partial[1] && (likely || (known && extent.coming[1]))]
    }

    /// The rest of a stream's last sector is likely to come while the host is busy with the drive, but for at least
    /// two revolutions, or exactly those when the table is nearly full.
    pub(super) fn expected_until(&self, extent: &Extent) -> Time {
        let least = extent.touched.max(self.intake.arrived)
            + self.mechanism.revolution()
            + self.mechanism.revolution();
        if self.destager.is_table_full(&self.buffer) {
            least
        } else {
            least.max(self.queue.active + self.destager.cache.idle)
        }
    }

    /// A short extent that ends inside a sector is left alone for two revolutions; of a stream, only that sector.
    pub(super) fn waits_for_more(&self, start: u64, extent: &Extent) -> Option<Time> {
        let ends_inside = !extent.streamed && self.buffer.partial(start, extent)[1];
        let until = extent.touched + self.mechanism.revolution() + self.mechanism.revolution();
        (ends_inside && self.now < until).then_some(until)
    }
}
