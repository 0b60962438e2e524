//! How a drive's firmware writes a part of a physical sector, which is not known. A policy replaces the profile's own
//! and changes no other number.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use straddle_drive::disk::RmwPolicy;
use straddle_drive::profile::Body;
use straddle_drive::{Profile, ProfileError};

/// Opens a profile, as [`Profile::open`], with another policy or queue depth.
pub fn open(
    specification: &str,
    policy: Option<RmwPolicy>,
    queue_depth: Option<u32>,
) -> Result<Profile, ProfileError> {
    let specification = match policy {
        Some(policy) => format!("{specification},rmw={}", policy.name()),
        None => specification.to_owned(),
    };
    let depth = queue_depth.map(|depth| ("interface.queue_depth", f64::from(depth)));
    Profile::open_with(&specification, depth.as_slice())
}

/// One figure with each of the plausible policies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Band {
    /// The figure with each policy, by the name of the policy.
    #[serde(rename = "policies", serialize_with = "by_policy")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub values: Vec<(RmwPolicy, f64)>,
}

impl Band {
    /// Returns a band, unless there is no value.
    pub fn new(values: Vec<(RmwPolicy, f64)>) -> Option<Self> {
        (!values.is_empty()).then_some(Self { values })
    }

    /// The lowest figure.
    pub fn lowest(&self) -> f64 {
        self.values.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min)
    }

    /// The highest figure.
    pub fn highest(&self) -> f64 {
        self.values.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Whether a policy gives a figure whose error is at most `limit`: lying between two of them is not enough.
    pub fn explains(&self, error: impl Fn(f64) -> f64, limit: f64) -> bool {
        self.values.iter().any(|(_, value)| error(*value).abs() <= limit)
    }

    /// The policy whose figure is nearest to the published one, as a ratio; the first of equal ones.
    pub fn nearest(&self, published: f64) -> Option<RmwPolicy> {
        let distance = |value: f64| (value / published).ln().abs();
        let nearer = |one: &&(RmwPolicy, f64), other: &&(RmwPolicy, f64)| {
            distance(one.1).total_cmp(&distance(other.1))
        };
        self.values.iter().min_by(nearer).map(|(policy, _)| *policy)
    }

    /// Whether all policies give the same figure to four digits, so that the drive's policy does not matter.
    pub fn is_point(&self) -> bool {
        self.highest() - self.lowest() <= 1e-4 * self.highest().abs()
    }
}

fn by_policy<S: Serializer>(values: &[(RmwPolicy, f64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(policy, value)| (policy, value)))
}

/// The policies that a drive may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// The policy of its profile, one of them.
    pub own: RmwPolicy,
    /// All of them.
    pub all: Vec<RmwPolicy>,
}

impl Policies {
    /// Returns those of a drive, or `None` if they make no difference on it.
    pub fn of(profile: &Profile) -> Option<Self> {
        let Body::Disk(disk) = &profile.body else { return None };
        let all = profile.plausible_policies();
        all.contains(&disk.rmw).then_some(Self { own: disk.rmw, all })
    }

    /// All but its own.
    pub fn others(&self) -> impl Iterator<Item = RmwPolicy> {
        self.all.iter().copied().filter(|policy| *policy != self.own)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use straddle_drive::Profile;
    use straddle_drive::profile::Body;

    use straddle_drive::disk::RmwPolicy::{self, Deferred, DestageSerial, ImmediateMerged};

    use super::{Band, Policies, open};

    #[test]
    fn a_band_explains_what_one_of_its_policies_gives() {
        let band = Band::new(vec![(Deferred, 3.0), (ImmediateMerged, 1.0), (DestageSerial, 2.0)]).unwrap();
        let explains = |published: f64| band.explains(|value| value / published - 1.0, 0.2);
        assert!(explains(1.0) && explains(3.0) && explains(2.51) && explains(3.7) && explains(0.84));
        // Between two of them, and beyond all.
        assert!(!explains(1.4) && !explains(0.8) && !explains(3.8));
        assert_eq!((band.nearest(2.2), band.nearest(100.0)), (Some(DestageSerial), Some(Deferred)));
        // As a ratio: 1.5 is 1.5 times 1 and 2 is 1.33 times 1.5.
        assert_eq!(band.nearest(1.5), Some(DestageSerial));
        assert!(
            !band.is_point() && Band::new(vec![(Deferred, 7.0), (DestageSerial, 7.0001)]).unwrap().is_point()
        );
        assert!(Band::new(Vec::new()).is_none());
    }

    #[test]
    fn nothing_but_the_policy_changes() {
        for name in ["wd10ears", "wd10ears,jumper=on", "wd20ears-lulf"] {
            let own = Profile::open(name).unwrap();
            // A log takes its sectors from the end of the medium.
            for policy in RmwPolicy::PLAUSIBLE.into_iter().filter(|policy| *policy != RmwPolicy::Logged) {
                let other = open(name, Some(policy), None).unwrap();
                let (Body::Disk(own_disk), Body::Disk(disk)) = (&own.body, &other.body) else { panic!() };
                assert_eq!(disk.rmw, policy);
                let mut same = disk.clone();
                same.rmw = own_disk.rmw;
                assert_eq!((&same, other.sectors, &other.claims), (own_disk, own.sectors, &own.claims));
            }
            assert_eq!(open(name, None, Some(1)).unwrap().interface.queue_depth, 1);
        }
    }

    #[test]
    fn a_drive_of_512_byte_sectors_and_one_of_flash_have_none() {
        let matter = |name: &str| Policies::of(&Profile::open(name).unwrap()).is_some();
        assert!(matter("wd10ears") && !matter("640gb-512n") && !matter("qlc-16k"));
    }
}
