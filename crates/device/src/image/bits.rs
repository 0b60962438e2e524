//! Sector bitmaps: whether a sector of a block is in the block or in the parent.

use super::ImageError;
use super::host::Host;

/// At most this many bits are examined at once, because the next change may be far away.
const MAX_RUN: u64 = 4096;

/// The bit that stands for the first sector of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    HighFirst,
    LowFirst,
}

pub(super) struct Bitmap<'a> {
    pub(super) host: &'a Host,
    pub(super) at: u64,
    pub(super) sector: u64,
    pub(super) order: Order,
}

impl Bitmap<'_> {
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
