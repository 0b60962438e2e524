//! The lab's part of what `reproduce --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_reproduce::experiment::{Direction, LabArm, LabMeasure, LabPublished, LabStep, Statistic};
use straddle_reproduce::lab::{Cell, Comparison, Figure, StepOutcome};

use super::{MeasureReport, measure_report};
use crate::view::json::bench::{CountersReport, counters};

/// A script that was run for each variant on each arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabStep")]
pub(super) struct LabStepReport {
    name: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    /// The modelled drive that it runs on, or ran on.
    drive: String,
    /// What the script reads; absent where it reads nothing, and from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    /// Some parts are run at this fraction of their length: 10 is a tenth. Their times are told for the whole.
    scale: u32,
    /// The guest's memory.
    memory_bytes: u64,
    /// Such as file systems; empty where there is only one.
    variants: Vec<String>,
    measures: Vec<LabMeasureReport>,
    arms: Vec<LabArmReport>,
    /// A guest each; empty where it was not run.
    cells: Vec<CellReport>,
    /// By measure, variant and arm; empty where it was not run.
    figures: Vec<LabFigureReport>,
    /// What was published, and ours.
    published: Vec<ComparisonReport>,
}

/// What is measured.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabMeasure")]
struct LabMeasureReport {
    name: String,
    title: String,
    direction: DirectionReport,
    measure: MeasureReport,
    unit: &'static str,
    /// Whether it is shortened by `scale`.
    scaled: bool,
}

/// Which way most of the data goes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Direction")]
enum DirectionReport {
    /// To the drive.
    Write,
    /// From it.
    Read,
}

/// Where the partition starts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabArm")]
struct LabArmReport {
    name: String,
    /// Whether the others are compared with this one.
    aligned: bool,
    /// In sectors of 512 bytes.
    start_lba: u64,
}

/// A guest.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cell")]
struct CellReport {
    /// Absent where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    arm: String,
    seed: u64,
    /// What was wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// From boot to halt, on the guest's clock.
    virtual_seconds: f64,
    /// From boot to halt, here.
    wall_seconds: f64,
    requests: u64,
    /// What the guest's processor time was charged at.
    charges: String,
    /// What the script measured.
    measured: Vec<MeasuredReport>,
    /// What happened inside its drives.
    counters: Vec<CountersReport>,
}

/// A time that a script took.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Measured")]
struct MeasuredReport {
    name: String,
    /// As measured: of a shortened part, for what was run.
    seconds: f64,
}

/// The mean of a variant's runs on an arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabFigure")]
struct LabFigureReport {
    measure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    arm: String,
    /// In the measure's unit.
    value: f64,
    /// The mean; of a shortened part, for the whole.
    seconds: f64,
    least_seconds: f64,
    greatest_seconds: f64,
    /// Times the aligned arm's seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// A published figure and ours.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Comparison")]
struct ComparisonReport {
    measure: String,
    /// Of which arm; of a ratio, absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<String>,
    /// Of which variant; of all, where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    /// What of all.
    of: StatisticReport,
    /// This variant does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    without: Option<String>,
    /// Of a ratio "times".
    unit: &'static str,
    /// Absent where a guest failed, and where it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours: Option<f64>,
    published: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// How far ours is off, as a share of the published one.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// Absent where nothing is judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<bool>,
}

/// What of several ratios.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Statistic")]
enum StatisticReport {
    /// Their mean, or the only one.
    Mean,
    /// The least.
    Least,
    /// The greatest.
    Greatest,
    /// All of them: ours is the farthest from the middle of the range.
    Each,
}

/// Reports a step, with its result if it was run.
pub(super) fn step(step: &LabStep, outcome: Option<&StepOutcome>, limit: Option<f64>) -> LabStepReport {
    let published = match outcome {
        Some(outcome) => outcome.compared.iter().map(|compared| comparison(step, compared, limit)).collect(),
        None => step.published.iter().map(|published| listed(step, published)).collect(),
    };
    let outcome_of = |outcome: Option<&StepOutcome>| outcome.map(|outcome| outcome.drive.clone());
    LabStepReport {
        name: step.name.clone(),
        title: step.title.clone(),
        notes: step.notes.clone(),
        drive: outcome_of(outcome).unwrap_or_else(|| step.drive.clone()),
        input: outcome.and_then(|outcome| outcome.input.clone()),
        scale: outcome.map_or(step.scale, |outcome| outcome.scale),
        memory_bytes: step.memory,
        variants: step.variants.clone(),
        measures: step.measures.iter().map(measure).collect(),
        arms: step.arms.iter().map(arm).collect(),
        cells: outcome.into_iter().flat_map(|outcome| &outcome.cells).map(|each| cell(step, each)).collect(),
        figures: outcome
            .into_iter()
            .flat_map(|outcome| &outcome.figures)
            .map(|each| figure(step, each))
            .collect(),
        published,
    }
}

fn measure(measure: &LabMeasure) -> LabMeasureReport {
    LabMeasureReport {
        name: measure.name.clone(),
        title: measure.title.clone(),
        direction: match measure.direction {
            Direction::Write => DirectionReport::Write,
            Direction::Read => DirectionReport::Read,
        },
        measure: measure_report(measure.unit),
        unit: measure.unit.unit(),
        scaled: measure.scaled,
    }
}

fn arm(arm: &LabArm) -> LabArmReport {
    LabArmReport { name: arm.name.clone(), aligned: arm.aligned, start_lba: arm.start }
}

fn cell(step: &LabStep, cell: &Cell) -> CellReport {
    let ended = &cell.ended;
    let measured = ended.measures.iter();
    CellReport {
        variant: step.variants.get(cell.variant).cloned(),
        arm: step.arms[cell.arm].name.clone(),
        seed: cell.seed,
        failure: cell.failure.clone(),
        virtual_seconds: ended.virtual_seconds,
        wall_seconds: ended.wall_seconds,
        requests: ended.requests,
        charges: ended.charges.clone(),
        measured: measured
            .map(|measured| MeasuredReport { name: measured.name.clone(), seconds: measured.seconds })
            .collect(),
        counters: ended.counters.iter().map(counters).collect(),
    }
}

fn figure(step: &LabStep, figure: &Figure) -> LabFigureReport {
    let measure = &step.measures[figure.measure];
    LabFigureReport {
        measure: measure.name.clone(),
        variant: step.variants.get(figure.variant).cloned(),
        arm: step.arms[figure.arm].name.clone(),
        value: measure.unit.of_seconds(figure.seconds),
        seconds: figure.seconds,
        least_seconds: figure.least,
        greatest_seconds: figure.greatest,
        ratio: figure.ratio,
    }
}

fn statistic(of: Statistic) -> StatisticReport {
    match of {
        Statistic::Mean => StatisticReport::Mean,
        Statistic::Least => StatisticReport::Least,
        Statistic::Greatest => StatisticReport::Greatest,
        Statistic::Each => StatisticReport::Each,
    }
}

/// The unit of a figure that is neither a time nor a rate.
const RATIO: &str = "times";

fn comparison(step: &LabStep, compared: &Comparison, limit: Option<f64>) -> ComparisonReport {
    let name = |index: Option<usize>| index.and_then(|index| step.variants.get(index).cloned());
    ComparisonReport {
        measure: step.measures[compared.measure].name.clone(),
        arm: compared.unit.map(|_| step.arms[compared.arm].name.clone()),
        variant: name(compared.variant),
        of: statistic(compared.of),
        without: name(compared.without),
        unit: compared.unit.map_or(RATIO, |unit| unit.unit()),
        ours: compared.ours,
        published: compared.published,
        low: compared.range.map(|(low, _)| low),
        high: compared.range.map(|(_, high)| high),
        note: compared.note.clone(),
        error: compared.error(),
        within: limit.map(|limit| compared.is_within(limit)),
    }
}

fn listed(step: &LabStep, published: &LabPublished) -> ComparisonReport {
    let measure = step.measures.iter().find(|measure| measure.name == published.measure);
    let unit = measure.filter(|_| published.arm.is_some()).map_or(RATIO, |measure| measure.unit.unit());
    ComparisonReport {
        measure: published.measure.clone(),
        arm: published.arm.clone(),
        variant: published.variant.clone(),
        of: statistic(published.of),
        without: published.without.clone(),
        unit,
        ours: None,
        published: published.value,
        low: published.low,
        high: published.high,
        note: published.note.clone(),
        error: None,
        within: None,
    }
}
