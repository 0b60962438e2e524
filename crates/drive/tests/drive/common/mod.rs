//! Shared by the tests of modelled disks: random small disks, random requests, a host that submits them, and
//! the record of a run.
//!
//! The host uses a drive only as any host does: it submits requests, lets time pass, and receives
//! completions. A run that does not end within a bound on events fails instead of hanging.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

pub(crate) mod shape;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use straddle_drive::{Drive, MediaEvent};
use straddle_units::io::{Completion, Counters, Nanos, Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

/// A configuration for this many cases, or PROPTEST_CASES. A failing case is stored beside the test's source
/// and tried first the next time.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    let kept = FileFailurePersistence::WithSource("proptest-regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(kept)), ..default }
}

/// The logical sector, in bytes.
pub(crate) const SECTOR: u64 = 512;

/// A request without a time: operation, place (scaled to the disk), length, and the pause before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) operation: Operation,
    /// The first 512-byte sector, modulo the disk's capacity.
    pub(crate) first: u64,
    pub(crate) sectors: u64,
    pub(crate) pause: Nanos,
}

impl Wish {
    pub(crate) const fn new(operation: Operation, first: u64, sectors: u64) -> Self {
        Self { operation, first, sectors, pause: Nanos::ZERO }
    }

    /// This request on a disk of `capacity` bytes.
    pub(crate) fn request(&self, id: u64, capacity: u64) -> Request {
        if self.operation == Operation::Flush {
            return Request::flush(id);
        }
        let all = capacity / SECTOR;
        let sectors = self.sectors.min(all);
        let first = self.first % (all - sectors + 1);
        Request::new(id, self.operation, ByteOffset::new(first * SECTOR), ByteCount::new(sectors * SECTOR))
    }
}

/// Any mix of operations, including discards if `discards` is set.
pub(crate) fn operations(discards: bool) -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => Just(Operation::Read),
        8 => Just(Operation::Write),
        2 => Just(Operation::WriteFua),
        1 => Just(Operation::Flush),
        u32::from(discards) * 2 => Just(Operation::Discard),
    ]
}

/// Requests of which many are close together at the start, so that they overlap, and others anywhere:
/// aligned, misaligned, and long.
pub(crate) fn wishes(
    operation: impl Strategy<Value = Operation>,
    count: usize,
) -> impl Strategy<Value = Vec<Wish>> {
    let place = prop_oneof![
        3 => 0_u64..96,
        2 => (0_u64..24).prop_map(|block| block * 8),
        2 => 0_u64..1 << 20,
        1 => (0_u64..1 << 17).prop_map(|block| block * 8),
    ];
    let length = prop_oneof![4 => 1_u64..=9, 3 => Just(8_u64), 2 => 10_u64..64, 1 => 100_u64..900];
    let pause = prop_oneof![5 => Just(0_u64), 2 => 0_u64..200_000, 1 => 0_u64..40_000_000];
    let wish = (operation, place, length, pause.prop_map(Nanos::new))
        .prop_map(|(operation, first, sectors, pause)| Wish { operation, first, sectors, pause });
    prop::collection::vec(wish, 1..=count)
}

/// An event of a run, in the order in which the host or the medium saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    Submitted(usize),
    Completed(usize),
    Media(MediaEvent),
}

/// The record of a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) requests: Vec<(Time, Request)>,
    pub(crate) log: Vec<(Time, Happening)>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) counters: Counters,
}

impl Run {
    /// When request `index` was submitted and when it completed.
    pub(crate) fn times(&self, index: usize) -> (Time, Time) {
        let id = self.requests[index].1.id;
        let completion = self.completions.iter().find(|completion| completion.id == id);
        (self.requests[index].0, completion.expect("every request completes").at)
    }

    /// The media events, in order.
    pub(crate) fn media(&self) -> impl Iterator<Item = MediaEvent> {
        self.log.iter().filter_map(|(_, happening)| match happening {
            Happening::Media(event) => Some(*event),
            _ => None,
        })
    }
}

/// A host with one drive.
pub(crate) struct Host {
    pub(crate) drive: Drive,
    run: Run,
    done: Vec<Completion>,
    left: u64,
}

impl Host {
    /// A host that panics after `events` events.
    pub(crate) fn new(mut drive: Drive, events: u64) -> Self {
        drive.watch_media();
        let run = Run {
            requests: Vec::new(),
            log: Vec::new(),
            completions: Vec::new(),
            counters: *drive.counters(),
        };
        Self { drive, run, done: Vec::new(), left: events }
    }

    /// Processes the next event if it is due by `until`; returns whether there was one.
    fn event(&mut self, until: Time) -> bool {
        let Some(next) = self.drive.next_event().filter(|next| *next <= until) else { return false };
        assert!(next >= self.drive.now(), "the next event, {next}, lies before now, {}", self.drive.now());
        assert!(self.left > 0, "no end to the events: {} outstanding at {next}", self.drive.outstanding());
        self.left -= 1;
        self.drive.advance(next, &mut self.done);
        assert_eq!(self.drive.now(), next);
        assert!(self.drive.next_event().is_none_or(|after| after > next), "an event of {next} is left over");
        self.note();
        true
    }

    /// Records what has happened: first the media events, which a completion may depend on.
    fn note(&mut self) {
        let now = self.drive.now();
        for event in self.drive.take_media_events() {
            let (MediaEvent::Storing { at, .. }
            | MediaEvent::Stored { at, .. }
            | MediaEvent::Discarded { at, .. }) = event;
            assert!(at <= now, "{event:?} at {now}");
            self.run.log.push((at, Happening::Media(event)));
        }
        for completion in self.done.drain(..) {
            assert!(
                completion.at <= now
                    && self.run.completions.last().is_none_or(|last| last.at <= completion.at)
            );
            let index = self.run.requests.iter().position(|(_, request)| request.id == completion.id);
            let index = index.expect("a completion of something that was submitted");
            self.run.completions.push(completion);
            self.run.log.push((completion.at, Happening::Completed(index)));
        }
    }

    /// Submits a request at `at`, after all events up to then.
    pub(crate) fn submit(&mut self, at: Time, request: Request) {
        while self.event(at) {}
        let before = self.drive.outstanding();
        self.drive.submit(at, request, &mut self.done).expect("a possible request");
        assert!(self.done.is_empty(), "nothing completes in no time");
        assert_eq!(self.drive.outstanding(), before + 1);
        self.run.log.push((at, Happening::Submitted(self.run.requests.len())));
        self.run.requests.push((at, request));
        self.note();
    }

    /// Waits until at most `outstanding` requests are outstanding; returns the time then.
    pub(crate) fn wait(&mut self, outstanding: usize) -> Time {
        while self.drive.outstanding() > outstanding {
            assert!(self.event(Time::NEVER), "{} requests never complete", self.drive.outstanding());
        }
        self.drive.now()
    }

    /// Submits a request now and waits for its completion; returns its duration.
    pub(crate) fn serve(&mut self, operation: Operation, offset: u64, length: u64) -> Nanos {
        let (at, id) = (self.drive.now(), self.run.requests.len() as u64);
        self.submit(at, Request::new(id, operation, ByteOffset::new(offset), ByteCount::new(length)));
        self.wait(0);
        self.run.completions.last().expect("it completed").at.since(at)
    }

    /// Advances the drive to `until`.
    pub(crate) fn pass(&mut self, until: Time) {
        while self.event(until) {}
        self.drive.advance(until, &mut self.done);
        self.note();
    }

    /// Processes all remaining events.
    pub(crate) fn finish(mut self) -> Run {
        while self.event(Time::NEVER) {}
        assert_eq!(self.drive.outstanding(), 0, "requests that never complete");
        self.run.counters = *self.drive.counters();
        self.run
    }
}

/// Submits all wishes, at most `depth` at a time, and waits for all to end.
pub(crate) fn run(shape: &shape::Shape, wishes: &[Wish], depth: usize) -> Run {
    let drive = shape.drive();
    let capacity = drive.claims().capacity;
    let mut host = Host::new(drive, shape.bound(wishes));
    for (id, wish) in (0..).zip(wishes) {
        let at = host.drive.now() + wish.pause;
        host.pass(at);
        let at = host.wait(depth.max(1) - 1);
        host.submit(at, wish.request(id, capacity));
    }
    host.finish()
}
