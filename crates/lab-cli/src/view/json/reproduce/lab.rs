//! The lab's part of what `reproduce --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::disk::RmwPolicy;
use straddle_lab::reproduce::experiment::{
    Direction, Host, LabArm, LabMeasure, LabPublished, LabStep, Setting, Statistic,
};
use straddle_lab::reproduce::lab::{Cell, Comparison, Figure, Readers, StepOutcome};

use super::{BandReport, MeasureReport, band_report, measure_report};
use crate::view::json::bench::{CountersReport, counters};

/// A script that is run for each variant on each arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabStep")]
pub(super) struct LabStepReport {
    name: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    /// What is done otherwise than the publication did it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deviations: Vec<String>,
    /// The host of the time that the guest is set to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<HostReport>,
    /// Runs of each cell, unless another number was asked for.
    runs: u32,
    /// The modelled drive on which it runs or ran.
    drive: String,
    /// What the script reads; absent if it reads nothing, and from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    /// The divisor by which the longest parts are shortened: 10 means a tenth of their length. Their times
    /// are reported for the full length.
    scale: u32,
    /// The guest's memory in bytes.
    memory_bytes: u64,
    /// The variants, such as file systems; empty if there is only one.
    variants: Vec<String>,
    measures: Vec<LabMeasureReport>,
    arms: Vec<LabArmReport>,
    /// One guest for each variant, arm and repetition; empty if it was not run.
    cells: Vec<CellReport>,
    /// The figures by measure, variant and arm; empty if it was not run.
    figures: Vec<LabFigureReport>,
    /// Who read before a write of a part of a block, by variant and arm, for steps whose programs only write,
    /// and to the drive or partition itself; empty for others, and if it was not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readers: Vec<ReadersReport>,
    /// The published figures and those of this run.
    published: Vec<ComparisonReport>,
}

/// A host of the time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabHost")]
struct HostReport {
    /// The preset that its values come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    /// Its values.
    settings: Vec<SettingReport>,
}

/// A value of a host.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabSetting")]
struct SettingReport {
    /// Which value.
    key: &'static str,
    /// The value.
    value: String,
    /// Where it is from.
    source: String,
}

/// Who read before a write of a part of a block.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Readers")]
struct ReadersReport {
    /// The variant; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    /// The name of the arm.
    arm: String,
    /// Reads that the guest's kernel sent while the program only wrote: its own read-modify-write.
    kernel_reads: f64,
    /// Writes that it sent meanwhile.
    kernel_writes: f64,
    /// Physical sectors that the drive read for itself, during the whole run: the drive's read-modify-write.
    drive_reads: f64,
}

/// A measure of a script.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabMeasure")]
struct LabMeasureReport {
    name: String,
    title: String,
    /// The direction of most of the data.
    direction: DirectionReport,
    /// The quantity.
    measure: MeasureReport,
    unit: &'static str,
    /// Whether it is shortened by `scale`.
    scaled: bool,
}

/// The direction of most of the data.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Direction")]
enum DirectionReport {
    /// To the drive.
    Write,
    /// From the drive.
    Read,
}

/// A position of the partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabArm")]
struct LabArmReport {
    name: String,
    /// Whether the other arms are compared with this one.
    aligned: bool,
    /// The start of the partition in sectors of 512 bytes; absent for a disk without a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_lba: Option<u64>,
    /// The length of the partition in sectors of 512 bytes; absent if it takes the rest of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    sectors: Option<u64>,
    /// The partition table: GPT or MBR; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'static str>,
}

/// The run of a guest.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cell")]
struct CellReport {
    /// The variant; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    /// The name of the arm.
    arm: String,
    seed: u64,
    /// The policy of read-modify-write, for a band; absent if it is the drive's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    /// Why the run failed; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The time from boot to halt on the guest's clock, in seconds.
    virtual_seconds: f64,
    /// The time from boot to halt in real time, in seconds.
    wall_seconds: f64,
    /// The number of requests to its drives.
    requests: u64,
    /// The rates at which the guest was charged for processor time.
    charges: String,
    /// What the script measured.
    measured: Vec<MeasuredReport>,
    /// Counters from inside its drives.
    counters: Vec<CountersReport>,
}

/// A time that a script took.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Measured")]
struct MeasuredReport {
    name: String,
    /// The time as measured, in seconds. For a shortened part, that of the part that was run.
    seconds: f64,
    /// Reads that the kernel sent meanwhile, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<u64>,
    /// Writes that the kernel sent meanwhile, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<u64>,
}

/// The mean over the runs of a variant on an arm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LabFigure")]
struct LabFigureReport {
    /// The name of the measure.
    measure: String,
    /// The variant; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    /// The name of the arm.
    arm: String,
    /// The mean in the unit of the measure.
    value: f64,
    /// The mean in seconds. For a shortened part, that of the full length.
    seconds: f64,
    /// The shortest time, in seconds.
    least_seconds: f64,
    /// The longest time, in seconds.
    greatest_seconds: f64,
    /// The time relative to the aligned arm; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// A published figure and that of this run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Comparison")]
struct ComparisonReport {
    /// The name of the measure.
    measure: String,
    /// The arm; absent for a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    arm: Option<String>,
    /// The variant; absent if the figure is for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    /// The statistic of the variants' ratios that was published.
    of: StatisticReport,
    /// A variant that the statistic leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    without: Option<String>,
    /// The unit of the figures; "times" for a ratio.
    unit: &'static str,
    /// The figure of this run; absent if a guest failed, and if it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours: Option<f64>,
    /// The published figure, or the middle of the range.
    published: f64,
    /// The lower end of the range, if a range was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    /// The upper end of the range, if a range was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    /// Background on this figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The error of `ours`, as a fraction of the published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// Whether the error is within the limit; absent if nothing is judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<bool>,
    /// What the plausible policies of read-modify-write give; absent if they were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    band: Option<BandReport>,
}

/// A statistic of several ratios.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Statistic")]
enum StatisticReport {
    /// The mean, or the only ratio.
    Mean,
    /// The smallest.
    Least,
    /// The largest.
    Greatest,
    /// All of them; `ours` is the one farthest from the middle of the range.
    Each,
}

/// Reports a step, with its result if it was run.
pub(super) fn step(step: &LabStep, outcome: Option<&StepOutcome>, limit: Option<f64>) -> LabStepReport {
    let published = match outcome {
        Some(outcome) => outcome.compared.iter().map(|compared| comparison(step, compared, limit)).collect(),
        None => step.published.iter().map(|published| listed(step, published)).collect(),
    };
    let outcome_of = |outcome: Option<&StepOutcome>| outcome.map(StepOutcome::ran_on);
    LabStepReport {
        name: step.name.clone(),
        title: step.title.clone(),
        notes: step.notes.clone(),
        deviations: step.deviations.clone(),
        host: (!step.host.settings.is_empty()).then(|| host(&step.host)),
        runs: step.runs,
        drive: outcome_of(outcome).unwrap_or_else(|| step.drive.clone()),
        input: outcome.and_then(|outcome| outcome.input.clone()),
        scale: outcome.map_or(step.scale, |outcome| outcome.scale),
        memory_bytes: step.memory,
        variants: step.variants.clone(),
        measures: step.measures.iter().map(measure).collect(),
        arms: step.arms.iter().map(|each| arm(step, each)).collect(),
        cells: outcome.into_iter().flat_map(|outcome| &outcome.cells).map(|each| cell(step, each)).collect(),
        figures: outcome
            .into_iter()
            .flat_map(|outcome| &outcome.figures)
            .map(|each| figure(step, each))
            .collect(),
        readers: outcome
            .into_iter()
            .flat_map(|outcome| &outcome.readers)
            .map(|each| readers(step, each))
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

fn arm(step: &LabStep, arm: &LabArm) -> LabArmReport {
    LabArmReport {
        name: arm.name.clone(),
        aligned: arm.aligned,
        start_lba: arm.start,
        sectors: arm.length(),
        table: arm.start.map(|_| step.table.name()),
    }
}

fn host(host: &Host) -> HostReport {
    let setting = |setting: &Setting| SettingReport {
        key: setting.key.name(),
        value: setting.value.clone(),
        source: setting.source.clone(),
    };
    HostReport { preset: host.preset.clone(), settings: host.settings.iter().map(setting).collect() }
}

fn readers(step: &LabStep, readers: &Readers) -> ReadersReport {
    ReadersReport {
        variant: step.variants.get(readers.variant).cloned(),
        arm: step.arms[readers.arm].name.clone(),
        kernel_reads: readers.kernel,
        kernel_writes: readers.writes,
        drive_reads: readers.drive,
    }
}

fn cell(step: &LabStep, cell: &Cell) -> CellReport {
    let ended = &cell.ended;
    let measured = ended.measures.iter();
    CellReport {
        variant: step.variants.get(cell.variant).cloned(),
        arm: step.arms[cell.arm].name.clone(),
        seed: cell.seed,
        policy: cell.policy.map(RmwPolicy::name),
        failure: cell.failure.clone(),
        virtual_seconds: ended.virtual_seconds,
        wall_seconds: ended.wall_seconds,
        requests: ended.requests,
        charges: ended.charges.clone(),
        measured: measured
            .map(|measured| MeasuredReport {
                name: measured.name.clone(),
                seconds: measured.seconds,
                reads: measured.requests.map(|requests| requests.reads),
                writes: measured.requests.map(|requests| requests.writes),
            })
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
        band: compared.band.as_ref().map(|band| {
            band_report(band, Some(compared.published), limit.map(|limit| compared.is_explained(limit)))
        }),
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
        band: None,
    }
}
