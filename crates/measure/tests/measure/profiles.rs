//! Every shipped profile, with every option: the probe finds what the drive is, or says that it cannot tell.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use straddle_drive::Profile;
use straddle_drive::profile::Body;
use straddle_measure::bench::{Modelled, Silent};
use straddle_measure::probe::{Budget, Claims, Report, Rotation, WriteCache, probe};

/// A protected SSD that keeps up with every write, and does not read what was never written; protected SSDs whose
/// garbage collection costs more than the rest of a unit; a card that copies an allocation unit for every write; and
/// a disk that logs every write.
const SILENT: [&str; 7] = [
    "st2000dl003",
    "ssd-sata-4k,fresh=on",
    "ssd-sata-4k,steady=on",
    "qlc-16k,steady=on",
    "qlc-64k,steady=on",
    "sd-card-2011",
    "smr-8tb",
];

fn probed(specification: &str) -> (Profile, Report) {
    let profile = Profile::open(specification).unwrap();
    let mut drive = Modelled::new(specification, &profile);
    let report = probe(&mut drive, &Budget::default(), Claims::default(), &mut Silent).unwrap();
    (profile, report)
}

#[test]
fn every_shipped_drive_is_what_it_is_found_to_be() {
    for name in Profile::names() {
        let options = Profile::open(name).unwrap().variants.clone();
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
fn a_cache_that_a_flush_empties_is_distinguished_from_one_that_it_need_not() {
    for (specification, cache) in [
        ("wd10ears", WriteCache::Volatile),
        ("ssd-sata-4k,plp=off", WriteCache::Volatile),
        ("ssd-sata-4k", WriteCache::Unflushed),
        ("qlc-64k", WriteCache::Unflushed),
    ] {
        assert_eq!(probed(specification).1.cache.value, Some(cache), "{specification}");
    }
}

/// Profiles of flash and of a disk, with the given logical sectors and units.
fn with_units(logical: u64, unit: u64, protected: bool) -> [String; 2] {
    let claims = format!(
        "name = \"large\"\ntitle = \"made by a test\"\n[claims]\nmodel = \"TEST\"\ncapacity_bytes = 68719476736\n\
        logical_sector_bytes = {logical}\nphysical_sector_bytes = 4096\n"
    );
    let flash = format!(
        "{claims}rotational = false\n[interface]\nlink_mb_s = 3500\nread_overhead_us = 8\nwrite_overhead_us = 8\n\
        completion_overhead_us = 2\nqueue_depth = 1024\n[flash]\nindirection_unit_bytes = {unit}\npage_bytes = 16384\n\
        pages_per_block = 128\ndies = 16\nchannels = 4\nread_us = 60\nprogram_us = 700\nerase_us = 3000\n\
        channel_mb_s = 800\nbuffer_bytes = 8388608\nover_provisioning = 0.2\ncommand_us = 2\ndestage_after_ms = 100\n\
        power_loss_protection = {protected}\nstart = \"in-order\"\n"
    );
    let disk = format!(
        "{claims}rotational = true\n[sectors]\nphysical_bytes = {unit}\nfirmware_offset_bytes = 0\n[interface]\n\
        link_mb_s = 300\nread_overhead_us = 50\nwrite_overhead_us = 50\ncompletion_overhead_us = 0\nqueue_depth = 32\n\
        [spindle]\nrpm = 7200.0\n[geometry]\nsurfaces = 4\nouter_sectors_per_track = {}\n\
        inner_sectors_per_track = {}\nzone_count = 4\n[seek]\ntrack_to_track_ms = 1.0\naverage_ms = 8.5\n\
        full_stroke_ms = 17.0\nhead_switch_ms = 1.0\nwrite_settle_ms = 0.2\n[read_cache]\nsegments = 16\n\
        segment_bytes = 1048576\nread_ahead_bytes = 262144\n[write_cache]\nenabled = true\nbytes = 16777216\n\
        extents = 64\nsegment_bytes = 0\nwindow = 32\nsetup_us = 200\nidle_ms = 50\n[rmw]\n\
        policy = \"destage-merged\"\nnon_volatile_cache = {protected}\n",
        (2_u64 << 20) / unit,
        (1_u64 << 20) / unit,
    );
    [flash, disk]
}

#[test]
fn units_that_are_larger_than_is_looked_for_are_never_reported_wrong() {
    for logical in [512, 4096] {
        for unit in [4096, 16_384, 65_536, 131_072, 262_144] {
            for protected in [false, true] {
                for (text, kind) in with_units(logical, unit, protected).into_iter().zip(["flash", "disk"]) {
                    // Behind a disk's protected cache, units of 256 KiB and more look as if there were none.
                    // No such disks exist.
                    if kind == "disk" && protected && unit > 131_072 {
                        continue;
                    }
                    let what =
                        format!("{kind}: {unit} bytes in sectors of {logical}, protected: {protected}");
                    let profile = match Profile::parse("large", &text, &[]) {
                        Ok(profile) => profile,
                        Err(error) => panic!("{what}: {error}"),
                    };
                    for seed in 1..=3 {
                        let mut drive = Modelled::new("large", &profile);
                        let budget = Budget { seed, ..Budget::default() };
                        let report = probe(&mut drive, &budget, Claims::default(), &mut Silent).unwrap();
                        println!("{what}: {:?}", report.unit);
                        if let Some(found) = report.unit.value {
                            assert_eq!(found, common::truth(&profile), "{what}: {}", report.unit.why);
                        } else {
                            assert!(unit > 65_536, "{what}: {}", report.unit.why);
                        }
                    }
                }
            }
        }
    }
}
