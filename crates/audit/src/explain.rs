//! Arithmetic and pictures for `straddle explain`: format efficiency, read-modify-writes, and spans over boundaries.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{Boundary, ByteCount, ByteOffset, Coverage, Span};

/// The layout of a sector on the medium, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SectorFormat")]
pub struct Format {
    /// Bytes of user data.
    #[serde(rename = "data_bytes")]
    pub data: u32,
    /// Bytes of gap, synchronisation and address mark before the data.
    #[serde(rename = "overhead_bytes")]
    pub overhead: u32,
    /// Bytes of error-correcting code after the data.
    #[serde(rename = "ecc_bytes")]
    pub ecc: u32,
}

impl Format {
    /// A 512-byte sector before Advanced Format: 15 bytes of gap, sync and mark, 50 of ECC (IDEMA's brief).
    pub const LEGACY: Self = Self { data: 512, overhead: 15, ecc: 50 };
    /// The 4096-byte sector of Advanced Format: the same 15 bytes once, and 100 of ECC.
    pub const ADVANCED: Self = Self { data: 4096, overhead: 15, ecc: 100 };

    /// The bytes that the sector takes on the medium.
    pub fn total(self) -> u64 {
        u64::from(self.data) + u64::from(self.overhead) + u64::from(self.ecc)
    }
}

/// The share of the medium that holds data, from 0 to 1; 0 for an empty sector.
pub fn format_efficiency(format: Format) -> f64 {
    let total = f64::from(format.data) + f64::from(format.overhead) + f64::from(format.ecc);
    if total == 0.0 { 0.0 } else { f64::from(format.data) / total }
}

/// Consecutive writes of equal size, from a given offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Io {
    /// The offset of the first write on the device.
    #[serde(rename = "offset_bytes")]
    pub offset: ByteOffset,
    /// The size of each write in bytes.
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
    /// The physical sectors that the writes cover if each is done by itself, summed over all writes.
    pub apart: Coverage,
    /// The physical sectors that the writes cover if they are merged into one, as a cache may do.
    pub merged: Coverage,
}

/// The largest number of writes listed individually.
pub const LISTED: u64 = 16;

/// Counts the sectors that `io` touches and its read-modify-writes; `None` past 2^64 bytes.
pub fn count_rmw(io: Io, boundary: Boundary) -> Option<RmwCount> {
    let whole = Span::new(io.offset, io.size.checked_mul(io.count)?)?;
    let write = |index| {
        let span = Span::new(io.offset.checked_add(io.size.checked_mul(index)?)?, io.size)?;
        Some((span, boundary.coverage(span)))
    };
    let sum = |writes: u64| {
        (0..writes).try_fold(Coverage { touched: 0, partial: 0 }, |sum, index| {
            let (_, one) = write(index)?;
            let touched = sum.touched.checked_add(one.touched)?;
            Some(Coverage { touched, partial: sum.partial.checked_add(one.partial)? })
        })
    };
    // The remainders of the writes repeat: one period is counted and multiplied.
    let period = boundary.period(io.size);
    let (rounds, rest) = (io.count / period, sum(io.count % period)?);
    let round = sum(if rounds == 0 { 0 } else { period })?;
    let all = |round: u64, rest: u64| round.checked_mul(rounds)?.checked_add(rest);
    Some(RmwCount {
        each: (0..io.count.min(LISTED)).map(write).collect::<Option<_>>()?,
        apart: Coverage {
            touched: all(round.touched, rest.touched)?,
            partial: all(round.partial, rest.partial)?,
        },
        merged: boundary.coverage(whole),
    })
}

/// Characters.
const CELLS_PER_UNIT: u64 = 8;

/// In units: a longer line would not fit a terminal.
const LARGEST_PICTURE: u64 = 8;

/// Draws `span` over the units of `boundary`: `|` where a unit begins, `#` for the span's bytes and `.` for
/// others, 8 characters per unit. `None` if the span touches no unit, or too many to draw.
///
/// For example, the first 4 KiB of a partition at sector 63 of a 512e drive: `|.......#|#######.|`
pub fn picture(boundary: Boundary, span: Span) -> Option<String> {
    let coverage = boundary.coverage(span);
    if coverage.touched == 0 || coverage.touched > LARGEST_PICTURE {
        return None;
    }
    let lead = boundary.past(span.start());
    let unit = boundary.size().get();
    let mut line = String::from("|");
    for index in 0..coverage.touched * CELLS_PER_UNIT {
        let from = unit.checked_mul(index)? / CELLS_PER_UNIT;
        let to = unit.checked_mul(index + 1)? / CELLS_PER_UNIT;
        let cell = Span::new(ByteOffset::new(from), ByteCount::new(to - from))?;
        let drawn = Span::new(ByteOffset::new(lead.get()), span.len())?;
        line.push(if cell.overlaps(drawn) { '#' } else { '.' });
        if (index + 1).is_multiple_of(CELLS_PER_UNIT) {
            line.push('|');
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_efficiencies_come_out() {
        let percent = |format| (format_efficiency(format) * 1000.0).round() / 10.0;
        assert!((percent(Format::LEGACY) - 88.7).abs() < 1e-9);
        assert!((percent(Format::ADVANCED) - 97.3).abs() < 1e-9);
    }

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

    fn draw(offset: u64, len: u64) -> Option<String> {
        let boundary = Boundary::multiples_of(ByteCount::new(4096)).unwrap();
        picture(boundary, Span::new(ByteOffset::new(offset), ByteCount::new(len)).unwrap())
    }

    #[test]
    fn sector_63_is_drawn_across_two_sectors() {
        assert_eq!(draw(63 * 512, 4096).unwrap(), "|.......#|#######.|");
    }

    #[test]
    fn aligned_blocks_fill_whole_sectors() {
        assert_eq!(draw(1 << 20, 8192).unwrap(), "|########|########|");
    }

    #[test]
    fn what_does_not_fit_is_not_drawn() {
        assert_eq!(draw(0, 1 << 20), None);
        assert_eq!(draw(0, 0), None);
    }
}
