//! Random drives behind a busy host: jitter, outliers and drift. The probe may then find nothing, but must
//! not be wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use std::env;

use common::{Draw, Random, Trouble, Troubled};
use straddle_measure::bench::{Modelled, Silent};
use straddle_measure::probe::{Budget, Claims, probe};
use straddle_units::io::{Nanos, Time};

/// Number of seeds, unless PROBE_DRIVES gives another; from PROBE_SEED on.
const DRIVES: u64 = 20;

/// Delays each completion: always a little, sometimes a lot, and more and more over time.
struct Noise {
    random: Random,
    /// The largest usual delay in seconds, and by how many times itself it grows per hour.
    jitter: f64,
    drift: f64,
    /// One completion in this many is up to 50 ms late.
    outliers: u64,
}

impl Trouble for Noise {
    fn delay(&mut self, now: Time) -> Option<Nanos> {
        let hours = now.since(Time::ZERO).seconds() / 3600.0;
        let mut late = self.random.real(0.0, self.jitter) * (1.0 + self.drift * hours);
        if self.random.once_in(self.outliers) {
            late += self.random.real(0.001, 0.050);
        }
        Nanos::from_seconds(late)
    }
}

#[test]
fn noise_never_makes_it_wrong() {
    let number = |name: &str, usual: u64| env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (first, drives) = (number("PROBE_SEED", 1), number("PROBE_DRIVES", DRIVES));
    let (mut silent, mut wrong) = (0, 0);
    for seed in first..first + drives {
        let (profile, text) = common::drive(seed);
        let mut random = Random::new(seed ^ 0x5EED);
        let jitter = random.one_of(&[2e-6, 20e-6, 100e-6, 500e-6]);
        let (outliers, drift) = (random.one_of(&[50, 200, 1000]), random.real(0.0, 20.0));
        let drive = Modelled::new("random", &profile);
        let mut noisy = Troubled { drive, trouble: Noise { random, jitter, drift, outliers } };
        let budget = Budget { seed, ..Budget::default() };
        let report = probe(&mut noisy, &budget, Claims::default(), &mut Silent).unwrap();
        let truth = common::truth(&profile);
        match report.unit.value {
            Some(found) if found == truth => {}
            None => {
                silent += 1;
                println!("seed {seed}, jitter {jitter}: cannot tell {truth:?}: {}", report.unit.why);
            }
            Some(found) => {
                wrong += 1;
                println!(
                    "seed {seed}, jitter {jitter}: WRONG: {found:?} for {truth:?}: {}\n{text}",
                    report.unit.why
                );
            }
        }
    }
    println!("{drives} noisy drives from seed {first}: {wrong} wrong, {silent} undetermined");
    assert_eq!(wrong, 0);
}
