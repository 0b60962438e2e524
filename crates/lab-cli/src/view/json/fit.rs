//! What `drive fit --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_lab::reproduce::experiment::Quantity;
use straddle_lab::reproduce::fit::{Figure, Fit, Fitted, MARGIN};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle drive fit --json` prints. Errors are fractions of the published figure.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle drive fit")]
pub(crate) struct FitReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The drive as named on the command line.
    drive: String,
    /// The experiments with the published figures that the drive was fitted to.
    experiments: Vec<String>,
    /// The fitted parameters; empty if the profile lists none.
    knobs: Vec<KnobReport>,
    /// The published figures beside those of the model.
    figures: Vec<FitFigureReport>,
    /// The largest error with the values of the profile.
    worst_before: f64,
    /// The largest error with the fitted values.
    worst_after: f64,
    /// The largest error with the fitted values, and with each of them in turn `margin` lower and higher;
    /// rounded up to half a percent.
    worst_nearby: f64,
    /// How far each value was varied, as a fraction of it.
    margin: f64,
    /// The number of sets of values that were tried.
    evaluations: usize,
}

/// A fitted parameter.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Knob")]
struct KnobReport {
    /// Its path in the profile.
    path: String,
    /// The smallest value allowed.
    low: f64,
    /// The largest value allowed.
    high: f64,
    /// The value in the profile.
    before: f64,
    /// The fitted value.
    after: f64,
}

/// A published figure beside the model's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct FitFigureReport {
    /// The name of the experiment.
    experiment: String,
    /// The name of the step.
    step: String,
    /// The name of the arm.
    arm: String,
    /// "elapsed", "iops" or "sync-latency".
    measure: &'static str,
    /// Whether the figure is a ratio to the aligned arm's figure.
    ratio: bool,
    /// The published figure: seconds, requests per second, milliseconds, or a ratio.
    published: f64,
    /// The model's figure with the values of the profile.
    before: f64,
    /// The model's figure with the fitted values.
    after: f64,
    /// The error with the values of the profile.
    error_before: f64,
    /// The error with the fitted values.
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
