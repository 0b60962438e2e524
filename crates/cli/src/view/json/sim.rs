//! What `sim --json` prints, and the runs behind it.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_trace::{Format, Pace, Reader, Replayed, Replays, TraceError};

/// What `straddle sim --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SimReport<'a> {
    /// The trace.
    trace: Trace<'a>,
    /// The drive on which it was replayed. All times are the model's.
    drive: Drive<'a>,
    /// One run for each shift, in the order of the shifts, each on a fresh drive.
    runs: Vec<RunReport<'a>>,
}

/// A trace.
#[derive(Debug, Serialize, JsonSchema)]
struct Trace<'a> {
    /// The trace as named on the command line.
    name: &'a str,
    /// The format, by its name for `--format`; absent if the trace is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
}

/// A modelled drive.
#[derive(Debug, Serialize, JsonSchema)]
struct Drive<'a> {
    /// The drive as named on the command line.
    name: &'a str,
    /// Manufacturer, model and size.
    title: &'a str,
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
struct RunReport<'a> {
    /// The number of bytes added to every offset.
    shift_bytes: u64,
    /// The number of requests that arrive earlier than one before them: they were replayed as of that one's time.
    late_requests: u64,
    #[serde(flatten)]
    replay: Replay<'a>,
    /// The volumes, each on a drive of its own, in the order in which they occur in the trace; absent if there is one
    /// only, or one drive for all of them. Above them are their sums, and the longest of times that pass at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<VolumeReport<'a>>,
}

/// A volume of the trace on a drive of its own.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Volume")]
struct VolumeReport<'a> {
    /// Its name; absent if the trace does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(flatten)]
    replay: Replay<'a>,
}

/// What was replayed.
#[derive(Debug, Serialize, JsonSchema)]
struct Replay<'a> {
    #[serde(flatten)]
    replayed: &'a Replayed,
    /// `misaligned_requests` as a fraction of all reads and writes; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    misaligned_share: Option<f64>,
    /// The sum of the latencies of reads, writes and flushes, in nanoseconds.
    busy_ns: u64,
    /// `busy_ns` relative to the first run. If one of the two diverges, it depends on the length of the
    /// trace.
    ratio: f64,
    /// Whether the drive cannot keep up with the times of the trace, so that requests wait longer and longer.
    diverges: bool,
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

impl<'a> Sim<'a> {
    /// Returns the total time of a run's requests relative to that of the first run.
    pub(crate) fn ratio(&self, run: &Run) -> f64 {
        ratio(&run.replayed, self.runs.first().map(|first| &first.replayed))
    }

    /// Returns the published form.
    pub(crate) fn report(&self) -> SimReport<'a> {
        let (claims, sectors) = (&self.profile.claims, self.profile.sectors);
        SimReport {
            trace: Trace {
                name: self.trace,
                format: self.runs.iter().find_map(|run| run.read.format).map(Format::name),
            },
            drive: Drive {
                name: self.drive,
                title: &self.profile.title,
                capacity_bytes: claims.capacity,
                logical_sector_bytes: claims.logical_sector,
                physical_sector_bytes: sectors.physical,
            },
            runs: self.runs.iter().map(|run| self.run(run)).collect(),
        }
    }

    fn run(&self, run: &'a Run) -> RunReport<'a> {
        let first = self.runs.first();
        let volume = |(name, replayed): &'a (String, Replayed)| {
            let first = first.and_then(|run| run.volumes.iter().find(|(known, _)| known == name));
            VolumeReport {
                name: Some(name.as_str()).filter(|name| !name.is_empty()),
                replay: Replay::of(replayed, first.map(|(_, first)| first), replayed.diverges()),
            }
        };
        RunReport {
            shift_bytes: run.shift,
            late_requests: run.late(),
            replay: Replay::of(&run.replayed, first.map(|first| &first.replayed), run.diverges()),
            volumes: run.volumes.iter().map(volume).collect(),
        }
    }
}

impl<'a> Replay<'a> {
    fn of(replayed: &'a Replayed, first: Option<&Replayed>, diverges: bool) -> Self {
        Self {
            replayed,
            misaligned_share: replayed.misaligned_share(),
            busy_ns: replayed.busy().get(),
            ratio: ratio(replayed, first),
            diverges,
        }
    }
}

fn ratio(replayed: &Replayed, first: Option<&Replayed>) -> f64 {
    let first = first.map_or(0.0, |first| first.busy().seconds());
    if first > 0.0 { replayed.busy().seconds() / first } else { 1.0 }
}
