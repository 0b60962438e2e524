//! Which bytes of a device lie where on a device below it, as far as that is certain. Sources:
//! drivers/md/{raid0,raid5,raid10}.c and drivers/md/dm-stripe.c of the kernel.

use straddle_units::{ByteCount, ByteOffset, Span};

/// dm-raid takes at most 253.
const MAX_MEMBERS: u64 = 256;

/// A run of a device's bytes on a lower device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The bytes of the device.
    pub span: Span,
    /// Where the first of them lies on the lower device.
    pub offset: ByteOffset,
    /// How the run is cut; `None` when the whole span lies there in one piece.
    pub every: Option<Every>,
}

/// The first `chunk` bytes of each `period` of the span are on the lower device, `step` bytes apart there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    /// The length of one piece.
    pub chunk: ByteCount,
    /// The distance between the starts of two pieces in the device; at least a chunk.
    pub period: ByteCount,
    /// The distance between their starts on the lower device.
    pub step: ByteCount,
}

/// Where a byte of a device lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// At this offset of the lower device, which holds this many bytes from there in one piece.
    Here(ByteOffset, ByteCount),
    /// Not there, and neither are the following bytes before this many have been passed.
    Later(ByteCount),
    /// Not there, and neither is any byte that follows.
    Never,
}

impl Run {
    /// Creates a run in one piece.
    pub fn whole(span: Span, offset: ByteOffset) -> Self {
        Self { span, offset, every: None }
    }

    /// Returns where byte `at` of the device lies on the lower device, as far as this run covers it.
    pub fn locate(&self, at: ByteOffset) -> Located {
        let Some(into) = at.checked_since(self.span.start()) else {
            return match self.span.is_empty() {
                true => Located::Never,
                false => self.span.start().checked_since(at).map_or(Located::Never, Located::Later),
            };
        };
        let left = self.span.len().saturating_sub(into);
        if left == ByteCount::ZERO {
            return Located::Never;
        }
        let Some(every) = self.every else {
            return self.offset.checked_add(into).map_or(Located::Never, |at| Located::Here(at, left));
        };
        let (period, chunk) = (every.period.get(), every.chunk.get());
        if period == 0 || chunk == 0 || chunk > period {
            return Located::Never;
        }
        let (cycle, part) = (into.get() / period, into.get() % period);
        if part >= chunk {
            let next = ByteCount::new(period - part);
            return if next < left { Located::Later(next) } else { Located::Never };
        }
        let there = every.step.checked_mul(cycle).and_then(|steps| steps.checked_add(ByteCount::new(part)));
        match there.and_then(|there| self.offset.checked_add(there)) {
            Some(at) => Located::Here(at, left.min(ByteCount::new(chunk - part))),
            None => Located::Never,
        }
    }
}

pub(super) fn locate(runs: &[Run], at: ByteOffset) -> Located {
    let mut next = None;
    for run in runs {
        match run.locate(at) {
            Located::Here(there, len) => return Located::Here(there, len),
            Located::Later(len) => next = Some(next.map_or(len, |next: ByteCount| next.min(len))),
            Located::Never => {}
        }
    }
    next.map_or(Located::Never, Located::Later)
}

/// How an array distributes its bytes over its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// 0, 1, 4, 5, 6 or 10.
    pub level: i32,
    /// md's number for the placement of parity or of copies.
    pub layout: u32,
    /// The bytes that one member holds before the next member follows.
    pub chunk: ByteCount,
    /// The number of members, without spares.
    pub disks: u32,
}

/// The chunks that a member holds until the placement repeats.
struct Cycle {
    /// Of the array in a cycle, and rows of one member.
    chunks: u64,
    rows: u64,
    /// Number in the cycle, and row.
    cells: Vec<(u64, u64)>,
}

impl Geometry {
    /// Returns the runs of `span` on member `role`, whose data starts at `data`, if the layout is known.
    pub fn runs(&self, role: u32, span: Span, data: ByteOffset) -> Option<Vec<Run>> {
        if role >= self.disks {
            return None;
        }
        if self.level == 1 {
            return Some(vec![Run::whole(span, data)]);
        }
        let cycle = self.cycle(u64::from(role))?;
        if self.chunk == ByteCount::ZERO {
            return None;
        }
        let every = Every {
            chunk: self.chunk,
            period: self.chunk.checked_mul(cycle.chunks)?,
            step: self.chunk.checked_mul(cycle.rows)?,
        };
        let mut runs = Vec::new();
        for (chunk, row) in cycle.cells {
            let into = self.chunk.checked_mul(chunk)?;
            let len = span.len().saturating_sub(into);
            if len == ByteCount::ZERO {
                continue;
            }
            let offset = data.checked_add(self.chunk.checked_mul(row)?)?;
            runs.push(Run {
                span: Span::new(span.start().checked_add(into)?, len)?,
                offset,
                every: Some(every),
            });
        }
        Some(runs)
    }

    fn cycle(&self, role: u64) -> Option<Cycle> {
        let disks = u64::from(self.disks);
        if disks > MAX_MEMBERS {
            return None;
        }
        match self.level {
            0 => Some(Cycle { chunks: disks, rows: 1, cells: vec![(role, 0)] }),
            4 => {
                let data = disks.checked_sub(1).filter(|data| *data > 0)?;
                let cells = if role < data { vec![(role, 0)] } else { Vec::new() };
                Some(Cycle { chunks: data, rows: 1, cells })
            }
            5 => self.parity_cycle(role, disks, 1, raid5_member),
            6 => self.parity_cycle(role, disks, 2, raid6_member),
            10 => self.copies_cycle(role, disks),
            _ => None,
        }
    }

    fn parity_cycle(
        &self,
        role: u64,
        disks: u64,
        parities: u64,
        member: fn(u32, u64, u64, u64) -> Option<u64>,
    ) -> Option<Cycle> {
        let data = disks.checked_sub(parities).filter(|data| *data > 0)?;
        let rows = if parities == 2 && (16..20).contains(&self.layout) { disks - 1 } else { disks };
        let mut cells = Vec::new();
        for row in 0..rows {
            for index in 0..data {
                if member(self.layout, disks, row, index)? == role {
                    cells.push((row * data + index, row));
                }
            }
        }
        Some(Cycle { chunks: rows * data, rows, cells })
    }

    /// The low byte of the layout is the number of near copies, the next byte that of far copies, of which
    /// only the first is returned. Bit 16 puts them into the next row; higher bits mean other layouts
    /// (`setup_geo`, drivers/md/raid10.c).
    fn copies_cycle(&self, role: u64, disks: u64) -> Option<Cycle> {
        let (near, far) = (u64::from(self.layout & 0xff), u64::from((self.layout >> 8) & 0xff));
        let is_offset = self.layout & (1 << 16) != 0;
        if near == 0 || far == 0 || near * far > disks || self.layout >> 17 != 0 {
            return None;
        }
        let rows_of_one = if is_offset { far } else { 1 };
        let cells = (0..near).map(|row| ((row * disks + role) / near, row * rows_of_one)).collect();
        Some(Cycle { chunks: disks, rows: near * rows_of_one, cells })
    }
}

/// `raid5_compute_sector`, drivers/md/raid5.c.
fn raid5_member(layout: u32, disks: u64, row: u64, index: u64) -> Option<u64> {
    let (left, right) = (disks - 1 - row % disks, row % disks);
    let after = |parity: u64| if index >= parity { index + 1 } else { index };
    match layout {
        0 => Some(after(left)),
        1 => Some(after(right)),
        2 => Some((left + 1 + index) % disks),
        3 => Some((right + 1 + index) % disks),
        4 => Some(index + 1),
        5 => Some(index),
        _ => None,
    }
}

fn raid6_member(layout: u32, disks: u64, row: u64, index: u64) -> Option<u64> {
    let (left, right) = (disks - 1 - row % disks, row % disks);
    // Q follows P, or is on member 0 where P is on the last one.
    let after = |parity: u64| match parity {
        parity if parity == disks - 1 => index + 1,
        parity if index >= parity => index + 2,
        _ => index,
    };
    match layout {
        0 => Some(after(left)),
        1 | 8 => Some(after(right)),
        2 => Some((left + 2 + index) % disks),
        3 => Some((right + 2 + index) % disks),
        4 => Some(index + 2),
        5 => Some(index),
        9 => Some(after(disks - 1 - (row + 1) % disks)),
        10 => Some((left + 1 + index) % disks),
        // The layouts of a RAID5 with one member fewer; Q is on the last member.
        16..=19 => raid5_member(layout - 16, disks - 1, row, index),
        20 => raid5_member(4, disks - 1, row, index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const CHUNK: u64 = 4096;

    fn geometry(level: i32, layout: u32, disks: u32) -> Geometry {
        Geometry { level, layout, chunk: ByteCount::new(CHUNK), disks }
    }

    /// Returns the members that hold chunk `chunk` of an array, each with the number of its own chunk.
    fn places(geometry: Geometry, chunk: u64) -> Vec<(u32, u64)> {
        let span = Span::new(ByteOffset::ZERO, ByteCount::new(1000 * CHUNK)).unwrap();
        let at = ByteOffset::new(chunk * CHUNK);
        let found = (0..geometry.disks).filter_map(|role| {
            match locate(&geometry.runs(role, span, ByteOffset::ZERO)?, at) {
                Located::Here(there, len) => {
                    assert_eq!((there.get() % CHUNK, len.get()), (0, CHUNK));
                    Some((role, there.get() / CHUNK))
                }
                _ => None,
            }
        });
        found.collect()
    }

    #[test]
    fn chunks_of_a_raid5_are_where_the_kernel_puts_them() {
        // Left-symmetric on 3: 0 1 P / 3 P 2 / P 4 5 (as drawn in Wikipedia and md(4)).
        let found: Vec<_> = (0..6).map(|chunk| places(geometry(5, 2, 3), chunk)[0]).collect();
        assert_eq!(found, [(0, 0), (1, 0), (2, 1), (0, 1), (1, 2), (2, 2)]);
        // Left-asymmetric: 0 1 P / 2 P 3 / P 4 5.
        let found: Vec<_> = (0..6).map(|chunk| places(geometry(5, 0, 3), chunk)[0]).collect();
        assert_eq!(found, [(0, 0), (1, 0), (0, 1), (2, 1), (1, 2), (2, 2)]);
    }

    #[test]
    fn parity_of_a_raid6_that_was_a_raid5_goes_round_one_member_less() {
        // Left-asymmetric-6 on 4: 0 1 P Q / 2 P 3 Q / P 4 5 Q / 6 7 P Q.
        let found: Vec<_> = (0..8).map(|chunk| places(geometry(6, 16, 4), chunk)[0]).collect();
        assert_eq!(found, [(0, 0), (1, 0), (0, 1), (2, 1), (1, 2), (2, 2), (0, 3), (1, 3)]);
    }

    #[test]
    fn copies_of_a_raid10_are_where_md4_draws_them() {
        // Near 2 on 3: A A B / B C C.
        let found: Vec<_> = (0..3).map(|chunk| places(geometry(10, 0x102, 3), chunk)).collect();
        assert_eq!(found, [vec![(0, 0), (1, 0)], vec![(0, 1), (2, 0)], vec![(1, 1), (2, 1)]]);
        // Offset 2 on 2: A B / B A / C D / D C, of which the first copy is returned.
        let found: Vec<_> = (0..4).map(|chunk| places(geometry(10, 0x10201, 2), chunk)).collect();
        assert_eq!(found, [[(0, 0)], [(1, 0)], [(0, 2)], [(1, 2)]]);
    }

    proptest! {
        #[test]
        fn each_chunk_has_one_place_and_each_place_one_chunk(
            (level, layout) in prop_oneof![
                Just((0, 0)), Just((4, 0)), (0u32..6).prop_map(|l| (5, l)),
                prop_oneof![0u32..6, 8u32..11, 16u32..21].prop_map(|l| (6, l)),
            ],
            disks in 4u32..9,
        ) {
            let mut seen = BTreeSet::new();
            for chunk in 0..100 {
                let found = places(geometry(level, layout, disks), chunk);
                prop_assert_eq!(found.len(), 1);
                prop_assert!(seen.insert(found[0]));
            }
            // No row is skipped.
            let data = u64::from(disks) - match level { 0 => 0, 6 => 2, _ => 1 };
            prop_assert!(seen.iter().all(|(_, row)| *row <= 99 / data));
        }

        #[test]
        fn whatever_a_run_says_the_search_goes_on(
            start in any::<u64>(), len in any::<u64>(), offset in any::<u64>(), chunk in any::<u64>(),
            period in any::<u64>(), step in any::<u64>(), at in any::<u64>(),
        ) {
            let Some(span) = Span::new(ByteOffset::new(start), ByteCount::new(len)) else { return Ok(()) };
            let every = Every { chunk: ByteCount::new(chunk), period: ByteCount::new(period), step: ByteCount::new(step) };
            for every in [None, Some(every)] {
                match (Run { span, offset: ByteOffset::new(offset), every }).locate(ByteOffset::new(at)) {
                    Located::Here(_, len) | Located::Later(len) => prop_assert!(len.get() > 0),
                    Located::Never => {}
                }
            }
        }
    }
}
