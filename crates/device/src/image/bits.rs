//! Bitmaps of sectors: which of a block's sectors are in the block, and which are in the parent.

use super::ImageError;
use super::host::Host;

/// So many bits are looked at once: 64 GiB of sectors would be a long way to the next change.
const MAX_RUN: u64 = 4096;

/// Which bit of a byte is the first sector's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The highest: VHD.
    HighFirst,
    /// The lowest: VHDX.
    LowFirst,
}

/// A bitmap in a file.
pub(super) struct Bitmap<'a> {
    pub(super) host: &'a Host,
    /// Its byte in the file.
    pub(super) at: u64,
    /// How many bytes of the disk a bit stands for.
    pub(super) sector: u64,
    pub(super) order: Order,
}

impl Bitmap<'_> {
    /// Whether the sector with byte `into` of what the bitmap covers is marked, and for how many bytes from there, up
    /// to `end`, that surely does not change.
    pub(super) fn run(&self, into: u64, end: u64) -> Result<(bool, u64), ImageError> {
        let marked = |byte: u8, sector: u64| {
            let bit = if self.order == Order::HighFirst { 7 - sector % 8 } else { sector % 8 };
            byte >> bit & 1 != 0
        };
        let end = end.min(into.saturating_add(MAX_RUN * self.sector));
        let mut sector = into / self.sector;
        let mut byte = self.host.bytes::<1>(self.at + sector / 8)?[0];
        let first = marked(byte, sector);
        let whole = if first { u8::MAX } else { 0 };
        loop {
            // Mostly whole bytes are alike.
            sector = if sector.is_multiple_of(8) && byte == whole { sector + 8 } else { sector + 1 };
            if sector * self.sector >= end {
                return Ok((first, end - into));
            }
            if sector.is_multiple_of(8) {
                byte = self.host.bytes::<1>(self.at + sector / 8)?[0];
            }
            if marked(byte, sector) != first {
                return Ok((first, sector * self.sector - into));
            }
        }
    }
}
