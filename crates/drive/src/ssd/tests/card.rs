//! Memory cards: what each step costs, and published measurements with flashbench.

#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a few MiB")]

use super::*;
use crate::Drive;
use crate::profile::Profile;
use straddle_units::io::Request;

const MIB: u64 = 1 << 20;

struct CardHost {
    drive: Drive,
    id: u64,
}

impl CardHost {
    fn new(name: &str) -> Self {
        Self { drive: Drive::new(&Profile::open(name).unwrap()), id: 0 }
    }

    /// Runs a request to its end; returns its duration.
    fn run(&mut self, operation: Operation, offset: u64, length: u64) -> Nanos {
        self.id += 1;
        let (start, mut done) = (self.drive.now(), Vec::new());
        let request = Request::new(self.id, operation, ByteOffset::new(offset), ByteCount::new(length));
        self.drive.submit(start, request, &mut done).unwrap();
        self.drive.next_completion(&mut done).unwrap().at.since(start)
    }

    /// The speed in MB/s of writes of `block` bytes in turn to each of `count` allocation units, as
    /// `flashbench --open-au` measures it.
    fn open_au(&mut self, count: u64, block: u64) -> f64 {
        let start = self.drive.now();
        for place in (0..4 * MIB).step_by(block as usize) {
            for unit in 0..count {
                self.run(Operation::Write, 16 * MIB + unit * 48 * MIB + place, block);
            }
        }
        (count * 4 * MIB) as f64 / 1e6 / self.drive.now().since(start).seconds()
    }
}

/// The manual of flashbench: one card, of which two allocation units can be open. Two of these figures set the
/// card's times (4 MiB and 256 KiB with two units).
#[test]
fn two_open_units_are_fast_and_three_are_slow_as_published() {
    let published = [(2, [8.79, 7.41, 6.87, 6.39, 6.27]), (3, [7.75, 5.03, 3.24, 1.76, 0.912])];
    for (count, speeds) in published {
        let mut card = CardHost::new("sd-card-2011");
        for (order, speed) in (0..).zip(speeds) {
            let block = (4 * MIB) >> order;
            let found = card.open_au(count, block);
            assert!((found / speed - 1.0).abs() < 0.2, "{count} units, {block}: {found}, not {speed} MB/s");
        }
    }
}

/// Writes to random places in one allocation unit (pctips.click, 2020): 16 and 512 KiB set the card's times.
#[test]
fn writes_within_an_open_unit_are_as_fast_as_published() {
    for (block, speed) in [(4096, 1.2), (16_384, 4.54), (65_536, 8.78), (524_288, 12.07)] {
        let found = CardHost::new("sd-card-2015").open_au(1, block);
        assert!((found / speed - 1.0).abs() < 0.15, "{block}: {found}, not {speed} MB/s");
    }
}

#[test]
fn part_of_a_page_is_read_and_programmed_as_a_whole() {
    let mut card = CardHost::new("sd-card-2015");
    let whole = card.run(Operation::Write, 0, 16_384);
    assert_eq!(card.drive.counters().rmw_reads, 0);
    let across = card.run(Operation::Write, 16_384 + 512, 16_384);
    let counters = *card.drive.counters();
    assert_eq!((counters.rmw_reads, counters.unit_write_bytes), (2, 3 * 16_384));
    assert!(across > whole);
    let (inside, crossing) = (card.run(Operation::Read, 0, 1024), card.run(Operation::Read, 15_872, 1024));
    assert!(crossing > inside, "two pages are read one after the other");
}

#[test]
fn closing_a_unit_copies_what_was_not_written() {
    let mut card = CardHost::new("sd-card-2015");
    for unit in 0..5 {
        card.run(Operation::Write, unit * 4 * MIB, 16_384);
    }
    assert_eq!(card.drive.counters().gc_write_bytes, 0, "five are open");
    card.run(Operation::Write, 0, 16_384);
    card.run(Operation::Write, 5 * 4 * MIB, 16_384);
    let counters = *card.drive.counters();
    assert_eq!(
        (counters.gc_write_bytes, counters.erases),
        (4 * MIB - 16_384, 1),
        "the second was the oldest"
    );
    // A unit that was written once over is closed without a copy.
    let before = counters.gc_write_bytes;
    (0..256).for_each(|page| _ = card.run(Operation::Write, 40 * MIB + page * 16_384, 16_384));
    card.run(Operation::Write, 40 * MIB, 16_384);
    assert_eq!(card.drive.counters().gc_write_bytes - before, 4 * MIB - 16_384, "only the third");
}

#[test]
fn a_card_programs_a_page_for_each_unit() {
    let file = FlashFile { open_superblocks: Some(2), ..small() };
    assert_eq!(SsdParameters::new(&file, CAPACITY).unwrap_err().key, "page_bytes");
    let file = FlashFile { open_superblocks: Some(0), ..small() };
    assert_eq!(SsdParameters::new(&file, CAPACITY).unwrap_err().key, "open_superblocks");
}
