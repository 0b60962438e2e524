//! The findings of a probe, with their evidence.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::io::Nanos;
use straddle_units::{Boundary, ByteCount};

use crate::probe::scan::{Contrast, PhaseScan};
use crate::probe::sustained::Sustained;

/// How certain a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The value cannot be determined.
    None,
    /// The evidence points to the value.
    Low,
    /// The evidence would be surprising if the value were wrong.
    Medium,
    /// Independent tests agree, and each result is almost impossible by chance.
    High,
}

/// A finding, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Finding<T> {
    /// The value found; absent if it cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// How certain the value is.
    pub confidence: Confidence,
    /// The evidence, or why it cannot be determined, as a sentence without its full stop.
    pub why: String,
}

impl<T> Finding<T> {
    pub(crate) fn of(value: T, confidence: Confidence, why: impl Into<String>) -> Self {
        Self { value: Some(value), confidence, why: why.into() }
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { value: None, confidence: Confidence::None, why: why.into() }
    }
}

/// Whether the medium rotates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rotation {
    /// The medium rotates, with this period in nanoseconds.
    #[serde(rename = "period_ns")]
    Period(Nanos),
    /// The medium does not rotate.
    None,
}

/// Whether a completed write is on the medium or in a cache, and what a flush does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// Writes wait for the medium.
    None,
    /// Writes do not wait for the medium; a flush does.
    Volatile,
    /// Neither writes nor flushes wait: either the cache survives a power cut, or the drive misreports
    /// completion. Timing cannot tell which.
    Unflushed,
}

/// How the drive handles a partly written unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rmw {
    /// No unit can be partly written, because the unit is the logical sector.
    None,
    /// The read-modify-write is part of each write, and the host waits for it.
    Immediate,
    /// The read-modify-write is done later, when the cache is emptied.
    Deferred,
}

/// The cost of partly written units, measured by durable writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RmwCost {
    /// When the read-modify-write is done.
    pub when: Rmw,
    /// How much longer a write with one partial unit takes, in seconds.
    #[serde(rename = "one_unit_seconds")]
    pub one: f64,
    /// How much longer a write with two partial units takes, in seconds.
    #[serde(rename = "two_units_seconds")]
    pub two: f64,
}

/// What the drive reports. A value that it does not report is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claims {
    /// The size of the physical sector; for an SSD, of the preferred minimum write.
    #[serde(rename = "unit_bytes", skip_serializing_if = "Option::is_none")]
    pub unit: Option<ByteCount>,
    /// The offset of the first unit boundary.
    #[serde(rename = "phase_bytes", skip_serializing_if = "Option::is_none")]
    pub phase: Option<ByteCount>,
    /// Whether the medium rotates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The seed of all random choices.
    pub seed: u64,
    /// The logical sector size in bytes.
    #[serde(rename = "logical_sector_bytes")]
    pub logical: u64,
    /// The number of bytes written.
    #[serde(rename = "written_bytes")]
    pub written: u64,
    /// The number of requests sent.
    pub requests: u64,
    /// The duration of the probe on the target's clock, in nanoseconds.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// The smallest unit that is written without being read first, and where units begin.
    pub unit: Finding<Boundary>,
    /// Whether the medium rotates, and how fast.
    pub rotation: Finding<Rotation>,
    /// Whether writes and flushes wait for the medium.
    #[serde(rename = "write_cache")]
    pub cache: Finding<WriteCache>,
    /// The cost of partly written units.
    pub rmw: Finding<RmwCost>,
    /// How long, in seconds, the drive waits for the rest of a partly written unit before reading that rest
    /// from the medium; zero if it does not wait.
    #[serde(rename = "merge_window_seconds")]
    pub merge: Finding<f64>,
    /// The number of unflushed writes to different units that the cache holds before writes become slow.
    #[serde(rename = "cached_writes")]
    pub depth: Finding<u64>,
    /// The phase scans.
    pub scans: Vec<PhaseScan>,
    /// The proof of the unit by single writes, if there is one.
    #[serde(skip)]
    pub proof: Option<Contrast>,
    /// The proof of the unit by sustained writes, if there is one.
    #[serde(skip)]
    pub sustained: Option<Sustained>,
    /// What the drive reports.
    pub claims: Claims,
}

impl Report {
    /// How many times as long a durable write off the boundaries takes, or a sustained one if these found the unit.
    pub fn cost(&self) -> Option<f64> {
        let sustained = || self.sustained.as_ref().and_then(Sustained::cost);
        self.proof.as_ref().map(Contrast::ratio).or_else(sustained)
    }

    /// Whether the claims differ from the findings; `None` if that cannot be determined.
    pub fn misreports(&self) -> Option<bool> {
        let found = self.unit.value?;
        let unit = self.claims.unit.map(|unit| unit != found.size());
        let phase = self.claims.phase.map(|phase| phase != found.phase());
        match (unit, phase) {
            (None, None) => None,
            (unit, phase) => Some(unit.unwrap_or(false) || phase.unwrap_or(false)),
        }
    }
}
