//! Every shipped profile, with every option: what the probe finds is what the drive is, or it says that it cannot tell.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use straddle_bench::{Modelled, Silent};
use straddle_drive::Profile;
use straddle_drive::profile::Body;
use straddle_probe::{Budget, Claims, Report, Rotation, WriteCache, probe};

/// A protected SSD that keeps up with every write, and does not read what was never written.
const SILENT: [&str; 1] = ["ssd-sata-4k,fresh=on"];

fn probed(specification: &str) -> (Profile, Report) {
    let profile = Profile::open(specification).unwrap();
    let mut drive = Modelled::new(specification, &profile);
    let report = probe(&mut drive, &Budget::default(), Claims::default(), &mut Silent).unwrap();
    (profile, report)
}

#[test]
fn every_shipped_drive_is_what_it_is_found_to_be() {
    for name in Profile::names() {
        let options = Profile::open(name).unwrap().variants;
        let options = options.iter().map(|option| format!("{name},{option}"));
        for specification in std::iter::once(name.to_owned()).chain(options) {
            let (profile, report) = probed(&specification);
            match report.unit.value {
                Some(unit) => {
                    assert_eq!(unit, common::truth(&profile), "{specification}: {}", report.unit.why)
                }
                None => {
                    assert!(SILENT.contains(&specification.as_str()), "{specification}: {}", report.unit.why)
                }
            }
            assert!(report.written <= Budget::default().max_write, "{specification}");
            match (&profile.body, report.rotation.value) {
                (Body::Disk(disk), Some(Rotation::Period(found))) => {
                    let (found, truth) = (found.seconds(), disk.spindle.revolution().seconds());
                    assert!((found / truth - 1.0).abs() < 0.002, "{specification}: {found} s, not {truth}");
                }
                (Body::Ssd(_), Some(Rotation::None)) => {}
                (_, other) => panic!("{specification}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_cache_that_a_flush_empties_is_told_from_one_that_it_need_not() {
    for (specification, cache) in [
        ("wd10ears", WriteCache::Volatile),
        ("ssd-sata-4k,plp=off", WriteCache::Volatile),
        ("ssd-sata-4k", WriteCache::Unflushed),
        ("qlc-64k", WriteCache::Unflushed),
    ] {
        assert_eq!(probed(specification).1.cache.value, Some(cache), "{specification}");
    }
}
