//! What `drive fit --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_lab::reproduce::fit::{Figure, Fit, Fitted, MARGIN};

/// What `straddle drive fit --json` prints. Errors are fractions of the published figure.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FitReport<'a> {
    /// The drive as named on the command line.
    drive: &'a str,
    /// Manufacturer, model and size.
    title: &'a str,
    /// The experiments with the published figures that the drive was fitted to.
    experiments: &'a [String],
    /// The fitted parameters; empty if the profile lists none.
    knobs: &'a [Fitted],
    /// The published figures beside those of the model.
    figures: Vec<FigureReport<'a>>,
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

/// A published figure beside the model's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct FigureReport<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    /// The error with the values of the profile.
    error_before: f64,
    /// The error with the fitted values.
    error_after: f64,
}

impl<'a> FitReport<'a> {
    pub(crate) fn of(fit: &'a Fit) -> Self {
        let figure = |figure: &'a Figure| FigureReport {
            figure,
            error_before: figure.error(figure.before),
            error_after: figure.error(figure.after),
        };
        Self {
            drive: &fit.drive,
            title: &fit.title,
            experiments: &fit.experiments,
            knobs: &fit.knobs,
            figures: fit.figures.iter().map(figure).collect(),
            worst_before: fit.worst_before(),
            worst_after: fit.worst_after(),
            worst_nearby: fit.worst_nearby,
            margin: MARGIN,
            evaluations: fit.evaluations,
        }
    }
}
