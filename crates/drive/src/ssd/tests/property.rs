//! Properties that hold for every drive and every sequence of requests.

use super::keeper::Keeper;
use super::*;
use proptest::prelude::*;
use straddle_units::io::SplitMix64;
use straddle_units::{ByteCount, ByteOffset};

/// A small drive and a link.
#[derive(Clone, Debug)]
struct Built {
    file: FlashFile,
    interface: Interface,
    capacity: u64,
}

prop_compose! {
    fn drives()(
        unit_shift in 9_u32..17,
        page_shift in 12_u32..16,
        (dies, channels) in (1_u64..5).prop_flat_map(|dies| (Just(dies), 1..=dies)),
        groups in 4_u64..24,
        units in 60_u64..240,
        cut in 0_u64..8,
        buffer in 2_u64..12,
        over_provisioning in 0.12..0.6,
        flags in any::<[bool; 3]>(),
        destage_after_ms in prop_oneof![Just(1.0), Just(100.0)],
        queue_depth in prop_oneof![Just(1_u32), 2..9_u32],
        overheads in [0_u64..3000, 0..3000, 0..3000, 0..2_000_000],
    ) -> Built {
        let (unit, page) = (1_u64 << unit_shift, 1_u64 << page_shift);
        let program = unit.max(page);
        let file = FlashFile {
            indirection_unit_bytes: unit,
            page_bytes: page,
            pages_per_block: (groups * program / page).div_ceil(dies).max(1),
            dies,
            channels,
            buffer_bytes: buffer * program,
            over_provisioning,
            power_loss_protection: flags[0],
            start: match (flags[1], flags[2]) {
                (false, _) => FlashStart::Empty,
                (true, false) => FlashStart::InOrder,
                (true, true) => FlashStart::Steady,
            },
            command_us: if flags[2] { 5.0 } else { 0.0 },
            destage_after_ms,
            ..small()
        };
        let [read, write, completion, nanos_per_mib] = overheads;
        let interface = Interface {
            nanos_per_mib,
            read_overhead: Nanos::new(read),
            write_overhead: Nanos::new(write),
            completion_overhead: Nanos::new(completion),
            queue_depth,
        };
        // Enough superblocks that the over-provisioning yields some spare ones, and sometimes half a unit at
        // the end.
        let superblock = file.pages_per_block * dies * page;
        let capacity = (units * unit).max(superblock * 40) - (cut * 512).min(unit / 1024 * 512);
        Built { file, interface, capacity }
    }
}

/// A request and the pause before it; place and length are fractions of the drive and of four units.
type Step = (u64, Operation, u32, u32);

fn steps(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let operation = prop_oneof![
        4 => Just(Operation::Read),
        12 => Just(Operation::Write),
        2 => Just(Operation::WriteFua),
        2 => Just(Operation::Flush),
        2 => Just(Operation::Discard),
    ];
    let pause =
        prop_oneof![4 => Just(0), 4 => 0..200_000_u64, 2 => 0..3_000_000_u64, 1 => 0..300_000_000_u64];
    // Half of the requests go to a few units, so that they overlap.
    let place = prop_oneof![any::<u32>(), 0..50_000_000_u32];
    prop::collection::vec((pause, operation, place, any::<u32>()), 1..longest)
}

fn request(id: u64, drive: &Built, (_, operation, place, length): Step) -> Request {
    if operation == Operation::Flush {
        return Request::flush(id);
    }
    let sectors = drive.capacity / 512;
    let unit = drive.file.indirection_unit_bytes / 512;
    let scale = |fraction: u32, whole: u64| (u64::from(fraction) * whole) >> 32;
    let mut first = scale(place, sectors);
    // A quarter of the requests begin on a unit boundary, and a quarter are a whole number of units.
    if length & 1 == 0 && place & 1 == 0 {
        first -= first % unit;
    }
    let mut count = 1 + scale(length, 4 * unit);
    if length & 3 == 0 {
        count = count.next_multiple_of(unit);
    }
    Request::new(
        id,
        operation,
        ByteOffset::new(first * 512),
        ByteCount::new(count.min(sectors - first) * 512),
    )
}

/// Runs the steps with checks throughout; returns the completions and the counters.
fn run(drive: &Built, steps: &[Step]) -> (Vec<Completion>, Counters) {
    let parameters = SsdParameters::new(&drive.file, drive.capacity).unwrap();
    let mut ssd = Ssd::new(&parameters, drive.interface);
    ssd.record.media_events.get_or_insert_default();
    let mut keeper = Keeper::new(drive.capacity, drive.file.power_loss_protection);
    let (mut seen, mut submitted, mut now) = (Vec::new(), Vec::new(), Time::ZERO);
    for (step, id) in steps.iter().zip(0..) {
        let at = now + Nanos::new(step.0);
        pass(&mut ssd, &mut keeper, at, &mut seen);
        now = at;
        let request = request(id, drive, *step);
        submitted.push((at, request));
        keeper.submit(request);
        ssd.submit(at, request);
        assert_eq!(ssd.outstanding(), submitted.len() - seen.len());
    }
    pass(&mut ssd, &mut keeper, Time::NEVER, &mut seen);
    assert_eq!((ssd.outstanding(), ssd.next_event(), ssd.buffer.used), (0, None, 0));
    keeper.assert_all_stored();
    ssd.assert_consistent();
    for pair in seen.windows(2) {
        assert!(pair[0].at <= pair[1].at, "completions out of order");
    }
    for completion in &seen {
        let (at, request) = submitted[usize::try_from(completion.id.0).unwrap()];
        let carries = request.operation.is_write() || request.operation == Operation::Read;
        let bytes = if carries { request.length.get() } else { 0 };
        assert!(completion.at >= at + drive.interface.transfer(bytes), "faster than the link");
    }
    assert_eq!(seen.len(), steps.len());
    (seen, ssd.record.counters)
}

/// Advances to `until`, one event at a time.
fn pass(ssd: &mut Ssd, keeper: &mut Keeper, until: Time, seen: &mut Vec<Completion>) {
    let (mut before, mut events) = (ssd.now, 0);
    while let Some(next) = ssd.next_event().filter(|next| *next <= until) {
        assert!(next.get() >= before, "time goes back");
        before = next.get();
        let first = seen.len();
        ssd.advance(next, seen);
        keeper.see(&ssd.record.media_events.as_mut().map(std::mem::take).unwrap_or_default());
        seen[first..].iter().for_each(|completion| keeper.complete(completion.id));
        keeper.assert_survives();
        events += 1;
        assert!(events < 1_000_000, "the drive never comes to rest");
    }
    if until < Time::NEVER {
        ssd.advance(until, seen);
    }
}

proptest! {
    #[test]
    fn requests_complete_once_and_flushed_data_survives(drive in drives(), steps in steps(120)) {
        let first = run(&drive, &steps);
        prop_assert_eq!(first, run(&drive, &steps), "the same requests gave other answers");
    }

    #[test]
    fn part_of_a_unit_never_costs_less(
        drive in drives(),
        places in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 1..60),
    ) {
        let file = FlashFile { start: FlashStart::InOrder, power_loss_protection: false, ..drive.file };
        let capacity = drive.capacity / file.indirection_unit_bytes * file.indirection_unit_bytes;
        let unit = file.indirection_unit_bytes;
        {
            let mut any_partial = false;
            let (mut whole, mut part) = (Bench::new(&file, capacity), Bench::new(&file, capacity));
            for (place, from, length) in places {
                let start = ((u64::from(place) * (capacity / unit)) >> 32) * unit;
                let from = (u64::from(from) * (unit / 512)) >> 32;
                let length = 1 + ((u64::from(length) * (unit / 512 - from)) >> 32);
                whole.write(start, unit);
                part.write(start + from * 512, length * 512);
                let partial = length * 512 < unit;
                whole.flush();
                part.flush();
                let (whole, part) = (whole.counters(), part.counters());
                any_partial |= partial;
                prop_assert!(part.unit_write_bytes >= whole.unit_write_bytes);
                prop_assert_eq!(whole.rmw_read_bytes, 0);
                prop_assert_eq!(part.rmw_read_bytes > 0, any_partial);
                // What garbage collection moves depends on when it runs. If it has not run, writing parts of
                // units never saves work.
                if part.gc_write_bytes + whole.gc_write_bytes + part.erases + whole.erases == 0 {
                    prop_assert!(part.media_write_bytes >= whole.media_write_bytes);
                    prop_assert!(part.media_read_bytes >= whole.media_read_bytes);
                }
            }
            part.ssd.assert_consistent();
        }
    }

    #[test]
    fn garbage_collection_conserves_the_map(drive in drives(), seed in any::<u64>(), size in 1_u64..6) {
        let start = if seed.is_multiple_of(2) { FlashStart::Steady } else { FlashStart::InOrder };
        let file = FlashFile { start, ..drive.file };
        let unit = file.indirection_unit_bytes;
        {
            let mut bench = Bench::new(&file, drive.capacity);
            let units = u64::from(bench.ssd.layout.units);
            let mut random = SplitMix64::new(seed);
            for step in 0..units {
                let start = random.below(units) * unit;
                bench.write(start, (size * unit).min(drive.capacity - start));
                if step % 64 == 0 {
                    bench.ssd.assert_consistent();
                }
            }
            bench.flush();
            bench.ssd.assert_consistent();
            prop_assert_eq!(bench.ssd.mapped() as u64, units);
        }
    }
}
