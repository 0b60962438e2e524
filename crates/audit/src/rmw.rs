//! The number of read-modify-writes that an I/O needs: the calculation that `straddle explain rmw` shows.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{Boundary, ByteCount, ByteOffset, Coverage, Span};

/// Consecutive writes of equal size, from a given offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Io {
    /// The offset of the first write on the device.
    #[serde(rename = "offset_bytes")]
    pub offset: ByteOffset,
    /// The size of each write.
    #[serde(rename = "io_bytes")]
    pub size: ByteCount,
    /// The number of consecutive writes.
    #[serde(rename = "writes")]
    pub count: u64,
}

/// What such writes cost the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RmwCount {
    /// Each write by itself: its span and the sectors under it. At most [`LISTED`] writes are listed.
    #[serde(skip)]
    pub each: Vec<(Span, Coverage)>,
    /// The sum over all writes, each done by itself.
    pub apart: Coverage,
    /// All writes merged into one, as a cache may do.
    pub merged: Coverage,
}

/// The largest number of writes listed individually.
pub const LISTED: u64 = 16;

/// Counts the sectors touched and the read-modify-writes of `io` on physical sectors at `boundary`; `None` if
/// the I/O reaches past 2^64 bytes.
pub fn count_rmw(io: Io, boundary: Boundary) -> Option<RmwCount> {
    let whole = Span::new(io.offset, io.size.checked_mul(io.count)?)?;
    let merged = boundary.coverage(whole);
    let mut each = Vec::new();
    for index in 0..io.count.min(LISTED) {
        let start = io.offset.checked_add(io.size.checked_mul(index)?)?;
        let span = Span::new(start, io.size)?;
        each.push((span, boundary.coverage(span)));
    }
    Some(RmwCount { each, apart: apart(io, boundary)?, merged })
}

/// The sum over writes done one by one. Their remainders repeat with a period, so one period is counted and
/// multiplied, however many writes there are.
fn apart(io: Io, boundary: Boundary) -> Option<Coverage> {
    let period = boundary.period(io.size);
    let (rounds, rest) = (io.count / period, io.count % period);
    let sum = |n: u64| -> Option<Coverage> {
        let mut total = Coverage { touched: 0, partial: 0 };
        for index in 0..n {
            let start = io.offset.checked_add(io.size.checked_mul(index)?)?;
            let one = boundary.coverage(Span::new(start, io.size)?);
            total.touched = total.touched.checked_add(one.touched)?;
            total.partial = total.partial.checked_add(one.partial)?;
        }
        Some(total)
    };
    let tail = sum(rest)?;
    if rounds == 0 {
        return Some(tail);
    }
    let round = sum(period)?;
    Some(Coverage {
        touched: round.touched.checked_mul(rounds)?.checked_add(tail.touched)?,
        partial: round.partial.checked_mul(rounds)?.checked_add(tail.partial)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(offset: u64, size: u64, n: u64) -> RmwCount {
        let boundary = Boundary::multiples_of(ByteCount::new(4096)).unwrap();
        let io = Io { offset: ByteOffset::new(offset), size: ByteCount::new(size), count: n };
        count_rmw(io, boundary).unwrap()
    }

    #[test]
    fn two_blocks_on_a_partition_off_by_half_a_sector_need_four() {
        let two = count(2048, 4096, 2);
        assert_eq!(two.apart, Coverage { touched: 4, partial: 4 });
        assert_eq!(two.merged, Coverage { touched: 3, partial: 2 });
    }

    #[test]
    fn aligned_blocks_need_none() {
        assert_eq!(count(1 << 20, 4096, 1000).apart, Coverage { touched: 1000, partial: 0 });
    }

    #[test]
    fn many_writes_are_counted_by_their_period() {
        // Eight 512-byte writes fill a sector, each by itself a read-modify-write.
        assert_eq!(count(0, 512, 8_000_000).apart, Coverage { touched: 8_000_000, partial: 8_000_000 });
        let brute: u64 = (0..1003).map(|i| count(1536 + i * 1536, 1536, 1).apart.partial).sum();
        assert_eq!(count(1536, 1536, 1003).apart.partial, brute);
    }
}
