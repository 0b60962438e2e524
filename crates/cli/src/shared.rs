//! The result of a probe without anything that says whose drive it was: `probe --share` writes it, `drive compare`
//! reads it.

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_drive::Profile;
use straddle_measure::bench::{Clock, Modelled, Target, float};
use straddle_measure::probe::{Budget, Claims, Report, probe};
use straddle_units::ByteCount;

use crate::measured::read_written;
use crate::progress::Bar;
use crate::view::json::{Document, SchemaOf};

const MAX_FILE: u64 = 1 << 20;

/// What `straddle probe --share` writes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SharedReport<'a> {
    /// The drive's model, if it was added by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The clock by which all times were measured: `virtual` for a modelled drive.
    clock: Clock,
    /// The size of the drive in bytes.
    capacity_bytes: u64,
    #[serde(flatten)]
    report: &'a Report,
    /// Whether the drive reports a different unit from the one found; absent if that cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    misreports: Option<bool>,
    /// The time of a durable or sustained write off the boundaries, relative to one on them; absent if not
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_ratio: Option<f64>,
}

impl<'a> SharedReport<'a> {
    pub(crate) fn of(clock: Clock, capacity: u64, report: &'a Report) -> Self {
        Self {
            model: None,
            clock,
            capacity_bytes: capacity,
            report,
            misreports: report.misreports(),
            cost_ratio: report.cost(),
        }
    }

    pub(crate) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&Document::of(SchemaOf::ProbeShare, self))? + "\n")
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Shared {
    schema: u32,
    #[serde(default)]
    pub(crate) model: Option<String>,
    pub(crate) capacity_bytes: u64,
    unit: Found<Unit>,
    rotation: Found<Rotation>,
    rmw: Found<Rmw>,
    #[serde(default)]
    pub(crate) misreports: Option<bool>,
    #[serde(default)]
    pub(crate) cost_ratio: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Found<T> {
    #[serde(default = "Option::default")]
    value: Option<T>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Unit {
    pub(crate) size_bytes: u64,
    pub(crate) phase_bytes: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rotation {
    #[serde(rename = "period_ns")]
    Period(u64),
    None,
}

#[derive(Clone, Debug, Deserialize)]
struct Rmw {
    when: String,
}

impl Shared {
    pub(crate) fn unit(&self) -> Option<Unit> {
        self.unit.value
    }

    /// Returns the revolutions per minute; `None` if it does not rotate or that is not known.
    pub(crate) fn rpm(&self) -> Option<f64> {
        match self.rotation.value? {
            Rotation::Period(period) => Some(6e10 / float(period)).filter(|rpm| rpm.is_finite()),
            Rotation::None => None,
        }
    }

    pub(crate) fn rmw(&self) -> Option<&str> {
        self.rmw.value.as_ref().map(|rmw| rmw.when.as_str())
    }

    /// The product of the factors by which the unit, the revolutions, the cost and the capacity differ; 1 if nothing
    /// differs. One of these that only one drive has counts as a factor of two, as do another first boundary and
    /// another kind of read-modify-write.
    pub(crate) fn apart(&self, other: &Self) -> f64 {
        let both = |of: fn(&Self) -> Option<f64>| match (of(self), of(other)) {
            (Some(one), Some(other)) if one > 0.0 && other > 0.0 => (one / other).max(other / one),
            (None, None) => 1.0,
            _ => 2.0,
        };
        let differs = |differs: bool| if differs { 2.0 } else { 1.0 };
        let phase = |shared: &Self| shared.unit().map(|unit| unit.phase_bytes);
        both(|shared| shared.unit().map(|unit| float(unit.size_bytes)))
            * both(Self::rpm)
            * both(|shared| shared.cost_ratio)
            * both(|shared| Some(float(shared.capacity_bytes)))
            * differs(phase(self) != phase(other))
            * differs(self.rmw() != other.rmw())
    }

    pub(crate) fn of(name: &str, profile: &Profile) -> Result<Self> {
        let mut drive = Modelled::new(name, profile);
        let report = probe(&mut drive, &Budget::default(), claims(profile), &mut Bar::new())?;
        let shared = SharedReport::of(Clock::Virtual, drive.capacity().get(), &report);
        Ok(serde_json::from_str(&shared.to_json()?)?)
    }
}

pub(crate) fn claims(profile: &Profile) -> Claims {
    let claims = &profile.claims;
    Claims {
        unit: Some(ByteCount::new(profile.claimed_unit())),
        phase: Some(ByteCount::new(claims.alignment_offset)),
        rotational: Some(claims.rotational),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SharedFile {
    pub(crate) name: String,
    pub(crate) shared: Shared,
}

pub(crate) fn load(path: &str) -> Result<SharedFile, String> {
    let shared: Shared = read_written(path, "--share", MAX_FILE)?;
    let reads = SchemaOf::ProbeShare.version();
    if shared.schema != reads {
        return Err(format!(
            "{path}: the file uses schema {}, but this version of straddle reads schema {reads}",
            shared.schema
        ));
    }
    Ok(SharedFile { name: path.to_owned(), shared })
}
