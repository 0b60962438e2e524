//! What `probe --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_bench::Description;
use straddle_probe::{Confidence, Finding, PhaseScan, Report, Rmw, RmwCost, Rotation, WriteCache};
use straddle_units::Boundary;

/// The version of this form. It increases when a field changes its meaning or is removed, not when one is
/// added.
pub(super) const SCHEMA: u32 = 1;

/// What `straddle probe --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle probe")]
pub(crate) struct ProbeReport {
    /// The version of this form.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The target as it was named.
    target: String,
    /// Maker, model, size.
    title: String,
    /// Seed of every random choice.
    seed: u64,
    /// Bytes of a logical sector.
    logical_sector_bytes: u64,
    /// Bytes written.
    written_bytes: u64,
    /// Requests sent.
    requests: u64,
    /// The time that it took, the target's own, in nanoseconds.
    elapsed_ns: u64,
    /// What can be written without being read first.
    unit: FindingReport<UnitReport>,
    /// The rotation.
    rotation: FindingReport<RotationReport>,
    /// The write cache.
    write_cache: FindingReport<CacheReport>,
    /// What partly written units cost.
    rmw: FindingReport<RmwReport>,
    /// How long a part of a unit waits for its rest, in seconds.
    merge_window_seconds: FindingReport<Seconds>,
    /// How many writes to different units the cache takes.
    cached_writes: FindingReport<Count>,
    /// What the drive claims.
    claims: ClaimsReport,
    /// Whether it claims something else than was found; absent where that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    misreports: Option<bool>,
    /// The phase scans.
    scans: Vec<ScanReport>,
}

/// Something found, or why not.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Finding")]
struct FindingReport<T> {
    /// What was found; absent if it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<T>,
    /// How sure that is.
    confidence: ConfidenceReport,
    /// From what it follows, or why it cannot be told.
    why: String,
}

/// A time.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct Seconds(f64);

/// A number of things.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct Count(u64);

/// How sure a finding is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Confidence")]
enum ConfidenceReport {
    /// It cannot be told.
    None,
    /// The evidence points to it.
    Low,
    /// The evidence would be surprising if it were otherwise.
    Medium,
    /// Independent tests agree.
    High,
}

/// Units and where they begin.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unit")]
struct UnitReport {
    /// Bytes.
    size_bytes: u64,
    /// The first byte of the drive at which a unit begins.
    phase_bytes: u64,
}

/// The rotation.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rotation")]
struct RotationReport {
    /// Nanoseconds of a revolution; absent if it does not turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    period_ns: Option<u64>,
}

/// The write cache.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "WriteCache")]
enum CacheReport {
    /// Writes wait for the medium.
    None,
    /// Writes do not wait; a flush does.
    Volatile,
    /// Neither waits: the cache is protected, or the drive lies.
    Unflushed,
}

/// What partly written units cost.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ReadModifyWrite")]
struct RmwReport {
    /// When they are completed.
    when: WhenReport,
    /// Seconds that a durable write takes longer with one of them.
    one_unit_seconds: f64,
    /// Seconds with two of them.
    two_units_seconds: f64,
}

/// When partly written units are completed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "When")]
enum WhenReport {
    /// There are none.
    Never,
    /// Before the write is complete.
    Immediate,
    /// When the cache is emptied.
    Deferred,
}

/// What the drive claims.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Claims")]
struct ClaimsReport {
    /// Bytes of a unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_bytes: Option<u64>,
    /// The first byte at which one begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_bytes: Option<u64>,
    /// Whether it turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotational: Option<bool>,
}

/// Durable writes of one size at each phase.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Scan")]
struct ScanReport {
    /// Bytes of each write.
    size_bytes: u64,
    /// Distance of the phases in bytes.
    step_bytes: u64,
    /// Seconds of each write, by phase.
    write_seconds: Vec<Vec<f64>>,
}

impl ProbeReport {
    pub(crate) fn of(target: &Description, report: &Report) -> Self {
        let claims = &report.claims;
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: target.name.clone(),
            title: target.title.clone(),
            seed: report.seed,
            logical_sector_bytes: report.logical,
            written_bytes: report.written,
            requests: report.requests,
            elapsed_ns: report.elapsed.get(),
            unit: finding(&report.unit, unit),
            rotation: finding(&report.rotation, rotation),
            write_cache: finding(&report.cache, cache),
            rmw: finding(&report.rmw, rmw),
            merge_window_seconds: finding(&report.merge, Seconds),
            cached_writes: finding(&report.depth, Count),
            claims: ClaimsReport {
                unit_bytes: claims.unit,
                phase_bytes: claims.phase,
                rotational: claims.rotational,
            },
            misreports: report.misreports(),
            scans: report.scans.iter().map(scan).collect(),
        }
    }
}

fn finding<T: Copy, R>(finding: &Finding<T>, convert: impl Fn(T) -> R) -> FindingReport<R> {
    let confidence = match finding.confidence {
        Confidence::None => ConfidenceReport::None,
        Confidence::Low => ConfidenceReport::Low,
        Confidence::Medium => ConfidenceReport::Medium,
        Confidence::High => ConfidenceReport::High,
    };
    FindingReport { value: finding.value.map(convert), confidence, why: finding.why.clone() }
}

fn unit(unit: Boundary) -> UnitReport {
    UnitReport { size_bytes: unit.size().get(), phase_bytes: unit.phase().get() }
}

fn rotation(rotation: Rotation) -> RotationReport {
    match rotation {
        Rotation::Period(period) => RotationReport { period_ns: Some(period.get()) },
        Rotation::None => RotationReport { period_ns: None },
    }
}

fn cache(cache: WriteCache) -> CacheReport {
    match cache {
        WriteCache::None => CacheReport::None,
        WriteCache::Volatile => CacheReport::Volatile,
        WriteCache::Unflushed => CacheReport::Unflushed,
    }
}

fn rmw(cost: RmwCost) -> RmwReport {
    let when = match cost.when {
        Rmw::None => WhenReport::Never,
        Rmw::Immediate => WhenReport::Immediate,
        Rmw::Deferred => WhenReport::Deferred,
    };
    RmwReport { when, one_unit_seconds: cost.one, two_units_seconds: cost.two }
}

fn scan(scan: &PhaseScan) -> ScanReport {
    ScanReport { size_bytes: scan.size, step_bytes: scan.step, write_seconds: scan.times.clone() }
}
