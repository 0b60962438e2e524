//! Every shipped profile, with every option: what the probe finds is what the drive is, or it says that it cannot tell.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_bench::{Modelled, Silent};
use straddle_drive::Profile;
use straddle_probe::{Budget, Claims, probe};
use straddle_units::{Boundary, ByteCount, ByteOffset};

#[test]
fn shipped_profiles() {
    for name in Profile::names() {
        let profile = Profile::open(name).unwrap();
        let options = profile.variants.iter().map(|option| format!("{name},{option}"));
        for specification in std::iter::once(name.to_owned()).chain(options) {
            let profile = Profile::open(&specification).unwrap();
            let mut drive = Modelled::new(&specification, &profile);
            let begun = std::time::Instant::now();
            let report = probe(&mut drive, &Budget::default(), Claims::default(), &mut Silent).unwrap();
            let unit = Boundary::multiples_of(ByteCount::new(profile.sectors.physical)).unwrap();
            let first = unit.to_next(ByteOffset::new(profile.sectors.firmware_offset));
            if std::env::var_os("DBG").is_some() {
                println!(
                    "   {:?}\n   {:?}\n   {:?} {:?}",
                    report.cache, report.rmw, report.merge, report.depth
                );
            }
            println!(
                "{specification}: true {} at {}\n   {:?}\n   {:?}\n   {} MiB, {}, {:?}",
                profile.sectors.physical,
                first,
                report.unit,
                report.rotation,
                report.written >> 20,
                report.elapsed,
                begun.elapsed()
            );
        }
    }
}
