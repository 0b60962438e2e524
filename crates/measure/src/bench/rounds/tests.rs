//! Tests that the intervals have the promised coverage, on targets whose true ratio is known.

use std::collections::VecDeque;

use straddle_units::io::{Completion, Counters, Nanos, Request, Time};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::*;
use crate::bench::Sync;
use crate::bench::run::Silent;
use crate::bench::target::{Clock, Description};
use crate::bench::tests::Mock;
use crate::bench::workload::{Parameters, Pattern};

const MILLISECOND: f64 = 1e6;

/// Disturbances of a measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Noise {
    /// Standard deviation of the logarithm of each request's time.
    spread: f64,
    /// The fraction of requests that take 100 ms more.
    stalls: f64,
    /// The relative slowdown after ten seconds.
    drift: f64,
}

/// A target that takes 1 ms per request, and `ratio` times that if the request does not begin at a multiple
/// of 4096.
struct Noisy {
    description: Description,
    ratio: f64,
    noise: Noise,
    random: SplitMix64,
    now: Time,
    done: VecDeque<Completion>,
}

impl Noisy {
    fn new(ratio: f64, noise: Noise, seed: u64) -> Self {
        let (name, title) = ("noisy".to_owned(), "Noisy".to_owned());
        let description = Description { name, title, clock: Clock::Virtual };
        Self {
            description,
            ratio,
            noise,
            random: SplitMix64::new(seed),
            now: Time::ZERO,
            done: VecDeque::new(),
        }
    }

    fn uniform(&mut self) -> f64 {
        (float(self.random.next() >> 11) + 0.5) / float(1 << 53)
    }

    /// Returns a normally distributed number, by the method of G. E. P. Box and M. E. Muller.
    fn normal(&mut self) -> f64 {
        let (one, other) = (self.uniform(), self.uniform());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }
}

impl Target for Noisy {
    fn description(&self) -> &Description {
        &self.description
    }

    fn capacity(&self) -> ByteCount {
        ByteCount::new(1 << 30)
    }

    fn logical_sector(&self) -> u64 {
        512
    }

    fn now(&self) -> Time {
        self.now
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        let partial = !request.offset.get().is_multiple_of(4096);
        let mut nanos = if request.length.get() == 0 { 0.0 } else { MILLISECOND };
        nanos *= if partial { self.ratio } else { 1.0 };
        nanos *= (self.normal() * self.noise.spread).exp();
        nanos *= 1.0 + self.noise.drift * self.now.since(Time::ZERO).seconds() / 10.0;
        if self.uniform() < self.noise.stalls {
            nanos += 100.0 * MILLISECOND;
        }
        self.now += Nanos::from_micros(nanos / 1e3).unwrap();
        self.done.push_back(Completion { id: request.id, at: self.now });
        Ok(())
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        self.done.pop_front().ok_or(TargetError::Idle)
    }

    fn pause(&mut self, length: Nanos) {
        self.now += length;
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

fn order(offsets: &[u64], seed: u64) -> Order {
    Order {
        offsets: offsets.to_vec(),
        regions: vec![span(0, 1 << 29), span(1 << 29, 1 << 28)],
        turn: Nanos::new(10_000_000),
        requests: None,
        warmup: 0,
        limit: Nanos::new(5_000_000_000),
        precision: 0.05,
        seed,
    }
}

fn flushed() -> Workload {
    let sync = Parameters { sync: Some(Sync::Flush), ..Parameters::default() };
    Pattern::RANDOM_WRITE.with(sync).unwrap().into()
}

fn measured(target: &mut dyn Target, workload: &Workload, order: &Order) -> Measured {
    rounds(target, workload, Host::default(), order, &mut Silent).unwrap()
}

/// A target that takes a hundred times as long for its first `cold` requests of data as [`Noisy`] does, all of
/// them aligned or not.
struct Cold {
    noisy: Noisy,
    cold: u64,
    seen: u64,
}

impl Target for Cold {
    fn description(&self) -> &Description {
        self.noisy.description()
    }

    fn capacity(&self) -> ByteCount {
        self.noisy.capacity()
    }

    fn logical_sector(&self) -> u64 {
        self.noisy.logical_sector()
    }

    fn now(&self) -> Time {
        self.noisy.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        if request.length.get() > 0 {
            self.seen += 1;
            if self.seen <= self.cold {
                self.noisy.now += Nanos::new(100_000_000);
            }
        }
        self.noisy.submit(request)
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        self.noisy.wait()
    }

    fn pause(&mut self, length: Nanos) {
        self.noisy.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

#[test]
fn warm_up_rounds_are_run_and_do_not_count() {
    const REQUESTS: u64 = 5;
    // Two turns of each of two arms.
    const ROUND: u64 = 2 * 2 * REQUESTS;
    let run = |warmup: usize| {
        let noisy = Noisy::new(3.0, Noise::default(), 1);
        let mut target = Cold { noisy, cold: 2 * ROUND, seen: 0 };
        let limit = Nanos::new(500_000_000);
        let order = Order { requests: Some(REQUESTS), warmup, limit, ..order(&[0, 1], 1) };
        let result = measured(&mut target, &flushed(), &order);
        let all: u64 = result.sweep.arms().iter().map(|arm| arm.samples.requests).sum();
        let slowest = result.sweep.arms().iter().map(|arm| arm.samples.latency.max()).max().unwrap();
        (target.seen, all, result.rounds, slowest)
    };
    let slow = Nanos::new(100_000_000);
    let (seen, counted, rounds, slowest) = run(0);
    assert!(seen == counted && slowest > slow, "{seen} {counted} {slowest}");
    // The limit begins after the warm-up: the cold requests alone take longer than it, as the run above shows.
    assert!(rounds < FEWEST_ROUNDS, "{rounds}");
    for warmup in [2, 7] {
        let (seen, counted, rounds, slowest) = run(warmup);
        assert_eq!(seen, counted + warmup as u64 * ROUND);
        assert_eq!(counted, rounds as u64 * ROUND);
        assert!(rounds >= FEWEST_ROUNDS && slowest < slow, "{rounds} {slowest}");
    }
}

/// Returns, of `runs` runs, how many intervals contained the truth, and how many runs found a difference.
fn judged(runs: u32, offsets: &[u64], ratio: f64, noise: Noise) -> (u32, u32) {
    let (mut held, mut claimed) = (0, 0);
    for seed in 0..runs {
        let mut target = Noisy::new(ratio, noise, u64::from(seed) ^ 0xABCD_EF01);
        let measured = measured(&mut target, &flushed(), &order(offsets, seed.into()));
        let arms = measured.sweep.arms();
        // Arm 0 is the aligned one, whichever seems to be the fastest.
        let found = Sweep::new(vec![arms[0].clone(), arms[1].clone()]).unwrap();
        let interval = found.ratio(found.worst()).interval.unwrap();
        let truth = if found.worst().offset == 0 { 1.0 / ratio } else { ratio };
        held += u32::from(interval.holds(truth));
        claimed += u32::from(measured.sweep.differs());
    }
    (held, claimed)
}

/// The number of runs of each case: 200, or as `RUNS` specifies (`make statistics` uses 2,000).
fn runs() -> u32 {
    std::env::var("RUNS").map_or(200, |text| text.parse().unwrap())
}

/// The range allowed for a share of 0.95: three standard deviations of `runs` draws, besides the 0.02 by
/// which the method may be off.
fn held_bounds(runs: u32) -> std::ops::RangeInclusive<f64> {
    let slack = 3.0 * (0.95 * 0.05 / f64::from(runs)).sqrt();
    0.93 - slack..=0.97 + slack
}

const NOISES: [Noise; 4] = [
    Noise { spread: 0.3, stalls: 0.0, drift: 0.0 },
    Noise { spread: 0.3, stalls: 0.0, drift: 0.5 },
    Noise { spread: 0.3, stalls: 0.002, drift: 0.0 },
    Noise { spread: 0.5, stalls: 0.002, drift: 0.5 },
];

#[test]
fn the_interval_holds_the_known_ratio_in_93_to_97_of_100_runs() {
    let runs = runs();
    for noise in NOISES {
        for ratio in [1.1, 3.0] {
            let (held, claimed) = judged(runs, &[0, 1], ratio, noise);
            println!("{noise:?} ratio {ratio}: held {held}, claimed {claimed} of {runs}");
            let share = f64::from(held) / f64::from(runs);
            assert!(held_bounds(runs).contains(&share), "{noise:?}, ratio {ratio}: {held} of {runs}");
        }
    }
}

#[test]
fn no_difference_is_claimed_where_there_is_none() {
    let runs = runs() / 2;
    for noise in NOISES {
        for offsets in [&[0, 1][..], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            let (_, claimed) = judged(runs, offsets, 1.0, noise);
            println!("{noise:?} {} arms: claimed {claimed} of {runs}", offsets.len());
            let most = 0.05f64.mul_add(f64::from(runs), 3.0 * (f64::from(runs) * 0.05 * 0.95).sqrt());
            assert!(f64::from(claimed) <= most, "{noise:?}, {} arms: {claimed} of {runs}", offsets.len());
        }
    }
}

#[test]
fn every_arm_has_as_many_turns_in_every_half_and_region() {
    let mut target = Mock::new(1 << 30, Nanos::new(1_000_000));
    let order = Order { requests: Some(5), precision: 0.0, ..order(&[0, 1, 4], 7) };
    struct Turns(Vec<Turn>);
    impl Progress for Turns {
        fn advance(&mut self, _: f64) {}
    }
    impl Watch for Turns {
        fn round(&mut self, turns: &[Turn], _: &Sweep) {
            self.0.extend_from_slice(turns);
        }
    }
    let mut turns = Turns(Vec::new());
    let measured = rounds(&mut target, &flushed(), Host::default(), &order, &mut turns).unwrap();
    assert_eq!((measured.ended, turns.0.len()), (Ended::Precise, measured.rounds * 6));
    for round in turns.0.chunks(6) {
        let arms: Vec<usize> = round.iter().map(|turn| turn.arm).collect();
        let mut back = arms[3..].to_vec();
        back.reverse();
        assert_eq!(arms[..3], back, "there and back");
        assert!(round.iter().all(|turn| turn.region == round[0].region && turn.requests == 5));
        assert!(round.iter().all(|turn| turn.latencies.len() == 5));
        let mut seeds: Vec<u32> = round.iter().map(|turn| turn.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6, "places of their own");
    }
    for arm in measured.sweep.arms() {
        assert_eq!(arm.samples.requests, measured.rounds as u64 * 10);
    }
}

#[test]
fn nothing_is_touched_outside_the_regions() {
    let workloads = [
        flushed(),
        Pattern::SEQUENTIAL_WRITE.into(),
        Workload { queue_depth: 4, ..Pattern::SEQUENTIAL_READ.into() },
    ];
    let regions = vec![span(8 << 20, 4 << 20), span(64 << 20, 3 << 20)];
    for workload in workloads {
        let mut target = Mock::new(1 << 30, Nanos::new(50_000));
        let order = Order { regions: regions.clone(), ..order(&[0, 7], 3) };
        let measured = measured(&mut target, &workload, &order);
        assert!(measured.rounds >= FEWEST_ROUNDS);
        for (_, request) in target.log().iter().filter(|(_, request)| request.length.get() > 0) {
            let touched = Span::new(request.offset, request.length).unwrap();
            assert!(regions.iter().any(|region| region.contains(touched)), "{request:?}");
        }
    }
}

#[test]
fn a_short_turn_with_a_deep_queue_tells_the_steady_rate() {
    let mut target = Mock::new(1 << 30, Nanos::new(1_000_000)).with_channels(8);
    let workload = Workload { queue_depth: 8, ..Pattern::SEQUENTIAL_READ.into() };
    let order = Order { requests: Some(12), ..order(&[0, 1], 1) };
    let measured = measured(&mut target, &workload, &order);
    let arm = &measured.sweep.arms()[0];
    assert_eq!(arm.samples.requests, measured.rounds as u64 * 24, "the tail does not count");
    // Twelve requests on eight channels take two service times, because eight requests of the second were
    // submitted as well.
    assert!((arm.seconds_per_request() - 2e-3 / 12.0).abs() < 1e-9, "{}", arm.seconds_per_request());
    let sent = target.log().len() as u64;
    let turns = measured.rounds as u64 * 4;
    assert_eq!(sent, turns * 19, "seven more than count, each turn");
}

#[test]
fn a_turn_of_writes_ends_with_a_flush_that_counts() {
    let mut target = Mock::new(1 << 30, Nanos::new(1_000_000));
    let workload = Workload::from(Pattern::RANDOM_WRITE);
    let order = Order { requests: Some(4), ..order(&[0, 1], 1) };
    let measured = measured(&mut target, &workload, &order);
    let arm = &measured.sweep.arms()[0];
    assert_eq!(arm.samples.flushes, measured.rounds as u64 * 2);
    // Four writes and a flush, 1 ms each.
    assert!((arm.seconds_per_request() - 1.25e-3).abs() < 1e-9, "{}", arm.seconds_per_request());
}
