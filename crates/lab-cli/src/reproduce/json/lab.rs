//! The lab's part of what `reproduce --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_lab::reproduce::experiment::{LabArm, LabStep};
use straddle_lab::reproduce::lab::{Cell, Comparison, Figure, Readers, StepOutcome, compared};

use crate::reproduce::json::BandReport;

/// A script that is run for each variant on each arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabStep")]
pub(super) struct LabStepReport<'a> {
    #[serde(flatten)]
    step: &'a LabStep,
    /// The modelled drive on which it runs or ran.
    drive: &'a str,
    /// What the script reads; absent from a list, or if it reads nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    /// The divisor by which the longest parts are shortened: 10 means a tenth of their length. Their times
    /// are reported for the full length.
    scale: u32,
    /// The positions of the partition.
    arms: Vec<LabArmReport<'a>>,
    /// The runs, each in a guest of its own, for each variant, arm and repetition; empty if the step was not
    /// run.
    cells: Vec<Placed<'a, &'a Cell>>,
    /// The figures by measure, variant and arm; empty if the step was not run.
    figures: Vec<Placed<'a, FigureReport<'a>>>,
    /// Who read before partial writes of a block, by variant and arm. Only for steps whose programs do nothing
    /// but write directly to the drive or partition; empty if the step was not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readers: Vec<Placed<'a, &'a Readers>>,
    /// The published figures and those of this run.
    published: Vec<Compared<'a>>,
}

/// A position of the partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabArm")]
struct LabArmReport<'a> {
    #[serde(flatten)]
    arm: &'a LabArm,
    /// The partition table: GPT or MBR; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'static str>,
}

/// What was measured with a variant on an arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Placed<'a, T> {
    /// The name of the variant; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
    /// The name of the arm.
    arm: &'a str,
    #[serde(flatten)]
    found: T,
}

/// The mean over the runs of a variant on an arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabFigure")]
struct FigureReport<'a> {
    /// The name of the measure.
    measure: &'a str,
    /// The mean of the runs in the unit of the measure.
    value: f64,
    #[serde(flatten)]
    figure: &'a Figure,
}

/// A published figure and that of this run.
#[derive(Debug, Serialize, JsonSchema)]
struct Compared<'a> {
    /// The name of the measure.
    measure: &'a str,
    /// The name of the arm; absent for a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<&'a str>,
    /// The name of the variant; absent if the figure is for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
    /// The name of a variant that the statistic leaves out; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    without: Option<&'a str>,
    /// The unit of the figures; "times" for a ratio.
    unit: &'static str,
    #[serde(flatten)]
    compared: Comparison,
    /// The error of `ours`, as a fraction of the published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// Whether the error is within the limit; absent if nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<bool>,
    /// The figures that the plausible read-modify-write policies give; absent if they were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    band: Option<BandReport>,
}

pub(super) fn step<'a>(
    step: &'a LabStep,
    outcome: Option<&'a StepOutcome>,
    limit: Option<f64>,
) -> LabStepReport<'a> {
    let compared = outcome.map_or_else(|| compared(step, &[]), |outcome| outcome.compared.clone());
    let arm = |arm: &'a LabArm| LabArmReport { arm, table: arm.start.map(|_| step.table.name()) };
    let figure = |figure: &'a Figure| {
        let measure = &step.measures[figure.measure];
        let value = measure.unit.of_seconds(figure.seconds);
        placed(step, figure.variant, figure.arm, FigureReport { measure: &measure.name, value, figure })
    };
    let cell = |cell: &'a Cell| placed(step, cell.variant, cell.arm, cell);
    let readers = |readers: &'a Readers| placed(step, readers.variant, readers.arm, readers);
    LabStepReport {
        step,
        drive: outcome.map_or(&step.drive, |outcome| &outcome.drive),
        input: outcome.and_then(|outcome| outcome.input.as_deref()),
        scale: outcome.map_or(step.scale, |outcome| outcome.scale),
        arms: step.arms.iter().map(arm).collect(),
        cells: outcome.into_iter().flat_map(|outcome| &outcome.cells).map(cell).collect(),
        figures: outcome.into_iter().flat_map(|outcome| &outcome.figures).map(figure).collect(),
        readers: outcome.into_iter().flat_map(|outcome| &outcome.readers).map(readers).collect(),
        published: compared.into_iter().map(|compared| comparison(step, compared, limit)).collect(),
    }
}

fn placed<T>(step: &LabStep, variant: usize, arm: usize, found: T) -> Placed<'_, T> {
    Placed { variant: step.variants.get(variant).map(String::as_str), arm: &step.arms[arm].name, found }
}

fn comparison(step: &LabStep, compared: Comparison, limit: Option<f64>) -> Compared<'_> {
    let name = |index: Option<usize>| index.and_then(|index| step.variants.get(index)).map(String::as_str);
    let explained = limit.map(|limit| compared.is_explained(limit));
    Compared {
        measure: &step.measures[compared.measure].name,
        arm: compared.unit.map(|_| step.arms[compared.arm].name.as_str()),
        variant: name(compared.variant),
        without: name(compared.without),
        unit: compared.unit_name(),
        error: compared.error(),
        within: limit.map(|limit| compared.is_within(limit)),
        band: compared.band.as_ref().map(|band| BandReport::of(band, Some(compared.published), explained)),
        compared,
    }
}
