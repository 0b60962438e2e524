//! What writes off a drive's boundaries cost, by its model.

use straddle_drive::Profile;

use crate::{Arm, Host, Modelled, Pattern, RANDOM_BLOCKS, Silent, Sync, Workload, sweep};

/// Writes per workload: enough for two digits, in a few milliseconds.
const COUNT: u64 = 400;
/// The seed of both arms of a comparison, so that they write the same blocks.
const SEED: u32 = 1;

/// How many times longer writes of 4096 bytes take off a drive's boundaries than on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffBoundary {
    /// Factor for random writes.
    pub random_write: f64,
    /// Factor for sequential writes, each followed by a flush.
    pub sequential_write: f64,
}

impl OffBoundary {
    /// Runs both workloads on a boundary of the drive `name` and `past` bytes past it. `None` if the drive has
    /// no such position.
    pub fn modelled(name: &str, profile: &Profile, past: u64) -> Option<Self> {
        let random = Pattern::RandomWrite { blocks: RANDOM_BLOCKS, seed: Some(SEED), sync: Sync::None };
        let ratio =
            |pattern: Pattern| ratio(name, profile, &Workload { count: Some(COUNT), ..pattern.into() }, past);
        Some(Self { random_write: ratio(random)?, sequential_write: ratio(Pattern::SEQUENTIAL_WRITE)? })
    }
}

fn ratio(name: &str, profile: &Profile, workload: &Workload, past: u64) -> Option<f64> {
    let logical = profile.claims.logical_sector;
    let first = profile.first_boundary();
    if !first.is_multiple_of(logical) || !past.is_multiple_of(logical) {
        return None;
    }
    let offsets = [first / logical, (first + past) / logical];
    let fresh = || Modelled::new(name, profile);
    let sweep = sweep(fresh, workload, &offsets, Host::default(), &mut Silent).ok()?;
    let seconds: Vec<f64> = sweep.arms().iter().map(Arm::seconds_per_request).collect();
    let [on, off] = seconds[..] else { return None };
    Some(off / on).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_off_costs_more() {
        let drive = Profile::open("wd10ears").unwrap();
        let on = OffBoundary::modelled("wd10ears", &drive, 0).unwrap();
        assert_eq!((on.random_write, on.sequential_write), (1.0, 1.0));
        let off = OffBoundary::modelled("wd10ears", &drive, 512).unwrap();
        assert!(off.random_write > 1.5 && off.sequential_write > 1.5, "{off:?}");
        assert_eq!(OffBoundary::modelled("wd10ears", &drive, 100), None, "inside a logical sector");
    }
}
