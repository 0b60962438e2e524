//! Puts our figures of a step beside the published ones.

use crate::guest::Requests;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::disk::RmwPolicy;

use crate::reproduce::experiment::{LabPublished, LabStep, Measure, Statistic};
use crate::reproduce::float;
use crate::reproduce::joint::Origin;
use crate::reproduce::lab::reproduce::Cell;
use crate::reproduce::policy::Band;

/// The measurement of a variant on an arm.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Index of the measure.
    #[serde(skip)]
    pub measure: usize,
    /// Index of the variant.
    #[serde(skip)]
    pub variant: usize,
    /// Index of the arm.
    #[serde(skip)]
    pub arm: usize,
    /// The mean time of the runs in seconds; for a shortened part, scaled to the full length.
    pub seconds: f64,
    /// The shortest time of the runs.
    #[serde(rename = "least_seconds")]
    pub least: f64,
    /// The longest time of the runs.
    #[serde(rename = "greatest_seconds")]
    pub greatest: f64,
    /// `seconds` relative to the aligned arm's; absent for that arm itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// A published figure and ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Index of the measure.
    #[serde(skip)]
    pub measure: usize,
    /// Index of the arm; for a ratio, of the misaligned one.
    #[serde(skip)]
    pub arm: usize,
    /// Index of the variant; `None` for all variants.
    #[serde(skip)]
    pub variant: Option<usize>,
    /// Which statistic of the variants' ratios was published.
    pub of: Statistic,
    /// Index of the variant that is left out.
    #[serde(skip)]
    pub without: Option<usize>,
    /// The unit of a figure; `None` for a ratio.
    #[serde(skip)]
    pub unit: Option<Measure>,
    /// This run's value, in `unit` or as a ratio; absent if a cell failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<f64>,
    /// The published value.
    pub published: f64,
    /// The ends of the published range; absent if a single figure was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// Background on the published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The smallest and the largest value of the runs, which differ only in their seeds; absent if there was
    /// only one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<(f64, f64)>,
    /// How this run's value was obtained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The values with the plausible policies, if they were run.
    #[serde(skip)]
    pub band: Option<Band>,
}

/// Whether the kernel or the drive read before a partial write of a block.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Readers {
    /// Index of the variant.
    #[serde(skip)]
    pub variant: usize,
    /// Index of the arm.
    #[serde(skip)]
    pub arm: usize,
    /// The number of reads by the kernel while the program only wrote (mean of the runs).
    #[serde(rename = "kernel_reads")]
    pub kernel: f64,
    /// The number of writes that the kernel sent during that time (mean of the runs).
    #[serde(rename = "kernel_writes")]
    pub writes: f64,
    /// The number of physical sectors that the drive itself read for read-modify-writes (mean of the runs).
    #[serde(rename = "drive_reads")]
    pub drive: f64,
}

/// The share of the kernel's writes below which reads do not count: mke2fs looks at a few blocks, and a few writes of
/// every program are less than a sector.
const FEW: f64 = 0.01;

impl Readers {
    /// Returns who read before a noticeable share of the writes: `kernel`, `drive`, both, or nobody.
    pub fn whose(&self) -> Vec<&'static str> {
        let is_many = |reads: f64| reads > FEW * self.writes;
        let kernel = is_many(self.kernel).then_some("kernel");
        kernel.into_iter().chain(is_many(self.drive).then_some("drive")).collect()
    }
}

/// Returns the error of a value: see [`Comparison::error`].
pub fn error(of: Statistic, published: f64, range: Option<(f64, f64)>, value: f64) -> f64 {
    match (of, range) {
        (Statistic::Each, Some((low, high))) if value >= low && value <= high => 0.0,
        (Statistic::Each, Some((low, _))) if value < low => value / low - 1.0,
        (Statistic::Each, Some((_, high))) => value / high - 1.0,
        _ => value / published - 1.0,
    }
}

impl Comparison {
    /// Returns our error as a share of the published figure or, where each ratio has to lie in a range, of
    /// the end that is exceeded.
    pub fn error(&self) -> Option<f64> {
        self.ours.map(|ours| self.error_of(ours))
    }

    pub(crate) fn error_of(&self, value: f64) -> f64 {
        error(self.of, self.published, self.range, value)
    }

    /// Returns the unit of the values; `times` for a ratio.
    pub fn unit_name(&self) -> &'static str {
        self.unit.map_or("times", Measure::unit)
    }

    /// Whether a plausible policy gives a figure whose error is at most `limit`.
    pub fn is_explained(&self, limit: f64) -> bool {
        self.band.as_ref().is_some_and(|band| band.explains(|value| self.error_of(value), limit))
    }

    /// Whether our error is at most `limit`. False if we have no figure.
    pub fn is_within(&self, limit: f64) -> bool {
        self.error().is_some_and(|error| error.abs() <= limit)
    }
}

fn measured(
    cells: &[Cell],
    variant: usize,
    arm: usize,
    policy: Option<RmwPolicy>,
) -> impl Iterator<Item = &Cell> {
    cells.iter().filter(move |cell| {
        (cell.variant, cell.arm, cell.policy) == (variant, arm, policy) && cell.failure.is_none()
    })
}

/// For this policy, or the drive's own. The time of a shortened part is multiplied by `scale`.
pub(crate) fn figures(step: &LabStep, cells: &[Cell], policy: Option<RmwPolicy>, scale: u32) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (measure, wanted) in step.measures.iter().enumerate() {
        let times = if wanted.scaled { f64::from(scale) } else { 1.0 };
        for variant in 0..step.variants().len() {
            let seconds = |arm: usize| -> Vec<f64> {
                let found = measured(cells, variant, arm, policy).flat_map(|cell| &cell.ended.measures);
                found.filter(|found| found.name == wanted.name).map(|found| found.seconds * times).collect()
            };
            let aligned = step.aligned().and_then(|arm| mean(&seconds(arm)));
            for arm in 0..step.arms.len() {
                let each = seconds(arm);
                let Some(mean) = mean(&each) else { continue };
                let ratio = aligned.filter(|_| step.aligned() != Some(arm)).map(|aligned| mean / aligned);
                figures.push(Figure {
                    measure,
                    variant,
                    arm,
                    seconds: mean,
                    least: each.iter().copied().fold(f64::INFINITY, f64::min),
                    greatest: each.iter().copied().fold(0.0, f64::max),
                    ratio,
                });
            }
        }
    }
    figures
}

/// Only for a step whose programs write to the drive itself and had their requests counted.
pub(crate) fn readers(step: &LabStep, cells: &[Cell]) -> Vec<Readers> {
    let mut readers = Vec::new();
    for variant in 0..step.variants().len() {
        for arm in 0..step.arms.len() {
            let (mut kernel, mut writes, mut drive) = (Vec::new(), Vec::new(), Vec::new());
            for cell in measured(cells, variant, arm, None) {
                let is_raw = |name: &str| step.measures.iter().any(|known| known.raw && known.name == name);
                let counted = cell.ended.measures.iter().filter(|found| is_raw(&found.name));
                let counted: Vec<Requests> = counted.filter_map(|found| found.requests).collect();
                if !counted.is_empty() {
                    kernel.push(float(counted.iter().map(|requests| requests.reads).sum()));
                    writes.push(float(counted.iter().map(|requests| requests.writes).sum()));
                    drive.push(float(cell.ended.counters.iter().map(|counters| counters.rmw_reads).sum()));
                }
            }
            if let (Some(kernel), Some(writes), Some(drive)) = (mean(&kernel), mean(&writes), mean(&drive)) {
                readers.push(Readers { variant, arm, kernel, writes, drive });
            }
        }
    }
    readers
}

/// By the fastest and the slowest run of each cell; a ratio is that of the slowest run to the aligned arm's fastest,
/// and the other way round.
fn extremes(figures: &[Figure]) -> [Vec<Figure>; 2] {
    let aligned = |of: &Figure| {
        let same = |other: &&Figure| {
            (other.measure, other.variant) == (of.measure, of.variant) && other.ratio.is_none()
        };
        figures.iter().find(same)
    };
    let end = |seconds: fn(&Figure) -> f64, other: fn(&Figure) -> f64| {
        let figure = |figure: &Figure| {
            let ratio = figure.ratio.and_then(|_| Some(seconds(figure) / other(aligned(figure)?)));
            Figure { seconds: seconds(figure), ratio, ..figure.clone() }
        };
        figures.iter().map(figure).collect()
    };
    [
        end(|figure| figure.least, |figure| figure.greatest),
        end(|figure| figure.greatest, |figure| figure.least),
    ]
}

/// With the range over the runs and the band of the policies' figures.
pub(crate) fn banded(
    step: &LabStep,
    figures: &[Figure],
    others: &[(RmwPolicy, Vec<Figure>)],
) -> Vec<Comparison> {
    let mut all = compared(step, figures);
    let [low, high] = extremes(figures).map(|figures| compared(step, &figures));
    for ((comparison, low), high) in all.iter_mut().zip(low).zip(high) {
        let range = low.ours.zip(high.ours).filter(|(low, high)| low != high);
        comparison.sampling = range.map(|(low, high)| (low.min(high), low.max(high)));
    }
    let others: Vec<(RmwPolicy, Vec<Comparison>)> =
        others.iter().map(|(policy, figures)| (*policy, compared(step, figures))).collect();
    for (index, comparison) in all.iter_mut().enumerate() {
        let of = |(policy, compared): &(RmwPolicy, Vec<Comparison>)| Some((*policy, compared[index].ours?));
        let values: Option<Vec<(RmwPolicy, f64)>> = others.iter().map(of).collect();
        comparison.band = values.and_then(Band::new);
    }
    all
}

fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

/// Returns every published figure, and each ratio of two of them, beside ours.
pub fn compared(step: &LabStep, figures: &[Figure]) -> Vec<Comparison> {
    let mut compared = Vec::new();
    for published in &step.published {
        let Some(measure) = step.measures.iter().position(|known| known.name == published.measure) else {
            continue;
        };
        match published.arm.as_ref().and_then(|arm| step.arms.iter().position(|known| known.name == *arm)) {
            Some(arm) => compared.extend(of_arm(step, figures, published, measure, arm)),
            None => compared.extend(of_ratios(step, figures, published, measure)),
        }
    }
    compared
}

fn variant(step: &LabStep, name: Option<&String>) -> Option<usize> {
    name.and_then(|name| step.variants.iter().position(|known| known == name))
}

/// Returns an arm's figure, unless only ratios can be compared, and its ratio if that was published.
fn of_arm(
    step: &LabStep,
    figures: &[Figure],
    published: &LabPublished,
    measure: usize,
    arm: usize,
) -> Vec<Comparison> {
    let variant = variant(step, published.variant.as_ref());
    let of = |figure: &&Figure| {
        (figure.measure, figure.variant, figure.arm) == (measure, variant.unwrap_or(0), arm)
    };
    let ours = figures.iter().find(of);
    let wanted = &step.measures[measure];
    let figure = Comparison {
        measure,
        arm,
        variant,
        unit: Some(wanted.unit),
        ours: ours.map(|figure| wanted.unit.of_seconds(figure.seconds)),
        published: published.value,
        range: published.low.zip(published.high),
        note: published.note.clone(),
        ..Comparison::default()
    };
    let aligned = step.aligned().filter(|aligned| *aligned != arm).map(|aligned| &step.arms[aligned].name);
    let base = aligned.and_then(|aligned| {
        let same = |other: &&LabPublished| {
            other.measure == published.measure
                && other.variant == published.variant
                && other.arm.as_ref() == Some(aligned)
        };
        step.published.iter().find(same)
    });
    let ratio = base.map(|base| Comparison {
        unit: None,
        ours: ours.and_then(|figure| figure.ratio),
        published: wanted.unit.times(published.value, base.value),
        range: None,
        note: None,
        ..figure.clone()
    });
    (!wanted.ratio_only).then_some(figure).into_iter().chain(ratio).collect()
}

fn of_ratios(
    step: &LabStep,
    figures: &[Figure],
    published: &LabPublished,
    measure: usize,
) -> Option<Comparison> {
    let arm = (0..step.arms.len()).find(|arm| step.aligned() != Some(*arm))?;
    let (only, without) =
        (variant(step, published.variant.as_ref()), variant(step, published.without.as_ref()));
    let counts = |index: usize| only.is_none_or(|only| only == index) && without != Some(index);
    let wanted = (0..step.variants().len()).filter(|index| counts(*index)).count();
    let ratios: Vec<f64> = figures
        .iter()
        .filter(|figure| figure.measure == measure && figure.arm == arm && counts(figure.variant))
        .filter_map(|figure| figure.ratio)
        .collect();
    // A mean over only the cells that did not fail would not be the published figure.
    let ours = (ratios.len() == wanted).then(|| statistic(&ratios, published)).flatten();
    Some(Comparison {
        measure,
        arm,
        variant: only,
        of: published.of,
        without,
        ours,
        published: published.value,
        range: published.low.zip(published.high),
        note: published.note.clone(),
        ..Comparison::default()
    })
}

fn statistic(ratios: &[f64], published: &LabPublished) -> Option<f64> {
    let least = || ratios.iter().copied().reduce(f64::min);
    let greatest = || ratios.iter().copied().reduce(f64::max);
    match published.of {
        Statistic::Mean => mean(ratios),
        Statistic::Least => least(),
        Statistic::Greatest => greatest(),
        // Take the ratio farthest from the middle: if it lies in the range, all do.
        Statistic::Each => {
            let farther = |one: f64, other: f64| {
                let distance = |ratio: f64| (ratio - published.value).abs();
                if distance(other) > distance(one) { other } else { one }
            };
            ratios.iter().copied().reduce(farther)
        }
    }
}
