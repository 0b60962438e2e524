//! Small test drives, on which a few requests reach every part.

mod behaviour;
mod card;
mod hostile;
mod keeper;
mod property;
mod speed;

use straddle_units::io::{Counters, Nanos, Operation, RequestId};
use straddle_units::{ByteCount, ByteOffset};

use super::index::{Slot, Superblock};
use super::*;

/// A drive so small that garbage collection starts soon.
fn small() -> FlashFile {
    FlashFile {
        indirection_unit_bytes: 4096,
        page_bytes: 16384,
        pages_per_block: 8,
        dies: 4,
        channels: 2,
        read_us: 50.0,
        program_us: 500.0,
        erase_us: 3000.0,
        channel_mb_s: 400.0,
        buffer_bytes: 256 << 10,
        over_provisioning: 0.25,
        power_loss_protection: false,
        start: FlashStart::Empty,
        open_superblocks: None,
        command_us: 0.0,
        destage_after_ms: 100.0,
    }
}

/// A link at 500 MiB/s, with overheads of 1 or 2 µs.
fn link() -> Interface {
    Interface {
        nanos_per_mib: 2_000_000,
        read_overhead: Nanos::new(2_000),
        write_overhead: Nanos::new(1_000),
        completion_overhead: Nanos::new(500),
        queue_depth: 32,
    }
}

const CAPACITY: u64 = 16 << 20;

#[test]
fn an_index_that_may_be_missing_takes_no_more_room() {
    assert_eq!(size_of::<Option<Slot>>(), size_of::<u32>());
    for number in [0, 1, u32::MAX - 1] {
        assert_eq!(Slot::new(number).get(), number);
    }
}

/// A drive under test, with a host that waits for each request.
struct Bench {
    ssd: Ssd,
    now: Time,
    id: u64,
}

impl Bench {
    fn new(file: &FlashFile, capacity: u64) -> Self {
        let parameters = SsdParameters::new(file, capacity).unwrap();
        Self { ssd: Ssd::new(&parameters, link()), now: Time::ZERO, id: 0 }
    }

    /// Runs a request to its end; returns its duration.
    fn run(&mut self, operation: Operation, offset: u64, length: u64) -> Nanos {
        let submitted = self.now;
        self.id += 1;
        self.ssd.submit(
            submitted,
            Request::new(self.id, operation, ByteOffset::new(offset), ByteCount::new(length)),
        );
        let (mut done, mut steps) = (Vec::new(), 0);
        while done.is_empty() {
            steps += 1;
            assert!(steps < 1_000_000, "the request never completes");
            let next = self.ssd.next_event().expect("the request never completes");
            assert!(next >= self.now, "time goes back");
            self.ssd.advance(next, &mut done);
            self.now = next;
        }
        assert_eq!(done, [Completion { id: RequestId(self.id), at: self.now }]);
        self.now.since(submitted)
    }

    fn write(&mut self, offset: u64, length: u64) -> Nanos {
        self.run(Operation::Write, offset, length)
    }

    fn flush(&mut self) -> Nanos {
        self.run(Operation::Flush, 0, 0)
    }

    /// Lets time pass until no event is left.
    fn idle(&mut self) {
        let mut steps = 0;
        while let Some(next) = self.ssd.next_event() {
            self.ssd.advance(next, &mut Vec::new());
            self.now = next;
            steps += 1;
            assert!(steps < 1_000_000, "the drive never comes to rest");
        }
    }

    fn counters(&self) -> Counters {
        self.ssd.record.counters
    }
}

impl Ssd {
    /// Asserts that both maps agree, that each unit has at most one valid slot, and that the counts are
    /// right.
    fn assert_consistent(&self) {
        let mut mapped = 0;
        for unit in (0..self.layout.units).map(Unit::new) {
            if let Some(slot) = self.mapping.get(unit) {
                assert_eq!(self.blocks.unit_at(slot), Some(unit), "{unit:?} is not where the map says");
                mapped += 1;
            }
        }
        let mut valid = 0;
        for superblock in (0..self.layout.superblocks).map(Superblock::new) {
            let slots = (0..self.layout.slots).map(|place| self.layout.slot(superblock, place));
            let counted =
                u32::try_from(slots.filter(|&slot| self.blocks.unit_at(slot).is_some()).count()).unwrap();
            assert_eq!(self.blocks.valid(superblock), counted, "valid units of {superblock:?}");
            valid += counted;
        }
        assert_eq!(valid, mapped, "every valid slot belongs to one unit");
        let counters = &self.record.counters;
        assert_eq!(counters.media_write_bytes, counters.unit_write_bytes + counters.gc_write_bytes);
    }

    /// The number of mapped units.
    fn mapped(&self) -> usize {
        (0..self.layout.units).map(Unit::new).filter(|&unit| self.mapping.get(unit).is_some()).count()
    }
}
