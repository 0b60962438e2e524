//! A line of text that shows a span against the boundaries under it.

use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

/// Characters from one boundary to the next.
const CELLS_PER_UNIT: u64 = 8;

/// The largest number of units drawn: a longer line would not fit a terminal.
const LARGEST_PICTURE: u64 = 8;

/// Draws `span` over the units of `boundary`: `|` where a unit begins, `#` for the span's bytes and `.` for
/// the others, with one character per eighth of a unit. `None` if the span touches no unit, or too many to
/// draw.
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
        // The bytes of the cell, relative to the boundary at or before the span.
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
