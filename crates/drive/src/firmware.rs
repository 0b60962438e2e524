//! What is not known of a modelled drive: how its firmware writes parts of physical sectors.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Profile;
use crate::disk::RmwPolicy;

/// A range narrower than this, relative to its upper end, is none: no published figure is more exact.
const EQUAL: f64 = 0.01;

/// The range of a ratio over the firmware that a drive may have. It does not include the sampling error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FirmwareRange {
    /// The lowest ratio.
    pub low: f64,
    /// The highest ratio.
    pub high: f64,
}

impl FirmwareRange {
    /// Returns the range of `ratio` over [`Profile::plausible_policies`] of a drive but
    /// [`RmwPolicy::Logged`], which defers the cost of a run to when its log is full. `None` if the policy
    /// makes no difference, if the drive's specification chooses one, or if a ratio is not known.
    pub fn of(specification: &str, ratio: impl Fn(&Profile) -> Option<f64>) -> Option<Self> {
        if specification.split(',').any(|option| option.starts_with("rmw=")) {
            return None;
        }
        let policies = Profile::open(specification).ok()?.plausible_policies();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for policy in policies.into_iter().filter(|policy| *policy != RmwPolicy::Logged) {
            let ratio = ratio(&Profile::open(&format!("{specification},rmw={}", policy.name())).ok()?)?;
            (low, high) = (low.min(ratio), high.max(ratio));
        }
        (high - low > EQUAL * high).then_some(Self { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Body;

    #[test]
    fn every_plausible_policy_is_asked_unless_one_is_chosen() {
        let numbered = |profile: &Profile| match &profile.body {
            Body::Disk(disk) => {
                assert_ne!(disk.rmw, RmwPolicy::Logged);
                let at = profile.plausible_policies().iter().position(|policy| *policy == disk.rmw)?;
                u8::try_from(at).ok().map(f64::from)
            }
            Body::Ssd(_) => None,
        };
        let policies = Profile::open("wd10ears").unwrap().plausible_policies();
        let last = policies.iter().rposition(|policy| *policy != RmwPolicy::Logged).unwrap();
        let range = FirmwareRange::of("wd10ears", numbered).unwrap();
        assert_eq!((range.low, range.high), (0.0, f64::from(u8::try_from(last).unwrap())));
        assert_eq!(FirmwareRange::of("wd10ears,jumper=on", |_| Some(3.0)), None);
        assert_eq!(FirmwareRange::of("wd10ears,rmw=logged", numbered), None);
        assert_eq!(FirmwareRange::of("qlc-16k", numbered), None);
    }
}
