//! The arithmetic of units, compared with brute force over single bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, Coverage, Lba, LbaCount, Span, parse_size};

fn boundary(size: u64, phase: u64) -> Boundary {
    Boundary::new(ByteCount::new(size), ByteCount::new(phase)).unwrap()
}

/// Whether every boundary of `one` is also a boundary of `finer`.
fn implies(one: Boundary, finer: Boundary) -> bool {
    one.size().get().is_multiple_of(finer.size().get())
        && finer.is_aligned(ByteOffset::new(one.phase().get()))
}

/// Whether byte `at` is the first of a unit, by definition.
fn begins_unit(at: u64, size: u64, phase: u64) -> bool {
    (u128::from(at) + u128::from(size) - u128::from(phase % size)).is_multiple_of(u128::from(size))
}

/// Counts units by visiting every byte of the span.
fn walk(start: u64, len: u64, size: u64, phase: u64) -> Coverage {
    let unit = |at: u64| (u128::from(at) + u128::from(size) - u128::from(phase % size)) / u128::from(size);
    let mut bytes_in = std::collections::BTreeMap::new();
    for at in start..start + len {
        *bytes_in.entry(unit(at)).or_insert(0_u64) += 1;
    }
    Coverage {
        touched: bytes_in.len() as u64,
        partial: bytes_in.values().filter(|covered| **covered != size).count() as u64,
    }
}

proptest! {
    #[test]
    fn coverage_is_what_walking_counts(start in 0_u64..20_000, len in 0_u64..5_000, size in 1_u64..3_000, phase in 0_u64..6_000) {
        let span = Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap();
        prop_assert_eq!(boundary(size, phase).coverage(span), walk(start, len, size, phase));
    }

    #[test]
    fn pieces_follow_one_another(start in 0_u64..20_000, len in 0_u64..5_000, size in 0_u64..6_000) {
        let span = Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap();
        let pieces: Vec<Vec<u64>> = span
            .pieces(ByteCount::new(size))
            .map(|piece| (piece.start().get()..piece.end().get()).collect())
            .collect();
        let all: Vec<u64> = if size == 0 { Vec::new() } else { (start..start + len).collect() };
        let expected: Vec<&[u64]> = all.chunks(usize::try_from(size.max(1)).unwrap()).collect();
        prop_assert_eq!(pieces, expected);
    }

    #[test]
    fn a_union_has_each_byte_once(spans in prop::collection::vec((0_u64..60, 0_u64..20), 0..8)) {
        let spans = spans.iter().filter_map(|(at, len)| Span::new(ByteOffset::new(*at), ByteCount::new(*len)));
        let bytes = |spans: &[Span]| spans.iter().flat_map(|s| s.start().get()..s.end().get()).collect::<Vec<_>>();
        let spans: Vec<Span> = spans.collect();
        let union = Span::union(spans.iter().copied());
        let mut expected = bytes(&spans);
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(bytes(&union), expected);
        prop_assert!(union.windows(2).all(|pair| pair[0].end() < pair[1].start()), "{union:?}");
    }

    #[test]
    fn the_common_divisor_is_the_greatest(a in 0_u64..2_000, b in 0_u64..2_000, times in 1_u64..1 << 50) {
        let divides = |of: u64, n: u64| n.is_multiple_of(of);
        let greatest = (1..=a.max(b)).rev().find(|n| divides(*n, a) && divides(*n, b)).unwrap_or(0);
        let common = |a: u64, b: u64| ByteCount::new(a).common_divisor(ByteCount::new(b)).get();
        prop_assert_eq!(common(a, b), greatest);
        prop_assert_eq!(common(a * times, b * times), greatest * times);
    }

    #[test]
    fn past_and_to_next_meet_at_the_boundaries(at: u64, size in 1_u64..1 << 33, phase: u64) {
        let b = boundary(size, phase);
        let (past, to_next) = (b.past(ByteOffset::new(at)), b.to_next(ByteOffset::new(at)));
        prop_assert!(past.get() < size && to_next.get() < size);
        prop_assert_eq!(b.is_aligned(ByteOffset::new(at)), begins_unit(at, size, phase));
        prop_assert_eq!(past == ByteCount::ZERO, to_next == ByteCount::ZERO);
        if past != ByteCount::ZERO {
            prop_assert_eq!(past.get() + to_next.get(), size);
        }
    }

    #[test]
    fn floor_and_ceil_are_the_nearest_boundaries(at: u64, size in 1_u64..1 << 33, phase: u64) {
        let b = boundary(size, phase);
        let here = ByteOffset::new(at);
        match b.floor(here) {
            Some(floor) => prop_assert!(b.is_aligned(floor) && floor <= here && at - floor.get() < size),
            None => prop_assert!(at < b.phase().get()),
        }
        match b.ceil(here) {
            Some(ceil) => prop_assert!(b.is_aligned(ceil) && ceil >= here && ceil.get() - at < size),
            None => prop_assert!(u64::MAX - at < size),
        }
    }

    #[test]
    fn skew_is_where_the_next_multiple_in_the_space_lands(inner in 0_u64..100_000, outer in 0_u64..100_000, size in 1_u64..3_000, phase in 0_u64..6_000) {
        let b = boundary(size, phase);
        let next_multiple = inner.next_multiple_of(size);
        let lands = ByteOffset::new(outer + (next_multiple - inner));
        prop_assert_eq!(b.skew(ByteOffset::new(inner), ByteOffset::new(outer)), b.past(lands));
    }

    #[test]
    fn the_kernel_formula_agrees(start in 0_u64..1 << 50, exponent in 9_u32..20, offset: u64) {
        // queue_limit_alignment_offset of block/blk-settings.c, transcribed.
        let granularity = 1_u64 << exponent;
        let alignment = (start * 512) & (granularity - 1);
        let kernel = (granularity + offset % granularity - alignment) & (granularity - 1);
        let ours = boundary(granularity, offset).to_next(ByteOffset::new(start * 512));
        prop_assert_eq!(ours.get(), kernel);
    }

    #[test]
    fn all_families_are_met_by_the_first_common_boundary(
        from in 0_u64..100_000,
        sizes in proptest::collection::vec((1_u64..24, 0_u64..24), 0..4),
    ) {
        let families: Vec<Boundary> = sizes.iter().map(|(size, phase)| boundary(*size, *phase)).collect();
        let period: u64 = sizes.iter().map(|(size, _)| size).product();
        let is_common = |at: &u64| families.iter().all(|f| f.is_aligned(ByteOffset::new(*at)));
        let met = Boundary::meet_all(families.iter().copied());
        let ceil = met.and_then(|met| met.ceil(ByteOffset::new(from))).map(ByteOffset::get);
        prop_assert_eq!(ceil, (from..from + period).find(is_common));
        let floor = met.and_then(|met| met.floor(ByteOffset::new(from))).map(ByteOffset::get);
        prop_assert_eq!(floor, (from.saturating_sub(period - 1)..=from).rev().find(is_common));
    }

    /// The first common boundary may be more than 4096 steps of the coarser family away.
    #[test]
    fn families_meet_however_far_apart(step in 4_097_u64..1 << 20, from in 0_u64..1 << 40) {
        let (fine, coarse) = (boundary(step, 0), boundary(step + 1, step));
        let met = Boundary::meet_all([fine, coarse]).expect("neighbours share no divisor");
        let at = met.ceil(ByteOffset::new(from)).expect("it is within 2^64");
        prop_assert!(fine.is_aligned(at) && coarse.is_aligned(at));
        prop_assert_eq!(met.size().get(), step * (step + 1));
    }

    #[test]
    fn two_families_meet_where_both_have_boundaries(a in 1_u64..80, b in 1_u64..80, p in 0_u64..80, q in 0_u64..80) {
        let (one, other) = (boundary(a, p), boundary(b, q));
        let both: Vec<u64> = (0..2 * a * b)
            .filter(|at| [one, other].iter().all(|f| f.is_aligned(ByteOffset::new(*at))))
            .collect();
        match one.meet(other) {
            None => prop_assert!(both.is_empty()),
            Some(met) => {
                let of_met: Vec<u64> = (0..2 * a * b).filter(|at| met.is_aligned(ByteOffset::new(*at))).collect();
                prop_assert_eq!(of_met, both);
                prop_assert!(implies(met, one) && implies(met, other));
            }
        }
    }

    #[test]
    fn families_too_large_to_meet_do_not(a in (1_u64 << 62)..u64::MAX, b in (1_u64 << 62)..u64::MAX, p: u64, q: u64) {
        if let Some(met) = boundary(a, p).meet(boundary(b, q)) {
            prop_assert!(implies(met, boundary(a, p)) && implies(met, boundary(b, q)));
        }
    }

    #[test]
    fn positions_and_counts_form_an_affine_space(a: u64, b in 0_u64..1 << 40, c in 0_u64..1 << 40) {
        let (at, b, c) = (ByteOffset::new(a), ByteCount::new(b), ByteCount::new(c));
        if let Some(sum) = at.checked_add(b).and_then(|at| at.checked_add(c)) {
            prop_assert_eq!(at.checked_add(b.checked_add(c).unwrap()), Some(sum));
            prop_assert_eq!(sum.checked_since(at).unwrap(), b.checked_add(c).unwrap());
            prop_assert_eq!(sum.checked_back(c), at.checked_add(b));
        }
        prop_assert_eq!(at.checked_since(at), Some(ByteCount::ZERO));
    }

    #[test]
    fn blocks_and_bytes_convert_back(lba: u64, count: u64, exponent in 9_u32..17) {
        let block = BlockSize::new(1 << exponent).unwrap();
        let lba = Lba::new(lba);
        match lba.to_bytes(block) {
            Some(at) => {
                prop_assert_eq!(Lba::from_bytes_exact(at, block), Some(lba));
                prop_assert_eq!(Lba::containing(at, block), lba);
                prop_assert_eq!(at.checked_add(ByteCount::new(1)).and_then(|at| Lba::from_bytes_exact(at, block)), None);
            }
            None => prop_assert!(u128::from(lba.get()) << exponent > u128::from(u64::MAX)),
        }
        if let Some(bytes) = LbaCount::new(count).to_bytes(block) {
            prop_assert_eq!(block.blocks_floor(bytes), LbaCount::new(count));
        }
    }

    #[test]
    fn spans_never_wrap(start: u64, len: u64) {
        match Span::new(ByteOffset::new(start), ByteCount::new(len)) {
            Some(span) => prop_assert_eq!(span.end().get(), start + len),
            None => prop_assert!(start.checked_add(len).is_none()),
        }
    }

    #[test]
    fn overlap_is_symmetric_and_means_a_shared_byte(a in 0_u64..50, la in 0_u64..20, b in 0_u64..50, lb in 0_u64..20) {
        let span = |s, l| Span::new(ByteOffset::new(s), ByteCount::new(l)).unwrap();
        let shared = (a..a + la).any(|at| (b..b + lb).contains(&at));
        prop_assert_eq!(span(a, la).overlaps(span(b, lb)), shared);
        prop_assert_eq!(span(b, lb).overlaps(span(a, la)), shared);
    }

    #[test]
    fn exact_sizes_are_read_as_they_are_printed(number in 1_u64..1024, exponent in prop::sample::select(vec![0_u32, 10, 20, 30, 40])) {
        let size = ByteCount::new(number << exponent);
        prop_assert_eq!(parse_size(&size.to_string()), Ok(size));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,24}") {
        let _ = parse_size(&text);
    }
}

#[test]
fn sizes_are_read_as_people_write_them() {
    for (text, bytes) in
        [("4096", 4096), ("4K", 4096), ("4KiB", 4096), ("4kib", 4096), ("1 MiB", 1 << 20), ("512B", 512)]
    {
        assert_eq!(parse_size(text).unwrap().get(), bytes, "{text}");
    }
    for text in ["", "KiB", "4KB", "1.5M", "-1", "4X", "99999999999999999999", "16777216T", "1MiBs"] {
        assert!(parse_size(text).is_err(), "{text}");
    }
}

#[test]
fn sizes_print_exact_or_rounded() {
    for (bytes, text) in
        [(512, "512 B"), (4096, "4 KiB"), (1 << 20, "1 MiB"), (1_000_204_886_016, "931.5 GiB"), (0, "0 B")]
    {
        assert_eq!(ByteCount::new(bytes).to_string(), text);
    }
}

#[test]
fn block_sizes_are_validated() {
    for bytes in [0, 1, 511, 513, 1000, 131_072, u64::MAX] {
        assert!(BlockSize::new(bytes).is_err(), "{bytes}");
    }
    for bytes in [512, 1024, 4096, 65536] {
        assert_eq!(BlockSize::new(bytes).unwrap().get(), bytes);
    }
}

#[test]
fn sector_63_straddles_unless_the_drive_is_shifted() {
    let start = ByteOffset::new(63 * 512);
    assert_eq!(boundary(4096, 0).past(start).get(), 3584);
    assert_eq!(boundary(4096, 0).to_next(start).get(), 512);
    assert!(boundary(4096, 3584).is_aligned(start));
    assert_eq!(boundary(4096, 3584).to_next(ByteOffset::new(2048 * 512)).get(), 3584);
}
