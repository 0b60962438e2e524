//! Whether there is anything at all where tables and contents live.

use straddle_device::{Medium, ReadError};
use straddle_units::{ByteOffset, MIB};

/// How much of the start is looked at: up to the last magic that is known, VMFS's at 2 MiB, and what a new table's first
/// partition would show.
const FRONT: u64 = 4 * MIB;
/// How much of the end: backup tables, and every member that is marked there.
const BACK: u64 = 2 * MIB;
/// Read at once.
const PIECE: u64 = 64 * 1024;

/// Whether every byte of the first 4 MiB and the last 2 MiB of `medium` is zero.
pub fn is_blank(medium: &dyn Medium) -> Result<bool, ReadError> {
    let len = medium.len().get();
    let front = len.min(FRONT);
    let back = len.saturating_sub(BACK).max(front);
    let mut buf = vec![0; usize::try_from(PIECE).unwrap_or(0)];
    for (mut at, end) in [(0, front), (back, len)] {
        while at < end {
            let piece = (end - at).min(PIECE);
            let piece = &mut buf[..usize::try_from(piece).unwrap_or(0)];
            medium.read_at(ByteOffset::new(at), piece)?;
            if piece.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += PIECE;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use straddle_units::ByteCount;

    use super::*;

    /// Zeros, but for one byte.
    struct OneByte {
        len: u64,
        at: Option<u64>,
    }

    impl Medium for OneByte {
        fn len(&self) -> ByteCount {
            ByteCount::new(self.len)
        }

        fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
            assert!(at.get() + u64::try_from(buf.len()).unwrap() <= self.len, "a read past the end");
            buf.fill(0);
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
            assert!(is_blank(&OneByte { len, at: None }).unwrap(), "{len}");
            for at in [0, len / 2, len.min(FRONT) - 1, len.saturating_sub(BACK), len - 1] {
                let lives = at < FRONT || at >= len.saturating_sub(BACK);
                assert_eq!(is_blank(&OneByte { len, at: Some(at) }).unwrap(), !lives, "byte {at} of {len}");
            }
        }
    }
}
