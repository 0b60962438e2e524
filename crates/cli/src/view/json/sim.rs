//! What `sim --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_trace::{Format, Pace, Reader, Replayed, Replays, TraceError};

use super::bench::{CountersReport, LatencyReport, counters, latency};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle sim --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle sim")]
pub(crate) struct SimReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The trace.
    trace: TraceReport,
    /// The drive on which it was replayed. All times are the model's.
    drive: DriveReport,
    /// One run for each shift, in the order of the shifts, each on a fresh drive.
    runs: Vec<RunReport>,
}

/// A trace.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Trace")]
struct TraceReport {
    /// The trace as named on the command line.
    name: String,
    /// The format, by its name for `--format`; absent if the trace is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
}

/// A modelled drive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Drive")]
struct DriveReport {
    /// The drive as named on the command line.
    name: String,
    /// Manufacturer, model and size.
    title: String,
    /// The size in bytes.
    capacity_bytes: u64,
    /// The logical sector size in bytes.
    logical_sector_bytes: u64,
    /// The true physical sector (or indirection unit) in bytes, whatever the drive reports.
    physical_sector_bytes: u64,
}

/// A replay with one shift.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunReport {
    /// The number of bytes added to every offset.
    shift_bytes: u64,
    /// When requests were sent.
    pace: PaceReport,
    /// The maximum number of requests at the drive at a time.
    queue_depth: u32,
    /// The number of requests of all kinds.
    requests: u64,
    /// The number of bytes read and written.
    bytes: u64,
    /// The number of discards among the requests.
    discards: u64,
    /// The number of discards that were left out because the drive has no such command.
    ignored_discards: u64,
    /// The number of requests that arrive earlier than one before them: they were replayed as of that one's time.
    late_requests: u64,
    /// The number of requests that do not begin and end on sectors of 512 bytes: they were replayed on all sectors that
    /// they touch.
    off_sector_requests: u64,
    /// The number of requests that were moved to the beginning of the drive because they extended past its
    /// end.
    wrapped_requests: u64,
    /// The number of reads and writes that do not begin and end at boundaries of the true physical sectors.
    misaligned_requests: u64,
    /// The same as a fraction of all reads and writes; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    misaligned_share: Option<f64>,
    /// The time from the first arrival to the last completion, in nanoseconds.
    elapsed_ns: u64,
    /// The sum of the latencies of reads, writes and flushes, in nanoseconds.
    busy_ns: u64,
    /// `busy_ns` relative to the first run. If one of the two diverges, it depends on the length of the
    /// trace.
    ratio: f64,
    /// Whether the drive cannot keep up with the times of the trace, so that requests wait longer and longer.
    diverges: bool,
    /// The time from the last arrival to the last completion, in nanoseconds; in the open loop.
    behind_ns: u64,
    /// Reads, timed from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<KindReport>,
    /// Writes, timed from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<KindReport>,
    /// Flushes, timed from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    flushes: Option<KindReport>,
    /// Counters from inside the drive.
    counters: CountersReport,
    /// The volumes, each on a drive of its own, in the order in which they occur in the trace; absent if there is one
    /// only, or one drive for all of them. Above them are their sums, and the longest of times that pass at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<VolumeReport>,
}

/// A volume of the trace on a drive of its own.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Volume")]
struct VolumeReport {
    /// Its name; absent if the trace does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The number of requests of all kinds.
    requests: u64,
    /// The number of bytes read and written.
    bytes: u64,
    /// The number of reads and writes that do not begin and end at boundaries of the true physical sectors.
    misaligned_requests: u64,
    /// The time from the first arrival to the last completion, in nanoseconds.
    elapsed_ns: u64,
    /// The sum of the latencies of reads, writes and flushes, in nanoseconds.
    busy_ns: u64,
    /// `busy_ns` relative to the same volume in the first run.
    ratio: f64,
    /// Whether the drive cannot keep up with the times of the trace.
    diverges: bool,
    /// Reads, timed from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<KindReport>,
    /// Writes, timed from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<KindReport>,
    /// Flushes, timed from arrival to completion; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    flushes: Option<KindReport>,
    /// Counters from inside its drive.
    counters: CountersReport,
}

/// When requests were sent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Pace")]
enum PaceReport {
    /// At the times of the trace.
    Open,
    /// After the previous request has completed.
    Closed,
}

/// Requests of one kind.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Requests")]
struct KindReport {
    /// The number of requests.
    requests: u64,
    /// Their latency in nanoseconds.
    latency: LatencyReport,
}

/// What was seen of a trace when it was read.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) format: Option<Format>,
    /// Requests that are earlier than one before them.
    pub(crate) late: u64,
}

impl Read {
    pub(crate) fn of(reader: &mut Reader<'_>) -> Result<Self, TraceError> {
        Ok(Self { format: reader.detect()?, late: reader.late() })
    }
}

/// A replay with one shift.
pub(crate) struct Run {
    pub(crate) shift: u64,
    pub(crate) read: Read,
    pub(crate) replayed: Replayed,
    /// The volumes, if each had a drive of its own.
    pub(crate) volumes: Vec<(String, Replayed)>,
}

impl Run {
    /// Creates the run of a trace on one drive.
    pub(crate) const fn of_one(shift: u64, read: Read, replayed: Replayed) -> Self {
        Self { shift, read, replayed, volumes: Vec::new() }
    }

    /// Creates the run of a trace with a drive for each volume.
    pub(crate) fn of_volumes(shift: u64, read: Read, replays: Replays) -> Self {
        match <[_; 1]>::try_from(replays.volumes) {
            Ok([(_, replayed)]) => Self::of_one(shift, read, replayed),
            Err(volumes) => Self { shift, read, replayed: replays.total, volumes },
        }
    }

    /// Returns the number of requests that were replayed later than they arrived: if they are at their times at all.
    pub(crate) fn late(&self) -> u64 {
        if self.replayed.pace == Pace::Open { self.read.late } else { 0 }
    }

    /// Whether a drive does not keep up with the times of the trace.
    pub(crate) fn diverges(&self) -> bool {
        match &self.volumes[..] {
            [] => self.replayed.diverges(),
            volumes => volumes.iter().any(|(_, replayed)| replayed.diverges()),
        }
    }
}

/// The runs of a replay, to be reported.
pub(crate) struct Sim<'a> {
    pub(crate) trace: &'a str,
    pub(crate) drive: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) runs: &'a [Run],
}

impl Sim<'_> {
    /// Returns the total time of a run's requests relative to that of the first run.
    pub(crate) fn ratio(&self, run: &Run) -> f64 {
        let seconds = |run: &Run| run.replayed.busy().seconds();
        let first = self.runs.first().map_or(0.0, seconds);
        if first > 0.0 { seconds(run) / first } else { 1.0 }
    }
}

impl SimReport {
    pub(crate) fn of(sim: &Sim<'_>) -> Self {
        let format = sim.runs.iter().find_map(|run| run.read.format).map(Format::name);
        let (claims, sectors) = (&sim.profile.claims, sim.profile.sectors);
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            trace: TraceReport { name: sim.trace.to_owned(), format },
            drive: DriveReport {
                name: sim.drive.to_owned(),
                title: sim.profile.title.clone(),
                capacity_bytes: claims.capacity,
                logical_sector_bytes: claims.logical_sector,
                physical_sector_bytes: sectors.physical,
            },
            runs: sim.runs.iter().map(|run| run_report(sim, run)).collect(),
        }
    }
}

fn run_report(sim: &Sim<'_>, run: &Run) -> RunReport {
    let replayed = &run.replayed;
    RunReport {
        shift_bytes: run.shift,
        pace: match replayed.pace {
            Pace::Open => PaceReport::Open,
            Pace::Closed => PaceReport::Closed,
        },
        queue_depth: replayed.depth,
        requests: replayed.requests,
        bytes: replayed.bytes,
        discards: replayed.discards,
        ignored_discards: replayed.ignored,
        late_requests: run.late(),
        off_sector_requests: replayed.off_sector,
        wrapped_requests: replayed.wrapped,
        misaligned_requests: replayed.misaligned,
        misaligned_share: replayed.misaligned_share(),
        elapsed_ns: replayed.elapsed.get(),
        busy_ns: replayed.busy().get(),
        ratio: sim.ratio(run),
        diverges: run.diverges(),
        behind_ns: replayed.behind.get(),
        reads: kind(&replayed.reads),
        writes: kind(&replayed.writes),
        flushes: kind(&replayed.flushes),
        counters: counters(&replayed.counters),
        volumes: run.volumes.iter().map(|(name, replayed)| volume_report(sim, name, replayed)).collect(),
    }
}

fn kind(times: &straddle_units::io::Latency) -> Option<KindReport> {
    let count = times.count();
    (count > 0).then(|| KindReport { requests: count, latency: latency(times) })
}

fn volume_report(sim: &Sim<'_>, name: &str, replayed: &Replayed) -> VolumeReport {
    let first = sim.runs.first().and_then(|run| run.volumes.iter().find(|(known, _)| known == name));
    let first = first.map_or(0.0, |(_, first)| first.busy().seconds());
    VolumeReport {
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        requests: replayed.requests,
        bytes: replayed.bytes,
        misaligned_requests: replayed.misaligned,
        elapsed_ns: replayed.elapsed.get(),
        busy_ns: replayed.busy().get(),
        ratio: if first > 0.0 { replayed.busy().seconds() / first } else { 1.0 },
        diverges: replayed.diverges(),
        reads: kind(&replayed.reads),
        writes: kind(&replayed.writes),
        flushes: kind(&replayed.flushes),
        counters: counters(&replayed.counters),
    }
}
