//! What `probe --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_measure::bench::Description;
use straddle_measure::probe::{Confidence, Finding, PhaseScan, Report, Rmw, RmwCost, Rotation, WriteCache};
use straddle_units::{Boundary, ByteCount};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(super) const SCHEMA: u32 = 1;

/// What `straddle probe --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle probe")]
pub(crate) struct ProbeReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The target as named on the command line.
    target: String,
    /// Manufacturer, model and size.
    title: String,
    /// What to know of the figures: what was measured if the target is a file.
    notes: Vec<String>,
    /// The seed of all random choices.
    seed: u64,
    /// The logical sector size in bytes.
    logical_sector_bytes: u64,
    /// The number of bytes written.
    written_bytes: u64,
    /// The number of requests sent.
    requests: u64,
    /// The duration on the target's clock, in nanoseconds.
    elapsed_ns: u64,
    /// The smallest unit that is written without a read-modify-write.
    unit: FindingReport<UnitReport>,
    /// The rotation.
    rotation: FindingReport<RotationReport>,
    /// The write cache.
    write_cache: FindingReport<CacheReport>,
    /// The cost of writing part of a unit.
    rmw: FindingReport<RmwReport>,
    /// How long a partly written unit waits for the rest before it is completed by reading, in seconds; 0 if
    /// it does not wait.
    merge_window_seconds: FindingReport<Seconds>,
    /// The number of unflushed writes to different units that the cache takes before writes become slow.
    cached_writes: FindingReport<Count>,
    /// What the drive reports.
    claims: ClaimsReport,
    /// Whether the drive reports another unit than was found; absent if that cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    misreports: Option<bool>,
    /// The phase scans.
    scans: Vec<ScanReport>,
}

/// A result, or why there is none.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Finding")]
struct FindingReport<T> {
    /// The result; absent if it could not be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<T>,
    /// The confidence in the result.
    confidence: ConfidenceReport,
    /// The evidence for the result, or why it could not be determined.
    why: String,
}

/// A time in seconds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct Seconds(f64);

/// A number.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct Count(u64);

/// The confidence in a result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Confidence")]
enum ConfidenceReport {
    /// There is no result.
    None,
    /// The evidence points to it.
    Low,
    /// The evidence would be surprising if it were wrong.
    Medium,
    /// Independent tests agree.
    High,
}

/// A unit and its alignment.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unit")]
struct UnitReport {
    /// The size in bytes.
    size_bytes: u64,
    /// The offset of the first unit boundary on the drive, in bytes.
    phase_bytes: u64,
}

/// The rotation.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rotation")]
struct RotationReport {
    /// The duration of a revolution in nanoseconds; absent if the medium does not rotate.
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
    /// Writes do not wait for the medium; flushes do.
    Volatile,
    /// Neither waits: the cache is protected against power loss, or the drive ignores flushes.
    Unflushed,
}

/// The cost of writing part of a unit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ReadModifyWrite")]
struct RmwReport {
    /// When the read-modify-write is done.
    when: WhenReport,
    /// How much longer a durable write takes if it has one partial unit, in seconds.
    one_unit_seconds: f64,
    /// How much longer it takes with two partial units, in seconds.
    two_units_seconds: f64,
}

/// When the read-modify-write is done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "When")]
enum WhenReport {
    /// Never: the unit is the logical sector, so no unit is written in part.
    Never,
    /// As part of the write.
    Immediate,
    /// When the write cache is destaged.
    Deferred,
}

/// What the drive reports. A value that it does not report is absent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Claims")]
struct ClaimsReport {
    /// The unit in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_bytes: Option<u64>,
    /// The offset of the first unit boundary, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_bytes: Option<u64>,
    /// Whether the medium rotates.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotational: Option<bool>,
}

/// The times of durable writes of one size at each phase.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Scan")]
struct ScanReport {
    /// The size of each write in bytes.
    size_bytes: u64,
    /// The distance between phases in bytes.
    step_bytes: u64,
    /// The duration of each write in seconds, by phase.
    write_seconds: Vec<Vec<f64>>,
}

impl ProbeReport {
    pub(crate) fn of(target: &Description, report: &Report, notes: &[String]) -> Self {
        let claims = &report.claims;
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: target.name.clone(),
            title: target.title.clone(),
            notes: notes.to_vec(),
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
                unit_bytes: claims.unit.map(ByteCount::get),
                phase_bytes: claims.phase.map(ByteCount::get),
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
