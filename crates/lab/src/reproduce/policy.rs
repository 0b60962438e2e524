//! What is not known of a drive: how its firmware writes a part of a physical sector. A policy replaces the
//! profile's own and changes no other number.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use straddle_drive::disk::RmwPolicy;
use straddle_drive::profile::Body;
use straddle_drive::{Profile, ProfileError};

use crate::reproduce::experiment::{Access, Experiment, ExperimentError, Step};

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

/// What the plausible policies give for one figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Band {
    /// Each policy's figure, in the order of [`Profile::plausible_policies`].
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

    /// Whether one of the policies gives a figure whose error is at most `limit`. That the published figure lies
    /// between two of them is not enough.
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

/// One policy for all figures of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Choice {
    /// The drive, a profile's name.
    pub drive: String,
    /// The policy in its profile.
    pub own: RmwPolicy,
    /// The number of figures and ratios that decide.
    pub figures: usize,
    /// Whether they are those of programs that reached the drive directly.
    pub raw: bool,
    /// The worst error with each policy, as a share of the published figure.
    #[serde(serialize_with = "by_policy")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub worst: Vec<(RmwPolicy, f64)>,
    /// The policy with the least worst error; `None` if no figure tells them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<RmwPolicy>,
}

/// Chooses a policy for each drive of the experiments, or for `only`: the one with the least worst error over the
/// drive's published figures and their ratios. If a program reached the drive directly, only such figures decide.
pub fn choose(experiments: &[Experiment], only: Option<&str>) -> Result<Vec<Choice>, ExperimentError> {
    let mut drives: Vec<String> = Vec::new();
    let steps = || experiments.iter().flat_map(|experiment| &experiment.steps);
    for step in steps().filter(|step| step.arms.iter().any(|arm| !arm.published.is_empty())) {
        let name = base(&step.drive).to_owned();
        if !drives.contains(&name) && only.is_none_or(|only| base(only) == name) {
            drives.push(name);
        }
    }
    let mut choices = Vec::new();
    for drive in drives {
        let failed = |source| ExperimentError::Drive {
            name: drive.clone(),
            step: "policy".to_owned(),
            source: Box::new(source),
        };
        let profile = Profile::open(&drive).map_err(failed)?;
        let Some(Policies { own, all }) = Policies::of(&profile) else { continue };
        let is_raw = |step: &Step| step.access == Access::Raw;
        let has_raw = steps().any(|step| base(&step.drive) == drive && is_raw(step));
        let mut worst = Vec::new();
        let mut figures = 0;
        for policy in all {
            let mut errors = Vec::new();
            for experiment in experiments {
                let part = experiment
                    .clone()
                    .with_steps(|step| base(&step.drive) == drive && (!has_raw || is_raw(step)));
                let outcome = part.reproduce(None, &|name| open(name, Some(policy), None))?;
                errors.extend(outcome.judged().iter().map(|judged| judged.error().abs()));
            }
            figures = errors.len();
            worst.push((policy, errors.into_iter().fold(0.0, f64::max)));
        }
        let chosen = chosen(&worst, own);
        choices.push(Choice { drive, own, figures, raw: has_raw, worst, chosen });
    }
    Ok(choices)
}

/// Returns the policy with the least worst error, or the drive's own if that is as good; `None` if all are equal to a
/// thousandth.
fn chosen(worst: &[(RmwPolicy, f64)], own: RmwPolicy) -> Option<RmwPolicy> {
    let least = worst.iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let greatest = worst.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    let is_as_good = worst.iter().any(|(policy, error)| *policy == own && error - least.1 <= 0.001);
    (greatest - least.1 > 0.001).then_some(if is_as_good { own } else { least.0 })
}

/// Returns a drive's name without options.
fn base(specification: &str) -> &str {
    specification.split(',').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use straddle_drive::Profile;
    use straddle_drive::profile::Body;

    use straddle_drive::disk::RmwPolicy::{self, Deferred, DestageSerial, ImmediateMerged};

    use super::{Band, Policies, chosen, open};

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
    fn the_least_worst_error_decides_if_they_differ() {
        let worst = [(Deferred, 0.3), (ImmediateMerged, 0.1), (DestageSerial, 0.2)];
        assert_eq!(chosen(&worst, Deferred), Some(ImmediateMerged));
        assert_eq!(chosen(&[(Deferred, 0.1), (DestageSerial, 0.1005)], Deferred), None);
        let equal = [(Deferred, 0.3), (ImmediateMerged, 0.1), (DestageSerial, 0.1)];
        assert_eq!(chosen(&equal, DestageSerial), Some(DestageSerial));
    }

    #[test]
    fn nothing_but_the_policy_changes() {
        for name in ["wd10ears", "wd10ears,jumper=on", "wd20ears-lulf"] {
            let own = Profile::open(name).unwrap();
            for policy in RmwPolicy::PLAUSIBLE {
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
