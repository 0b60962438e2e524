//! What writes off a drive's boundaries cost, by its model.

use straddle_drive::profile::Body;
use straddle_drive::{FirmwareRange, Profile};

use crate::bench::{Arm, Host, Modelled, Pattern, Silent, Sweep, WarmUp, Workload, warm_sweep};

/// Writes per workload on a disk: enough for two digits, in a few milliseconds.
const COUNT: u64 = 400;
/// The seed of both arms of a comparison, so that they write the same blocks.
const SEED: u32 = 1;

/// What writes off a drive's boundaries cost, compared with writes on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffBoundary {
    /// Bytes of each write: as given, or else 4096, or the indirection unit of an SSD if that is larger.
    pub size: u64,
    /// How many times as long random writes take; on an SSD in the steady state of random writes.
    pub random_write: f64,
    /// The same over the plausible firmware of a disk.
    pub firmware: Option<FirmwareRange>,
    /// How many times as long sequential writes take, each followed by a flush; `None` on an SSD, which joins them.
    pub sequential_write: Option<f64>,
    /// How many times as many bytes are written to flash (wear); `None` on a disk.
    pub wear: Option<f64>,
}

impl OffBoundary {
    /// Runs the workloads on a boundary of the drive `name` and `past` bytes after it, with writes of `size` bytes.
    /// `None` if the drive has no such position or takes no such writes.
    pub fn modelled(name: &str, profile: &Profile, past: u64, size: Option<u64>) -> Option<Self> {
        // What a buffer or spare flash hides for a while has to be paid in the end.
        let profile = &profile.clone().steady();
        let counted = |pattern: Pattern| Workload { count: Some(COUNT), ..pattern.into() };
        let sized = |workload: Workload| Workload { size: size.unwrap_or(workload.size), ..workload };
        let workload = sized(counted(Pattern::RANDOM_WRITE).seeded(SEED).on(profile));
        let sequential = sized(counted(Pattern::SEQUENTIAL_WRITE));
        let size = workload.size;
        let compared = compared(name, profile, &workload, past)?;
        let slowdown = |sweep: &Sweep| ratio(sweep, |arm| Some(arm.seconds_per_request()));
        let random_write = slowdown(&compared)?;
        match profile.body {
            Body::Ssd(_) => {
                let wear = ratio(&compared, |arm| arm.samples.write_amplification());
                Some(Self { size, random_write, firmware: None, sequential_write: None, wear })
            }
            Body::Disk(_) => {
                let sequential = self::compared(name, profile, &sequential, past)?;
                let sequential_write = Some(slowdown(&sequential)?);
                let firmware =
                    FirmwareRange::of(name, |other| slowdown(&self::compared(name, other, &workload, past)?));
                Some(Self { size, random_write, firmware, sequential_write, wear: None })
            }
        }
    }
}

fn compared(name: &str, profile: &Profile, workload: &Workload, past: u64) -> Option<Sweep> {
    let logical = profile.claims.logical_sector;
    let first = profile.first_boundary();
    if !first.is_multiple_of(logical) || !past.is_multiple_of(logical) {
        return None;
    }
    let offsets = [first / logical, (first + past) / logical];
    let (fresh, warm_up) = (|| Modelled::new(name, profile), WarmUp::usual(workload, profile));
    warm_sweep(fresh, workload, &offsets, Host::default(), warm_up, &mut Silent).ok()
}

/// The second arm's value over the first one's.
fn ratio(sweep: &Sweep, of: impl Fn(&Arm) -> Option<f64>) -> Option<f64> {
    let [on, off] = sweep.arms() else { return None };
    Some(of(off)? / of(on)?).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_off_costs_more() {
        let drive = Profile::open("wd10ears").unwrap();
        let on = OffBoundary::modelled("wd10ears", &drive, 0, None).unwrap();
        assert_eq!((on.size, on.random_write, on.sequential_write, on.wear), (4096, 1.0, Some(1.0), None));
        let off = OffBoundary::modelled("wd10ears", &drive, 512, None).unwrap();
        assert!(off.random_write > 1.5 && off.sequential_write > Some(1.5), "{off:?}");
        assert_eq!(OffBoundary::modelled("wd10ears", &drive, 100, None), None, "inside a logical sector");
    }

    /// A write of a whole unit off the boundaries is parts of two units, and both are programmed.
    #[test]
    fn off_the_boundaries_an_ssd_programs_two_units_for_one() {
        for (name, unit) in
            [("ssd-sata-4k", 4096), ("nvme-tlc-4k", 4096), ("qlc-16k", 16_384), ("qlc-64k", 65_536)]
        {
            let drive = Profile::open(name).unwrap();
            for past in [0, 512, unit / 2, unit - 512] {
                let found = OffBoundary::modelled(name, &drive, past, None).unwrap();
                let expected = if past == 0 { 1.0 } else { 2.0 };
                let wear = found.wear.unwrap();
                assert!((wear / expected - 1.0).abs() < 0.03, "{name}, {past}: {found:?}");
                assert_eq!((found.size, found.sequential_write), (unit, None));
                assert_eq!(found.random_write > 1.5, past > 0, "{name}, {past}: {found:?}");
            }
        }
    }
}
