//! What `trace --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_trace::{Account, Effect, Format, Histogram, SECTOR, Volume};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle trace --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle trace")]
pub(crate) struct TraceReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The traces that were read.
    files: Vec<FileReport>,
    /// The number of lines that are no requests: headers, and events of other kinds.
    other_lines: u64,
    /// The time from the first request of a file to its last, in nanoseconds, in the longest file.
    span_ns: u64,
    /// The start that the offsets are counted from, in sectors of 512 bytes.
    started_at_sectors: u64,
    /// All volumes together.
    total: VolumeReport,
    /// The volumes by name, in order.
    volumes: Vec<VolumeReport>,
}

/// A trace.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "File")]
struct FileReport {
    /// The trace as named on the command line.
    name: String,
    /// The format, by its name for `--format`; absent if the trace is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
}

/// What is asked of a volume.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Volume")]
struct VolumeReport {
    /// Its name; absent for all volumes together, and if the trace does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Its reads.
    reads: OperationReport,
    /// Its writes.
    writes: OperationReport,
    /// Its discards.
    discards: OperationReport,
    /// The number of its flushes.
    flushes: u64,
}

/// The requests of one operation.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Requests")]
struct OperationReport {
    /// The number of requests.
    requests: u64,
    /// The number of bytes of the sectors that they touch.
    bytes: u64,
    /// The number of requests that do not begin and end on sectors of 512 bytes. They count with the sectors they
    /// touch.
    off_sector_requests: u64,
    /// What they do to units of each size.
    units: Vec<UnitReport>,
}

/// What requests do to units of one size, each request alone.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unit")]
struct UnitReport {
    /// The size of the unit.
    unit_bytes: u64,
    /// With the start given.
    #[serde(flatten)]
    effect: EffectReport,
    /// The start with the fewest units covered in part; with `--best`.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestReport>,
}

/// What requests do to units from one start.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Effect")]
struct EffectReport {
    /// Requests that do not begin and end on boundaries of units.
    misaligned_requests: u64,
    /// Requests that touch a unit more than their length needs.
    straddling_requests: u64,
    /// Units that a request covers in part. For a write, each is a read-modify-write.
    partial_units: u64,
    /// Units that requests touch, each counted once for each request.
    touched_units: u64,
    /// The bytes of the units touched relative to the bytes of the requests: for writes the write amplification,
    /// if nothing is merged. Absent if there are no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    amplification: Option<f64>,
}

/// The start with the fewest units covered in part.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Best")]
struct BestReport {
    /// The start in sectors of 512 bytes, modulo the unit.
    started_at_sectors: u64,
    /// With this start.
    #[serde(flatten)]
    effect: EffectReport,
}

/// A trace that was read.
pub(crate) struct TraceFile {
    pub(crate) name: String,
    pub(crate) format: Option<Format>,
}

/// The requests of traces, to be reported.
pub(crate) struct Counted<'a> {
    pub(crate) files: &'a [TraceFile],
    pub(crate) account: &'a Account,
    /// All volumes together.
    pub(crate) total: Volume,
    /// The sizes of units in sectors.
    pub(crate) units: &'a [u64],
    /// The start in sectors.
    pub(crate) start: u64,
    pub(crate) best: bool,
}

impl TraceReport {
    pub(crate) fn of(counted: &Counted<'_>) -> Self {
        let volume = |(name, volume)| volume_report(counted, Some(name), volume);
        let files = counted.files.iter();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            files: files
                .map(|file| FileReport { name: file.name.clone(), format: file.format.map(Format::name) })
                .collect(),
            other_lines: counted.account.others(),
            span_ns: counted.account.span().get(),
            started_at_sectors: counted.start,
            total: volume_report(counted, None, &counted.total),
            volumes: counted.account.volumes().map(volume).collect(),
        }
    }
}

fn volume_report(counted: &Counted<'_>, name: Option<&str>, volume: &Volume) -> VolumeReport {
    VolumeReport {
        name: name.filter(|name| !name.is_empty()).map(str::to_owned),
        reads: operation(counted, &volume.reads),
        writes: operation(counted, &volume.writes),
        discards: operation(counted, &volume.discards),
        flushes: volume.flushes,
    }
}

fn operation(counted: &Counted<'_>, histogram: &Histogram) -> OperationReport {
    let unit = |unit: &u64| {
        let effects = histogram.effects(*unit)?;
        let best = counted
            .best
            .then(|| effects.best())
            .map(|(start, effect)| BestReport { started_at_sectors: start, effect: effect_report(&effect) });
        let effect = effect_report(&effects.started_at(counted.start));
        Some(UnitReport { unit_bytes: unit * SECTOR, effect, best })
    };
    OperationReport {
        requests: histogram.requests(),
        bytes: whole(histogram.sectors() * u128::from(SECTOR)),
        off_sector_requests: histogram.inexact(),
        units: counted.units.iter().filter_map(unit).collect(),
    }
}

fn effect_report(effect: &Effect) -> EffectReport {
    EffectReport {
        misaligned_requests: effect.misaligned,
        straddling_requests: effect.straddling,
        partial_units: effect.partial,
        touched_units: whole(effect.touched),
        amplification: effect.amplification(),
    }
}

/// Returns a count as JSON's readers take it.
fn whole(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
