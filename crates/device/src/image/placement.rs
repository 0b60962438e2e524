//! Where a container puts the guest's blocks in its file.

use straddle_units::{ByteCount, ByteOffset};

use super::vmdk::STREAM_OPTIMIZED;
use super::{Files, Format, ImageError, Map, StoredAt};

const SAMPLE: u32 = 1024;

/// Most table entries of a sparse image are empty.
const STEPS: u32 = 4096;

/// 2^20 bytes, to which partitions are aligned.
const COARSEST: u32 = 20;
const POWERS: usize = 21;

/// A block of the guest's disk and its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte on the guest's disk.
    pub guest: ByteOffset,
    /// Its first byte in the file.
    pub host: ByteOffset,
}

/// How the first 1024 allocated blocks of an image lie in its file.
///
/// A block's alignment is the largest power of two, up to 1 MiB, that divides the distance of its two bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    units: u32,
    compressed: u32,
    complete: bool,
    /// By k: the first block aligned to 2^k and to nothing coarser.
    first: [Option<Placed>; POWERS],
}

impl Placement {
    pub(super) fn sample(map: &dyn Map, files: &Files, size: u64) -> (Self, Option<ImageError>) {
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
            let run = match map.locate(files, guest) {
                Ok(run) => run,
                Err(error) => return (found, Some(error)),
            };
            match run.place {
                StoredAt::Host { at, .. } => found.add(guest, at),
                StoredAt::Packed(_) => found.compressed += 1,
                StoredAt::Zero | StoredAt::Below => {}
            }
            guest = guest.saturating_add(run.len.max(1));
        }
        (found, None)
    }

    fn add(&mut self, guest: u64, host: u64) {
        self.units += 1;
        let power = host.abs_diff(guest).trailing_zeros().min(COARSEST);
        let placed = Placed { guest: ByteOffset::new(guest), host: ByteOffset::new(host) };
        self.first[power as usize].get_or_insert(placed);
    }

    /// Returns the number of blocks examined that are stored uncompressed in the file.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Returns the number of compressed blocks, whose alignment does not matter.
    pub fn compressed(&self) -> u32 {
        self.compressed
    }

    /// Whether every block of the guest's disk was examined.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the alignment that all blocks have; `None` when no block is in the file.
    pub fn alignment(&self) -> Option<ByteCount> {
        (0..)
            .zip(&self.first)
            .find(|(_, placed)| placed.is_some())
            .map(|(power, _)| ByteCount::new(1 << power))
    }

    /// Returns the first block, in the guest's order, that is not aligned to `size`, a power of two. For a
    /// `size` above 1 MiB, only the first of the blocks that are aligned to 1 MiB is examined.
    pub fn first_below(&self, size: ByteCount) -> Option<Placed> {
        let coarse = usize::try_from(size.get().trailing_zeros()).unwrap_or(usize::MAX);
        let is_off = |placed: &&Placed| {
            !ByteCount::new(placed.host.get().abs_diff(placed.guest.get())).is_multiple_of(size)
        };
        let first = self.first.iter().take(coarse).flatten();
        first.filter(is_off).min_by_key(|placed| placed.guest).copied()
    }
}

/// A container's format, and how it stores the guest's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its format.
    pub format: Format,
    /// The variant, in the format's own terms: `version 3`, `streamOptimized`, `dynamic`.
    pub variant: &'static str,
    /// The size of the guest's disk.
    pub virtual_size: ByteCount,
    /// The unit of allocation in the file: a cluster, grain or block; the disk's size where it is in one piece.
    pub block: ByteCount,
    /// Where the blocks lie.
    pub placement: Placement,
}

impl Container {
    /// Whether it is written only once, on creation. QEMU reads such an image but does not write to it.
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
