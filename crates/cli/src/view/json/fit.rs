//! What `drive fit --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_reproduce::experiment::Quantity;
use straddle_reproduce::fit::{Figure, Fit, Fitted, MARGIN};

/// The version of this form. It increases when a field changes its meaning or is removed, not when one is
/// added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle drive fit --json` prints. Errors are shares of the published figure.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle drive fit")]
pub(crate) struct FitReport {
    /// The version of this form.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The drive, as it was asked for.
    drive: String,
    /// The experiments whose published figures it was fitted to.
    experiments: Vec<String>,
    /// The fitted numbers; none where the profile names none.
    knobs: Vec<KnobReport>,
    figures: Vec<FitFigureReport>,
    /// The worst error with the profile's values.
    worst_before: f64,
    /// The worst error with the values found.
    worst_after: f64,
    /// The worst error with the values found and with each of them `margin` to either side, in steps of half a percent.
    worst_nearby: f64,
    /// How far to either side, as a share of the value.
    margin: f64,
    /// How many sets of values were tried.
    evaluations: usize,
}

/// A fitted number.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Knob")]
struct KnobReport {
    /// Where it stands in the profile.
    path: String,
    /// The smallest value allowed.
    low: f64,
    /// The largest value allowed.
    high: f64,
    /// The profile's value.
    before: f64,
    /// The value found.
    after: f64,
}

/// A published figure beside the model's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct FitFigureReport {
    experiment: String,
    step: String,
    arm: String,
    /// "elapsed", "iops" or "sync-latency".
    measure: &'static str,
    /// Whether it is the ratio to the aligned arm's cost.
    ratio: bool,
    published: f64,
    /// The model's with the profile's values.
    before: f64,
    /// The model's with the values found.
    after: f64,
    error_before: f64,
    error_after: f64,
}

impl FitReport {
    pub(crate) fn of(fit: &Fit) -> Self {
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            drive: fit.drive.clone(),
            experiments: fit.experiments.clone(),
            knobs: fit.knobs.iter().map(knob).collect(),
            figures: fit.figures.iter().map(figure).collect(),
            worst_before: fit.worst_before(),
            worst_after: fit.worst_after(),
            worst_nearby: fit.worst_nearby,
            margin: MARGIN,
            evaluations: fit.evaluations,
        }
    }
}

fn knob(knob: &Fitted) -> KnobReport {
    let Fitted { path, low, high, before, after } = knob.clone();
    KnobReport { path, low, high, before, after }
}

fn figure(figure: &Figure) -> FitFigureReport {
    let Figure { experiment, step, arm, measure, quantity, published, before, after } = figure.clone();
    FitFigureReport {
        experiment,
        step,
        arm,
        measure: measure.name(),
        ratio: quantity == Quantity::Ratio,
        published,
        before,
        after,
        error_before: figure.error(before),
        error_after: figure.error(after),
    }
}
