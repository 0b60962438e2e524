//! Whether a medium is blank in the places where tables and contents are kept.

use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, MIB, Span};

use crate::reader::Reader;
use crate::tables::gpt;

/// With the last known magic, VMFS's at 2 MiB, and the start of a new table's first partition.
const FRONT: u64 = 4 * MIB;
/// With backup tables and the metadata of every array.
const BACK: u64 = 2 * MIB;
const PIECE: u64 = 64 * 1024;
const SECTOR: usize = 512;

/// Zeros, or ones on memory cards and past write pointers of zones.
const ERASED: [u8; 2] = [0x00, 0xFF];

/// Whether a sector reads as if it was never written or has been erased.
pub fn is_erased(sector: &[u8]) -> bool {
    // One comparison of memory, and not a loop over bytes.
    sector.split_first().is_none_or(|(first, rest)| ERASED.contains(first) && *rest == sector[..rest.len()])
}

/// Returns the first sector of 512 bytes in `span` that is written: neither all zeros nor all ones.
pub fn first_written(medium: &dyn Medium, span: Span) -> Result<Option<ByteOffset>, ReadError> {
    let mut buf = Vec::new();
    let written = |piece: &Span| !medium.is_hole(piece.start(), piece.len());
    for piece in span.pieces(ByteCount::new(PIECE)).filter(written) {
        buf.resize(usize::try_from(PIECE).unwrap_or(0), 0);
        let bytes = &mut buf[..usize::try_from(piece.len().get()).unwrap_or(0)];
        medium.read_at(piece.start(), bytes)?;
        if let Some(index) = bytes.chunks(SECTOR).position(|sector| !is_erased(sector)) {
            return Ok(piece.start().checked_add(ByteCount::new((index * SECTOR) as u64)));
        }
    }
    Ok(None)
}

/// Whether all sectors in the first 4 MiB and the last 2 MiB of `medium` are all zeros or all ones.
pub fn is_blank(medium: &dyn Medium) -> Result<bool, ReadError> {
    let len = medium.len().get();
    let front = len.min(FRONT);
    let back = len.saturating_sub(BACK).max(front);
    // A backup GPT left by another disk does not count.
    let end = gpt::left_over(&Reader::open(medium, BlockSize::B512)?).map_or(len, ByteOffset::get);
    for (at, end) in [(0, front.min(end)), (back, end)] {
        let span = Span::between(ByteOffset::new(at), ByteOffset::new(end));
        if span.map(|span| first_written(medium, span)).transpose()?.flatten().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A medium of zeros up to byte `ones` and of ones after that, except for one byte.
    struct OneByte {
        len: u64,
        ones: u64,
        at: Option<u64>,
    }

    impl Medium for OneByte {
        fn len(&self) -> ByteCount {
            ByteCount::new(self.len)
        }

        fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
            assert!(at.get() + u64::try_from(buf.len()).unwrap() <= self.len, "a read past the end");
            for (byte, place) in buf.iter_mut().zip(at.get()..) {
                *byte = if place >= self.ones { 0xFF } else { 0 };
            }
            let into = self.at.and_then(|byte| byte.checked_sub(at.get()));
            if let Some(byte) = into.and_then(|into| buf.get_mut(usize::try_from(into).ok()?)) {
                *byte = 1;
            }
            Ok(())
        }
    }

    #[test]
    fn one_byte_where_things_live_is_not_blank() {
        for len in [1, 511, 70_000, 5 * MIB, 5 * MIB + 1, 64 * MIB + 7] {
            // Erased to zeros, erased to ones, and a zoned disk whose first zones were written with zeros.
            for ones in [len, 0, 4096] {
                assert!(is_blank(&OneByte { len, ones, at: None }).unwrap(), "{len}, ones from {ones}");
                for at in [0, len / 2, len.min(FRONT) - 1, len.saturating_sub(BACK), len - 1] {
                    let lives = at < FRONT || at >= len.saturating_sub(BACK);
                    let is_blank = is_blank(&OneByte { len, ones, at: Some(at) }).unwrap();
                    assert_eq!(is_blank, !lives, "byte {at} of {len}, ones from {ones}");
                }
            }
        }
    }
}
