//! Where a container puts the guest's blocks in its file, which decides whether aligned guests stay aligned.

use straddle_units::{ByteCount, ByteOffset};

use super::vmdk::STREAM_OPTIMIZED;
use super::{Format, ImageError, Map, Place};

/// So many allocated blocks are looked at.
const SAMPLE: u32 = 1024;

/// So many table entries are looked at on the way to them: a sparse image has mostly empty ones.
const STEPS: u32 = 4096;

/// The coarsest alignment that is told: 2^20 bytes, what partitions are aligned to.
const COARSEST: u32 = 20;
const POWERS: usize = 21;

/// A block of the guest and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte on the guest's disk.
    pub guest: ByteOffset,
    /// Its first byte in the file.
    pub host: ByteOffset,
}

/// How the allocated blocks of an image lie in its file, as far as they were looked at: the first 1024.
///
/// A block's alignment is the largest power of two, up to 1 MiB, that divides the distance between its byte on the
/// guest's disk and its byte in the file: what is aligned to it in the guest is aligned to it in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    units: u32,
    compressed: u32,
    complete: bool,
    /// The first block that is aligned to 2^k and to nothing coarser, for every k.
    first: [Option<Placed>; POWERS],
}

impl Placement {
    /// Follows the guest's blocks from the first on. A table that cannot be read ends it, with what was found.
    pub(super) fn sample(map: &dyn Map, size: u64) -> (Self, Option<ImageError>) {
        let mut found = Self { units: 0, compressed: 0, complete: false, first: [None; POWERS] };
        let mut guest = 0;
        for _ in 0..STEPS {
            if guest >= size {
                found.complete = true;
                break;
            }
            if found.units + found.compressed >= SAMPLE {
                break;
            }
            let run = match map.locate(guest) {
                Ok(run) => run,
                Err(error) => return (found, Some(error)),
            };
            match run.place {
                Place::Host { at, .. } => found.add(guest, at),
                Place::Packed { .. } => found.compressed += 1,
                Place::Zero | Place::Below => {}
            }
            guest = guest.saturating_add(run.len.max(1));
        }
        (found, None)
    }

    fn add(&mut self, guest: u64, host: u64) {
        self.units += 1;
        let power = host.abs_diff(guest).trailing_zeros().min(COARSEST);
        if let Some(slot) = usize::try_from(power).ok().and_then(|power| self.first.get_mut(power)) {
            let placed = Placed { guest: ByteOffset::new(guest), host: ByteOffset::new(host) };
            slot.get_or_insert(placed);
        }
    }

    /// How many blocks were looked at that are in the file as they are.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// How many were compressed; where those lie does not matter.
    pub fn compressed(&self) -> u32 {
        self.compressed
    }

    /// Whether every block of the guest was looked at.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The alignment that every block has; `None` when there is none in the file.
    pub fn alignment(&self) -> Option<ByteCount> {
        (0..)
            .zip(&self.first)
            .find(|(_, placed)| placed.is_some())
            .map(|(power, _)| ByteCount::new(1 << power))
    }

    /// The first block, in the guest's order, that is not aligned to `size`, a power of two. Of the blocks that are aligned
    /// to 1 MiB, only the first is held against a larger one.
    pub fn first_below(&self, size: ByteCount) -> Option<Placed> {
        let coarse = usize::try_from(size.get().trailing_zeros()).unwrap_or(usize::MAX);
        let is_off = |placed: &&Placed| {
            !ByteCount::new(placed.host.get().abs_diff(placed.guest.get())).is_multiple_of(size)
        };
        let first = self.first.iter().take(coarse).flatten();
        first.filter(is_off).min_by_key(|placed| placed.guest).copied()
    }

    /// The first block that has only the alignment which all have.
    pub fn first_least_aligned(&self) -> Option<Placed> {
        self.first.iter().flatten().next().copied()
    }
}

/// What a container is and does to the guest's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its format.
    pub format: Format,
    /// The kind of it, in the format's own words: `version 3`, `streamOptimized`, `dynamic`.
    pub variant: &'static str,
    /// The size of the guest's disk.
    pub virtual_size: ByteCount,
    /// What is kept together in the file: a cluster, grain or block; the whole disk where it is in one piece.
    pub block: ByteCount,
    /// Where the blocks lie.
    pub placement: Placement,
}

impl Container {
    /// Whether it is written once, when it is made: QEMU reads it and does not write to it.
    pub fn is_written_once(&self) -> bool {
        self.format == Format::Vmdk && self.variant == STREAM_OPTIMIZED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_on_a_boundary_over_1_mib_is_not_below_it() {
        let mut placement = Placement { units: 0, compressed: 0, complete: true, first: [None; POWERS] };
        placement.add(0, 0);
        let of = |size| placement.first_below(ByteCount::new(size)).map(|placed| placed.guest.get());
        assert_eq!(of(1 << 32), None);
        let mut placement = placement.clone();
        placement.add(1 << 20, 1 << 21);
        placement.add(2 << 20, (4 << 20) + 4096);
        let of = |size| placement.first_below(ByteCount::new(size)).map(|placed| placed.guest.get());
        assert_eq!(of(1 << 32), Some(2 << 20));
        assert_eq!(of(1 << 20), Some(2 << 20));
        assert_eq!(of(4096), None);
    }
}
