//! Random drives: never wrong, and rarely silent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::env;

use straddle_bench::{Modelled, Silent};
use straddle_probe::{Budget, Claims, probe};

/// So many seeds, or PROBE_DRIVES; from PROBE_SEED on.
const DRIVES: u64 = 40;

/// Of a hundred drives so many may be silent: protected ones with nothing to find, and those faster than any host.
const MOST_SILENT: u64 = 10;

#[test]
fn random_drives() {
    let number = |name: &str, usual: u64| env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (first, drives) = (number("PROBE_SEED", 1), number("PROBE_DRIVES", DRIVES));
    let (mut silent, mut wrong) = (0, 0);
    for seed in first..first + drives {
        let (profile, text) = common::drive(seed);
        let mut drive = Modelled::new("random", &profile);
        let budget = Budget { seed, ..Budget::default() };
        let report = probe(&mut drive, &budget, Claims::default(), &mut Silent).unwrap();
        let truth = common::truth(&profile);
        match report.unit.value {
            Some(found) if found == truth => {}
            None => {
                silent += 1;
                println!("seed {seed}: cannot tell {truth:?}: {}\n{text}", report.unit.why);
            }
            Some(found) => {
                wrong += 1;
                println!("seed {seed}: WRONG: {found:?} for {truth:?}: {}\n{text}", report.unit.why);
            }
        }
    }
    println!("{drives} drives from seed {first}: {wrong} wrong, {silent} not told");
    assert_eq!(wrong, 0);
    assert!(silent * 100 <= drives * MOST_SILENT, "{silent} of {drives} not told");
}
