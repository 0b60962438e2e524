//! Random small disks, searched completely: nothing wrong is found, and a refusal is right or counted.

use std::collections::BTreeSet;

use crate::relocate::Move;
use straddle_units::io::SplitMix64;
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, Span};

use crate::realign::places::{Ground, Item, Trip, find, order};

/// Sectors of the smallest disks, which are searched completely.
const TINY: u64 = 40;
const TINY_DISKS: u64 = 6_000;
const LARGER_DISKS: u64 = 1_000;

fn span(start: u64, len: u64) -> Span {
    Span::new(ByteOffset::new(start * 512), ByteCount::new(len * 512)).unwrap()
}

fn sectors(bytes: u64) -> u64 {
    assert_eq!(bytes % 512, 0, "whole sectors");
    bytes / 512
}

/// A disk: its usable sectors, the partitions that move, and those that do not.
#[derive(Debug)]
struct Case {
    ground: Ground,
    items: Vec<Item>,
    fixed: Vec<Span>,
}

/// Draws a disk of `size` sectors with up to `most` partitions, on a grain of `grain` sectors.
fn case(random: &mut SplitMix64, size: u64, most: u64, grain: u64) -> Case {
    let boundary = |size: u64| Boundary::multiples_of(ByteCount::new(size * 512)).unwrap();
    let first = random.below(3);
    let ground = Ground {
        free: span(first, size - first),
        grain: boundary(grain),
        block: BlockSize::B512,
        physical: boundary(1),
    };
    let (mut items, mut fixed) = (Vec::new(), Vec::new());
    let mut at = first;
    let count = 1 + random.below(most);
    for number in 0..count {
        let number = u32::try_from(number).unwrap() + 1;
        at += if random.below(100) < 60 { 0 } else { random.below(size / 6) };
        let len = 1 + random.below((2 * size / (count + 1)).max(2));
        if at + len > size {
            break;
        }
        let place = span(at, len);
        if ground.grain.is_aligned(place.start()) || random.below(100) < 10 {
            fixed.push(place);
        } else {
            let slack = if random.below(100) < 50 { 0 } else { random.below(len) };
            items.push(Item {
                number,
                at: place,
                need: ByteCount::new((len - slack) * 512),
                lead: ByteCount::ZERO,
                grain: ground.grain,
            });
        }
        at += len;
    }
    Case { ground, items, fixed }
}

fn trips(items: &[Item], places: &[Span]) -> Vec<Trip> {
    let trip = |(item, to): (&Item, &Span)| Trip {
        number: item.number,
        from: Span::new(item.at.start(), to.len()).unwrap(),
        to: to.start(),
    };
    items.iter().zip(places).map(trip).collect()
}

/// Checks the law of new places.
fn check_places(case: &Case, places: &[Span]) {
    assert_eq!(places.len(), case.items.len(), "{case:?}");
    for (index, (item, to)) in case.items.iter().zip(places).enumerate() {
        assert!(case.ground.grain.is_aligned(to.start()), "{case:?}: {to:?}");
        assert!(case.ground.free.contains(*to), "{case:?}: {to:?}");
        assert!(item.need <= to.len() && to.len() <= item.at.len(), "{case:?}: {to:?}");
        let mut others = case.fixed.iter().chain(&places[..index]);
        assert!(!others.any(|other| other.overlaps(*to)), "{case:?}: {to:?}");
    }
}

/// Makes the moves on a disk whose every sector is labelled, and checks where the labels are then.
fn check_moves(case: &Case, size: u64, places: &[Span], moves: &[Move]) {
    let range = |span: Span| {
        let (start, end) = (sectors(span.start().get()), sectors(span.end().get()));
        usize::try_from(start).unwrap()..usize::try_from(end).unwrap()
    };
    let labels = |number: u32, span: Span| (0..range(span).len()).map(move |sector| (number, sector));
    let mut disk = vec![(0, 0); usize::try_from(size).unwrap()];
    for item in &case.items {
        disk[range(item.at)].iter_mut().zip(labels(item.number, item.at)).for_each(|(at, label)| *at = label);
    }
    for (number, fixed) in (1000..).zip(&case.fixed) {
        disk[range(*fixed)].iter_mut().zip(labels(number, *fixed)).for_each(|(at, label)| *at = label);
    }
    let before = disk.clone();
    for one in moves {
        let to = range(one.destination().unwrap());
        assert!(case.ground.free.contains(one.destination().unwrap()), "{case:?}: {one:?}");
        disk.copy_within(range(one.from), to.start);
    }
    for (item, to) in case.items.iter().zip(places) {
        assert!(disk[range(*to)].iter().copied().eq(labels(item.number, *to)), "{case:?}: {moves:?}");
    }
    for fixed in &case.fixed {
        assert_eq!(disk[range(*fixed)], before[range(*fixed)], "{case:?}: {moves:?}");
    }
    let untouched = |sector: usize| !moves.iter().any(|m| range(m.destination().unwrap()).contains(&sector));
    for sector in (0..disk.len()).filter(|sector| untouched(*sector)) {
        assert_eq!(disk[sector], before[sector], "{case:?}: {moves:?}");
    }
}

/// Whether any order of the moves leads to the places.
fn any_order(case: &Case, trips: &[Trip]) -> bool {
    let lens: Vec<u64> = trips.iter().map(|trip| sectors(trip.from.len().get())).collect();
    let start: Vec<u64> = trips.iter().map(|trip| sectors(trip.from.start().get())).collect();
    let goal: Vec<u64> = trips.iter().map(|trip| sectors(trip.to.get())).collect();
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        if state == goal {
            return true;
        }
        for index in 0..state.len() {
            let target = span(goal[index], lens[index]);
            let is_clear =
                |(other, at): (usize, &u64)| other == index || !span(*at, lens[other]).overlaps(target);
            let is_free = case.ground.free.contains(target)
                && !case.fixed.iter().any(|fixed| fixed.overlaps(target))
                && state.iter().enumerate().all(is_clear);
            let mut next = state.clone();
            next[index] = goal[index];
            if is_free && seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    false
}

/// Whether there are any aligned places for what the items need, in the order in which they and the fixed ones are.
fn any_places(case: &Case, taken: &mut Vec<Span>) -> bool {
    let Some(item) = case.items.get(taken.len()) else { return true };
    for start in 0..TINY {
        let place = Span::new(ByteOffset::new(start * 512), item.need).unwrap();
        let keeps_order =
            |from: Span, to: Span| (from.start() < item.at.start()) == (to.start() < place.start());
        let is_place = case.ground.grain.is_aligned(place.start())
            && case.items.iter().zip(taken.iter()).all(|(other, to)| keeps_order(other.at, *to))
            && case.fixed.iter().all(|other| keeps_order(*other, *other))
            && case.ground.free.contains(place)
            && !case.fixed.iter().chain(taken.iter()).any(|other| other.overlaps(place));
        if is_place {
            taken.push(place);
            if any_places(case, taken) {
                return true;
            }
            taken.pop();
        }
    }
    false
}

/// Counts of one kind of refusal: all, and those that were needless.
#[derive(Debug, Default)]
struct Refusals {
    all: u64,
    needless: u64,
}

impl Refusals {
    fn add(&mut self, is_needless: bool) {
        self.all += 1;
        self.needless += u64::from(is_needless);
    }

    /// Refusing too much would be allowed, but not without notice.
    fn check(&self, what: &str) {
        let Self { all, needless } = self;
        println!("{what}: {all} refused, {needless} of them needlessly");
        assert!(*all > 20, "{what}: the disks that are drawn do not test it: {all}");
        assert_eq!(*needless, 0, "{what}: of {all} refusals");
    }
}

#[test]
fn tiny_disks_are_realigned_or_refused_for_good_reason() {
    let (mut found, mut crowds) = (0_u64, Refusals::default());
    for seed in 0..TINY_DISKS {
        let mut random = SplitMix64::new(seed);
        let grain = 2 + random.below(3);
        let size = 12 + random.below(TINY - 11);
        let case = case(&mut random, size, 4, grain);
        let places = match find(&case.items, &case.fixed, &case.ground, true) {
            Ok(places) => places,
            Err(no_room) => {
                assert!(no_room.missing > ByteCount::ZERO, "seed {seed}");
                crowds.add(any_places(&case, &mut Vec::new()));
                continue;
            }
        };
        check_places(&case, &places);
        let trips = trips(&case.items, &places);
        match order(&trips) {
            Ok(moves) => {
                found += 1;
                check_moves(&case, size, &places, &moves);
            }
            Err(_) => assert!(!any_order(&case, &trips), "seed {seed}: {case:?} to {places:?}"),
        }
    }
    println!("{found} of {TINY_DISKS} tiny disks realigned");
    assert!(found > TINY_DISKS / 3, "{found} of {TINY_DISKS} disks");
    crowds.check("places");
}

#[test]
fn larger_disks_are_realigned() {
    let (mut found, mut moved) = (0_u64, 0);
    for seed in 0..LARGER_DISKS {
        let mut random = SplitMix64::new(seed);
        let (size, most) = (200 + random.below(4000), 1 + random.below(12));
        let grain = random.one_of(&[2, 8, 24, 64]);
        let case = case(&mut random, size, most, grain);
        let Ok(places) = find(&case.items, &case.fixed, &case.ground, true) else { continue };
        check_places(&case, &places);
        let moves = order(&trips(&case.items, &places));
        let Ok(moves) = moves else { continue };
        found += 1;
        moved += moves.len();
        check_moves(&case, size, &places, &moves);
    }
    println!("{found} of {LARGER_DISKS} larger disks realigned in {moved} moves");
    assert!(found > LARGER_DISKS / 2, "{found} of {LARGER_DISKS} disks");
}

/// What must give way is exact: that many bytes less make room, and a sector more than that does not.
#[test]
fn the_bytes_that_are_missing_are_the_least_that_help() {
    let mut checked = 0;
    for seed in 0..TINY_DISKS {
        let mut random = SplitMix64::new(seed);
        let mut case = case(&mut random, TINY, 1, 4);
        if case.items.len() != 1 {
            continue;
        }
        // A wall behind the partition, so that it cannot go elsewhere.
        let at = case.items[0].at;
        case.fixed.push(span(sectors(at.end().get()), TINY));
        let Err(no_room) = find(&case.items, &case.fixed, &case.ground, true) else { continue };
        let Some((number, by)) = no_room.shrink.first().copied() else { continue };
        assert_eq!(number, case.items[0].number);
        let need = case.items[0].need;
        for (less, helps) in [(by.get(), true), (by.get() - 512, false)] {
            case.items[0].need = ByteCount::new(need.get() - less);
            assert_eq!(find(&case.items, &case.fixed, &case.ground, true).is_ok(), helps, "seed {seed}");
        }
        checked += 1;
    }
    assert!(checked > 100, "{checked} disks");
}
