//! What `trace --json` prints.

use crate::{Account, Coalesced, Effect, Format, Histogram, SECTOR, Size, Volume, Window};
use schemars::JsonSchema;
use serde::Serialize;

/// What `straddle trace --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TraceReport {
    /// The traces that were read.
    files: Vec<TraceFile>,
    /// The number of lines that are not requests: headers, and events of other kinds.
    other_lines: u64,
    /// The time from the first request to the last in the file that covers the longest time, in nanoseconds;
    /// absent if times were not read, as for a Parquet file whose requests are only counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    span_ns: Option<u64>,
    /// The start of the partition from which the offsets in the trace count, in sectors of 512 bytes.
    started_at_sectors: u64,
    /// The longest time, in nanoseconds, for which a write is held to be merged with others; only with
    /// `--merge-within`.
    #[serde(skip_serializing_if = "Option::is_none")]
    merge_within_ns: Option<u64>,
    /// The number of requests whose time is earlier than that of the preceding request, and which are merged
    /// as if they had its time; only with `--merge-within`.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_requests: Option<u64>,
    /// The requests to all volumes together.
    total: VolumeReport,
    /// The requests to each volume, in order of the volumes' names.
    volumes: Vec<VolumeReport>,
}

/// A trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "File")]
pub struct TraceFile {
    /// The trace as named on the command line.
    pub name: String,
    /// The format, by its name for `--format`; absent if the trace is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub format: Option<Format>,
}

/// The requests to a volume.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Volume")]
struct VolumeReport {
    /// The name of the volume; absent for all volumes together, and if the trace does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The reads from the volume.
    reads: OperationReport,
    /// The writes to the volume.
    writes: OperationReport,
    /// The discards sent to the volume.
    discards: OperationReport,
    /// The number of flushes sent to the volume.
    flushes: u64,
}

/// The requests of one kind: reads, writes or discards.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Requests")]
struct OperationReport {
    /// The number of requests.
    requests: u64,
    /// The number of bytes in the sectors that the requests touch.
    bytes: u64,
    /// The number of requests that do not begin and end on 512-byte sector boundaries. They are counted as
    /// requests for all the sectors that they touch.
    off_sector_requests: u64,
    /// The requests by length, the shortest first.
    sizes: Vec<SizeReport>,
    /// The effect of the requests on units of each size.
    units: Vec<UnitReport>,
}

/// The requests of one length.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Size")]
struct SizeReport {
    /// The length, rounded out to sectors of 512 bytes; absent for the class of all requests of 2 MiB or
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    length_bytes: Option<u64>,
    /// The number of requests.
    requests: u64,
    /// The total number of bytes of these requests.
    bytes: u64,
}

/// The effect of requests on units of one size, with each request counted separately.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unit")]
struct UnitReport {
    /// The size of the units in bytes.
    unit_bytes: u64,
    /// With the specified start.
    #[serde(flatten)]
    effect: EffectReport,
    /// The start with the fewest partly covered units; only with `--best`.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestReport>,
    /// The effect behind a cache that holds each write for some time; only for writes, and only with
    /// `--merge-within`.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<MergedReport>,
}

/// The effect of writes on units behind a cache that merges them.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Merged")]
struct MergedReport {
    /// The number of units that are written.
    written_units: u64,
    /// The number of `written_units` that the merged writes cover only partly: each costs a
    /// read-modify-write.
    partial_units: u64,
    /// The number of `written_units` that were written early because the cache was full. If it is not 0, a
    /// larger cache would write fewer units.
    early_units: u64,
    /// The bytes of the units written, relative to those of the requests; absent if there are no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    amplification: Option<f64>,
}

/// The effect of requests on units counted from one start.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Effect")]
struct EffectReport {
    /// The number of requests that do not begin and end on boundaries of units.
    misaligned_requests: u64,
    /// The number of requests that touch one more unit than their length requires.
    straddling_requests: u64,
    /// The number of requests that begin inside a unit.
    partial_head_requests: u64,
    /// The number of requests that end inside a unit.
    partial_tail_requests: u64,
    /// The number of units that requests cover only partly. For writes, each costs a read-modify-write.
    partial_units: u64,
    /// The number of units that requests touch, counted once per request.
    touched_units: u64,
    /// The bytes of the units touched, relative to those of the requests: for writes, the write amplification
    /// if nothing is merged. Absent if there are no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    amplification: Option<f64>,
}

/// The start with the fewest partly covered units.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Best")]
struct BestReport {
    /// The start in sectors of 512 bytes, modulo the unit size.
    started_at_sectors: u64,
    /// With this start.
    #[serde(flatten)]
    effect: EffectReport,
}

/// The requests of traces, to be reported.
pub struct Counted<'a> {
    /// The traces that were read.
    pub files: &'a [TraceFile],
    /// What was counted.
    pub account: &'a Account,
    /// The requests to all volumes together.
    pub total: Volume,
    /// The sizes of units in sectors.
    pub units: &'a [u64],
    /// The start in sectors.
    pub start: u64,
    /// Whether the best start is reported.
    pub best: bool,
    /// The window behind which writes were merged.
    pub window: Option<&'a Window>,
}

impl TraceReport {
    /// Reports what was counted.
    pub fn of(counted: &Counted<'_>) -> Self {
        let volume = |(name, volume)| volume_report(counted, Some(name), volume);
        Self {
            files: counted.files.to_vec(),
            other_lines: counted.account.others(),
            span_ns: counted.account.span().map(straddle_units::io::Time::get),
            started_at_sectors: counted.start,
            merge_within_ns: counted.window.map(|window| window.within.get()),
            late_requests: counted.window.map(|_| counted.account.late()),
            total: volume_report(counted, None, &counted.total),
            volumes: counted.account.volumes().map(volume).collect(),
        }
    }
}

fn volume_report(counted: &Counted<'_>, name: Option<&str>, volume: &Volume) -> VolumeReport {
    VolumeReport {
        name: name.filter(|name| !name.is_empty()).map(str::to_owned),
        reads: operation(counted, &volume.reads, &[]),
        writes: operation(counted, &volume.writes, &volume.coalesced),
        discards: operation(counted, &volume.discards, &[]),
        flushes: volume.flushes,
    }
}

fn operation(counted: &Counted<'_>, histogram: &Histogram, coalesced: &[Coalesced]) -> OperationReport {
    let unit = |unit: &u64| {
        let effects = histogram.effects(*unit)?;
        let best = counted.best.then(|| {
            let (start, effect) = effects.best();
            BestReport { started_at_sectors: start, effect: effect_report(&effect) }
        });
        let effect = effect_report(&effects.started_at(counted.start));
        let merged = coalesced.iter().find(|coalesced| coalesced.unit == *unit).map(|merged| MergedReport {
            written_units: merged.written,
            partial_units: merged.partial,
            early_units: merged.early,
            amplification: merged.amplification(histogram.sectors()),
        });
        Some(UnitReport { unit_bytes: unit * SECTOR, effect, best, merged })
    };
    let size = |size: Size| SizeReport {
        length_bytes: size.sectors.map(|sectors| sectors * SECTOR),
        requests: size.requests,
        bytes: whole(size.total * u128::from(SECTOR)),
    };
    OperationReport {
        requests: histogram.requests(),
        bytes: whole(histogram.sectors() * u128::from(SECTOR)),
        off_sector_requests: histogram.inexact(),
        sizes: histogram.sizes().into_iter().map(size).collect(),
        units: counted.units.iter().filter_map(unit).collect(),
    }
}

fn effect_report(effect: &Effect) -> EffectReport {
    EffectReport {
        misaligned_requests: effect.misaligned,
        straddling_requests: effect.straddling,
        partial_head_requests: effect.heads,
        partial_tail_requests: effect.tails,
        partial_units: effect.partial,
        touched_units: whole(effect.touched),
        amplification: effect.amplification(),
    }
}

fn whole(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
