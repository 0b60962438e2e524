//! What `serve --json` prints at the end.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_lab::serve::{Ending, Snapshot};
use straddle_units::io::{Latency, Nanos};

use super::bench::{CountersReport, LatencyReport, counters, latency};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// The upper bounds of the histogram's classes in nanoseconds: 1, 2 and 5 times each power of ten, from 10 µs
/// up to 1 s.
const BOUNDS: [u64; 16] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// What `straddle serve --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle serve")]
pub(crate) struct ServeReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The drive as named on the command line.
    target: String,
    /// Manufacturer, model and size.
    title: String,
    /// Why serving ended.
    ending: EndingReport,
    /// How long the drive was served, in nanoseconds of real time.
    elapsed_ns: u64,
    /// The number of completed reads.
    reads: u64,
    /// The number of bytes read.
    read_bytes: u64,
    /// The number of completed writes, including writes of zeroes.
    writes: u64,
    /// The number of bytes written.
    write_bytes: u64,
    /// The number of completed flushes.
    flushes: u64,
    /// The number of completed discards.
    discards: u64,
    /// The number of failed requests.
    failed_requests: u64,
    /// The number of clients that were disconnected because they violated the protocol.
    broken_clients: u64,
    /// How much later than the model's time replies were sent, in nanoseconds of real time; absent if there
    /// were none, and if replies are not delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness: Option<LatenessReport>,
    /// Counters from inside the drive.
    counters: CountersReport,
}

/// Why serving ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ending")]
enum EndingReport {
    /// By SIGINT or SIGTERM.
    Signal,
    /// By the control command `quit`.
    Quit,
    /// The power was cut.
    PowerCut,
}

/// How late replies were.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lateness")]
struct LatenessReport {
    /// The number of replies.
    replies: u64,
    /// Their lateness.
    #[serde(flatten)]
    times: LatencyReport,
    /// The classes of the histogram that are not empty, in ascending order.
    histogram: Vec<ClassReport>,
}

/// A class of the histogram: replies up to a lateness, and above that of the class before.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Class")]
struct ClassReport {
    /// The upper bound in nanoseconds; absent for the last class, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most_ns: Option<u64>,
    /// The number of replies.
    replies: u64,
}

/// The end of serving a drive, to be reported.
pub(crate) struct Serve<'a> {
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) ending: Ending,
    pub(crate) snapshot: Snapshot<'a>,
}

/// Returns the non-empty classes of a histogram: the upper bound, if there is one, and the count.
pub(crate) fn classes(latency: &Latency) -> Vec<(Option<Nanos>, u64)> {
    let mut below = 0;
    let bounds = BOUNDS.map(|bound| Some(Nanos::new(bound))).into_iter().chain([None]);
    let class = |bound: Option<Nanos>| {
        let within = bound.map_or(latency.count(), |bound| latency.count_within(bound));
        let count = within.saturating_sub(below);
        below = within.max(below);
        (bound, count)
    };
    bounds.map(class).filter(|(_, count)| *count > 0).collect()
}

impl ServeReport {
    pub(crate) fn of(serve: &Serve<'_>) -> Self {
        let snapshot = &serve.snapshot;
        let (totals, late) = (snapshot.totals, snapshot.lateness);
        let requests = totals.requests;
        let class = |(bound, count): (Option<Nanos>, u64)| ClassReport {
            at_most_ns: bound.map(Nanos::get),
            replies: count,
        };
        let lateness = (late.count() > 0).then(|| LatenessReport {
            replies: late.count(),
            times: latency(late),
            histogram: classes(late).into_iter().map(class).collect(),
        });
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: serve.target.to_owned(),
            title: serve.profile.title.clone(),
            ending: match serve.ending {
                Ending::Signal => EndingReport::Signal,
                Ending::Quit => EndingReport::Quit,
                Ending::PowerCut => EndingReport::PowerCut,
            },
            elapsed_ns: u64::try_from(snapshot.elapsed.as_nanos()).unwrap_or(u64::MAX),
            reads: requests.reads,
            read_bytes: requests.read_bytes,
            writes: requests.writes,
            write_bytes: requests.write_bytes,
            flushes: requests.flushes,
            discards: requests.discards,
            failed_requests: totals.failed,
            broken_clients: totals.broken,
            lateness,
            counters: counters(snapshot.counters),
        }
    }
}
