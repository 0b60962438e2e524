//! What `serve --json` prints at the end.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_lab::serve::{Ending, Snapshot};
use straddle_units::io::{Latency, Nanos};

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
pub(crate) struct ServeReport<'a> {
    /// The drive as named on the command line.
    target: &'a str,
    /// Manufacturer, model and size.
    title: &'a str,
    /// Why serving ended.
    ending: Ending,
    #[serde(flatten)]
    snapshot: &'a Snapshot<'a>,
    /// The histogram of `lateness`: its classes that are not empty, in ascending order.
    lateness_histogram: Vec<Class>,
}

/// A class of the histogram: replies up to a lateness, and above that of the class before.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Class {
    /// The upper bound in nanoseconds; absent for the last class, which has none.
    #[serde(rename = "at_most_ns", skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<Nanos>,
    /// The number of replies.
    pub(crate) replies: u64,
}

/// The end of serving a drive, to be reported.
pub(crate) struct Serve<'a> {
    pub(crate) target: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) ending: Ending,
    pub(crate) snapshot: Snapshot<'a>,
}

/// Returns the non-empty classes of a histogram, in ascending order.
pub(crate) fn classes(latency: &Latency) -> Vec<Class> {
    let mut below = 0;
    let bounds = BOUNDS.map(|bound| Some(Nanos::new(bound))).into_iter().chain([None]);
    let class = |bound: Option<Nanos>| {
        let within = bound.map_or(latency.count(), |bound| latency.count_within(bound));
        let count = within.saturating_sub(below);
        below = within.max(below);
        Class { bound, replies: count }
    };
    bounds.map(class).filter(|class| class.replies > 0).collect()
}

impl<'a> ServeReport<'a> {
    pub(crate) fn of(serve: &'a Serve<'a>) -> Self {
        Self {
            target: serve.target,
            title: &serve.profile.title,
            ending: serve.ending,
            snapshot: &serve.snapshot,
            lateness_histogram: classes(serve.snapshot.lateness),
        }
    }
}
