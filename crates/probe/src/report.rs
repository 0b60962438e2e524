//! What was found, with its evidence.

use straddle_io::Nanos;
use straddle_units::Boundary;

use crate::scan::{Contrast, PhaseScan};
use crate::survey::Survey;
use crate::sustained::Sustained;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It cannot be told.
    None,
    /// The evidence points to it.
    Low,
    /// The evidence would be surprising if it were otherwise.
    Medium,
    /// Independent tests agree, each all but impossible by chance.
    High,
}

/// Something found, or why not.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding<T> {
    /// What was found; `None` if it cannot be told.
    pub value: Option<T>,
    /// How sure that is.
    pub confidence: Confidence,
    /// From what it follows, or why it cannot be told: a sentence without its full stop.
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

/// Whether it turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rotation {
    /// It does, in this time.
    Period(Nanos),
    /// It does not.
    None,
}

/// Where a write is when the host is told, and what a flush does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// Writes wait for the medium.
    None,
    /// Writes do not wait; a flush does.
    Volatile,
    /// Neither writes nor flushes wait: the cache survives a power cut, or the drive lies. Time alone cannot tell which.
    Unflushed,
}

/// What the drive does about a unit of which a part is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rmw {
    /// No unit can be written in part.
    None,
    /// The host waits for it with each write.
    Immediate,
    /// It is done when the cache is emptied.
    Deferred,
}

/// What partly written units cost, by the seconds of durable writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmwCost {
    /// When it is done.
    pub when: Rmw,
    /// How much longer a write takes with one partial unit, and with two, in seconds.
    pub one: f64,
    /// The same with two, in seconds.
    pub two: f64,
}

/// What the drive says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The physical sector, or the preferred minimum of an SSD, in bytes.
    pub unit: Option<u64>,
    /// The first byte at which one begins.
    pub phase: Option<u64>,
    /// Whether it turns.
    pub rotational: Option<bool>,
}

/// What a probe has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Seed of every random choice.
    pub seed: u64,
    /// The logical sector in bytes.
    pub logical: u64,
    /// Bytes written.
    pub written: u64,
    /// Requests sent.
    pub requests: u64,
    /// The time it took, the target's own.
    pub elapsed: Nanos,
    /// The unit that can be written without being read first, and where units begin.
    pub unit: Finding<Boundary>,
    /// The rotation.
    pub rotation: Finding<Rotation>,
    /// The write cache.
    pub cache: Finding<WriteCache>,
    /// The cost of partly written units.
    pub rmw: Finding<RmwCost>,
    /// How long a partly written unit waits for its rest, in seconds; zero if it does not.
    pub merge: Finding<f64>,
    /// How many unflushed writes to different units the cache takes before writes become slow.
    pub depth: Finding<u64>,
    /// What requests took.
    pub survey: Survey,
    /// The phase scans.
    pub scans: Vec<PhaseScan>,
    /// The proof of the unit by single writes.
    pub proof: Option<Contrast>,
    /// The proof by sustained writes.
    pub sustained: Option<Sustained>,
    /// What the drive claims.
    pub claims: Claims,
}

impl Report {
    /// Whether the drive claims something else than was found; none where that cannot be told.
    pub fn misreports(&self) -> Option<bool> {
        let found = self.unit.value?;
        let unit = self.claims.unit.map(|unit| unit != found.size().get());
        let phase = self.claims.phase.map(|phase| phase != found.phase().get());
        match (unit, phase) {
            (None, None) => None,
            (unit, phase) => Some(unit.unwrap_or(false) || phase.unwrap_or(false)),
        }
    }
}
