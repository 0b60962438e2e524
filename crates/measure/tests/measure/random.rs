//! Random drives: the probe is never wrong and rarely finds nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use std::env;

use straddle_drive::Profile;
use straddle_drive::disk::Protection;
use straddle_drive::profile::Body;
use straddle_measure::bench::{Modelled, Silent};
use straddle_measure::probe::{Budget, Claims, Report, Rmw, Rotation, WriteCache, probe};

/// Number of seeds, unless PROBE_DRIVES gives another; from PROBE_SEED on.
const DRIVES: u64 = 200;

/// The most drives in a hundred of which the unit may stay unknown: those faster than any host, or whose
/// cache cannot be filled with the bytes that may be written.
const MOST_SILENT: u64 = 3;

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
        let others = others(&profile, &report);
        if !others.is_empty() {
            wrong += 1;
            println!("seed {seed}: WRONG: {others:?}\n{text}");
        }
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
    println!("{drives} drives from seed {first}: {wrong} wrong, {silent} undetermined");
    assert_eq!(wrong, 0);
    assert!(silent * 100 <= drives * MOST_SILENT, "{silent} of {drives} undetermined");
}

/// Returns the other findings that are wrong.
fn others(profile: &Profile, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    let (cache, rotates, immediate) = match &profile.body {
        Body::Disk(disk) => {
            let cache = match (disk.write_cache.enabled, disk.protection) {
                (false, _) => WriteCache::None,
                (true, Protection::NonVolatile) => WriteCache::Unflushed,
                (true, _) => WriteCache::Volatile,
            };
            let immediate = disk.rmw.is_immediate() || !disk.write_cache.enabled;
            (cache, Some(disk.spindle.revolution().seconds()), immediate)
        }
        Body::Ssd(ssd) if ssd.power_loss_protection() => (WriteCache::Unflushed, None, false),
        Body::Ssd(_) => (WriteCache::Volatile, None, false),
    };
    if report.cache.value.is_some_and(|found| found != cache) {
        wrong.push(format!("{:?}, but {cache:?}", report.cache));
    }
    let period = match report.rotation.value {
        Some(Rotation::Period(period)) => Some(period.seconds()),
        Some(Rotation::None) | None => None,
    };
    let right = match (period, rotates) {
        (Some(found), Some(period)) => (found / period - 1.0).abs() < 0.005,
        (None, None) => report.rotation.value.is_some(),
        (None, Some(_)) => report.rotation.value.is_none(),
        (Some(_), None) => false,
    };
    if !right {
        wrong.push(format!("{:?}, but {rotates:?} s", report.rotation));
    }
    let when = report.rmw.value.map(|cost| cost.when);
    if when.is_some_and(|when| when != Rmw::None && (when == Rmw::Immediate) != immediate) {
        wrong.push(format!("{:?}, but immediate is {immediate}", report.rmw));
    }
    wrong
}
