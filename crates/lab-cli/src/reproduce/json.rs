//! What `reproduce --json` prints, and the run behind it.

mod lab;
pub(crate) mod saved;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::disk::RmwPolicy;
use straddle_drive::{Profile, ProfileError};
use straddle_lab::reproduce::experiment::{
    Arm, ArmOutcome, Compared, Experiment, LabStep, Measure, Outcome, Pair, Published, Source, Step,
    StepOutcome, Tally,
};
use straddle_lab::reproduce::joint::{self, Figure, Joint, Origin};
use straddle_lab::reproduce::lab::{Settings, StepOutcome as LabOutcome, compared};
use straddle_lab::reproduce::policy::Band;
use straddle_measure::bench::float;

use crate::reproduce::json::lab::LabStepReport;

pub(crate) struct Reproduced {
    pub(crate) experiments: Vec<ReproducedExperiment>,
    pub(crate) judged: JudgedFigures,
    pub(crate) way: Way,
    pub(crate) wall: Duration,
}

/// Published figures, judged for each drive.
pub(crate) struct JudgedFigures {
    pub(crate) joints: Vec<Joint>,
    /// How many figures and ratios were published, compared or not.
    pub(crate) published: usize,
}

/// A run of an experiment or of a part of it.
pub(crate) struct ReproducedExperiment {
    pub(crate) experiment: Experiment,
    /// Whether figures are judged. False on a drive other than those with published figures.
    pub(crate) judged: bool,
    /// The results of the steps that need only a drive, if they were run.
    pub(crate) outcome: Option<Outcome>,
    /// The results of the steps that need a kernel, if they were run, in the order of the experiment.
    pub(crate) lab: Option<Vec<LabOutcome>>,
}

pub(crate) struct Way {
    pub(crate) settings: Settings,
    pub(crate) command: String,
}

/// What `straddle reproduce --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReproduceReport<'a> {
    /// The experiments, in the order in which they were named.
    experiments: Vec<ExperimentReport<'a>>,
    /// How well each read-modify-write policy matches all figures of a drive; absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    joint: Option<&'a [Joint]>,
    /// The number of figures and ratios that the experiments published, compared or not; absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<usize>,
    /// Totals of the run; absent from a list, and with --joint.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary<'a>>,
}

/// Totals over all experiments.
#[derive(Debug, Serialize, JsonSchema)]
struct Summary<'a> {
    /// The number of published figures and ratios that were compared; 0 on a drive other than the published
    /// one.
    judged: usize,
    /// The number of `judged` figures and ratios whose error is within the limit of their experiment.
    within: usize,
    /// The command that repeats this run.
    command: &'a str,
    /// The number of requests sent to the modelled drives.
    requests: u64,
    /// The sum of the times on the clocks of the modelled drives and guests, in seconds.
    virtual_seconds: f64,
    /// The duration in real time, in seconds.
    wall_seconds: f64,
}

/// A published experiment.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Experiment")]
struct ExperimentReport<'a> {
    name: &'a str,
    title: &'a str,
    /// Background on the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<&'a str>,
    sources: &'a [Source],
    /// The largest acceptable error of a figure, as a fraction of the published one.
    limit: f64,
    /// The steps that need only a modelled drive.
    steps: Vec<StepReport<'a>>,
    /// The steps that need a kernel; their `cells` are empty if they were not run.
    lab: Vec<LabStepReport<'a>>,
}

/// A workload that is run at several offsets.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Step")]
struct StepReport<'a> {
    #[serde(flatten)]
    step: &'a Step,
    /// The modelled drive on which it runs or ran.
    drive: &'a str,
    /// The numbers in the drive's profile that were fitted to published figures, or chosen by hand to match
    /// them; absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    fitted: Option<Vec<Fitted<'a>>>,
    arms: Vec<ArmReport<'a>>,
}

/// A number in the drive's profile that was fitted or chosen by hand.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Fitted<'a> {
    /// The path of the number in the profile.
    pub(crate) path: &'a str,
    /// The value as written in the profile.
    pub(crate) value: &'a str,
    /// What the number was fitted to.
    pub(crate) source: &'a str,
}

/// An offset, or several that were published as one figure.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Arm")]
struct ArmReport<'a> {
    #[serde(flatten)]
    arm: &'a Arm,
    figures: Vec<FigureReport<'a>>,
    /// The number of physical sectors per request that were read because only part of them was written;
    /// absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    rmw_reads_per_request: Option<f64>,
}

/// A modelled figure and the published one.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct FigureReport<'a> {
    /// The quantity that is compared.
    measure: Measure,
    /// The unit of `modelled` and `published`: "s", "IOPS" or "ms".
    unit: &'static str,
    /// The model's figure, or the mean over several offsets; absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    modelled: Option<f64>,
    /// The published figure; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<&'a Published>,
    /// The error of the modelled figure, as a fraction of the published one.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// The model's cost relative to the aligned arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    /// The published cost relative to the aligned arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_ratio: Option<f64>,
    /// The error of the model's ratio, as a fraction of the published one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_error: Option<f64>,
    /// Whether all known errors are within the limit; absent if nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<bool>,
    /// Whether the model was fitted to the figure or predicts it; absent if nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    /// The figures that the plausible read-modify-write policies give; absent if they were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    band: Option<BandReport>,
    /// The ratios that the plausible read-modify-write policies give; absent if they were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_band: Option<BandReport>,
}

/// The figures that the plausible read-modify-write policies of the drive's unpublished firmware give.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Band")]
struct BandReport {
    /// The lowest figure.
    lowest: f64,
    /// The highest figure.
    highest: f64,
    /// Whether the figure of at least one policy is within the limit of the published one; absent if no
    /// figure was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<bool>,
    /// The policy whose figure is nearest to the published one; absent if no figure was published, or if all
    /// policies give the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<RmwPolicy>,
    #[serde(flatten)]
    band: Band,
}

impl BandReport {
    fn of(band: &Band, published: Option<f64>, explained: Option<bool>) -> Self {
        let published = published.filter(|_| !band.is_point());
        let nearest = published.and_then(|value| band.nearest(value));
        Self { lowest: band.lowest(), highest: band.highest(), explained, nearest, band: band.clone() }
    }
}

impl<'a> ReproduceReport<'a> {
    pub(crate) fn of(reproduced: &'a Reproduced) -> Self {
        let (judged, within) = reproduced.verdict();
        let Tally { requests, seconds } = reproduced.tally();
        let run = |run: &'a ReproducedExperiment| {
            report(&run.experiment, run.outcome.as_ref(), run.lab.as_deref(), run.limit())
        };
        Self {
            experiments: reproduced.experiments.iter().map(run).collect(),
            joint: Some(&reproduced.judged.joints),
            published: Some(reproduced.judged.published),
            summary: Some(Summary {
                judged,
                within,
                command: &reproduced.way.command,
                requests,
                virtual_seconds: seconds,
                wall_seconds: reproduced.wall.as_secs_f64(),
            }),
        }
    }

    pub(crate) fn listed(experiments: &'a [Experiment]) -> Self {
        let experiments = experiments.iter().map(|experiment| report(experiment, None, None, None)).collect();
        Self { experiments, joint: None, published: None, summary: None }
    }

    pub(crate) fn judged(judged: &'a JudgedFigures) -> Self {
        let JudgedFigures { joints, published } = judged;
        Self { experiments: Vec::new(), joint: Some(joints), published: Some(*published), summary: None }
    }
}

impl Reproduced {
    pub(crate) fn verdict(&self) -> (usize, usize) {
        let verdicts = self.experiments.iter().map(ReproducedExperiment::verdict);
        verdicts.fold((0, 0), |sum, verdict| (sum.0 + verdict.0, sum.1 + verdict.1))
    }

    pub(crate) fn tally(&self) -> Tally {
        let models = self.experiments.iter().filter_map(|experiment| experiment.outcome.as_ref());
        let tallies = models.map(Outcome::tally);
        let sum = tallies.fold(Tally::default(), |sum, tally| sum.add(tally.requests, tally.seconds));
        let labs = self.experiments.iter().flat_map(ReproducedExperiment::lab_steps);
        let guests = labs.flat_map(|(_, outcome)| &outcome.cells).map(|cell| &cell.ended);
        guests.fold(sum, |sum, ended| sum.add(ended.requests, ended.virtual_seconds))
    }
}

impl ReproducedExperiment {
    /// Returns the largest acceptable error of a figure; `None` if nothing is judged.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.judged.then_some(self.experiment.limit)
    }

    pub(crate) fn lab_steps(&self) -> impl Iterator<Item = (&LabStep, &LabOutcome)> {
        self.experiment.lab.iter().zip(self.lab.iter().flatten())
    }

    pub(crate) fn published(&self) -> usize {
        if self.judged { published(&self.experiment) } else { 0 }
    }

    pub(crate) fn figures(&self) -> Result<Vec<Figure>, ProfileError> {
        let mut figures = Vec::new();
        if self.judged {
            figures
                .extend(self.outcome.iter().flat_map(|outcome| joint::of_drives(&self.experiment, outcome)));
            for (_, outcome) in self.lab_steps() {
                figures.extend(joint::of_lab(&self.experiment, &Profile::open(&outcome.drive)?, outcome));
            }
        }
        Ok(figures)
    }

    /// Returns how many published figures were judged, and how many of them are within the limit.
    pub(crate) fn verdict(&self) -> (usize, usize) {
        let Some(limit) = self.limit() else { return (0, 0) };
        let models =
            self.outcome.iter().flat_map(Outcome::judged).map(|judged| judged.error().abs() <= limit);
        let labs = self.lab_steps().flat_map(|(_, outcome)| &outcome.compared);
        let all: Vec<bool> = models.chain(labs.map(|compared| compared.is_within(limit))).collect();
        (all.len(), all.iter().filter(|within| **within).count())
    }
}

pub(crate) fn published(experiment: &Experiment) -> usize {
    let raw = experiment.steps.iter().flat_map(Step::published).count();
    raw + experiment.lab.iter().map(|step| compared(step, &[]).len()).sum::<usize>()
}

fn report<'a>(
    experiment: &'a Experiment,
    outcome: Option<&'a Outcome>,
    lab: Option<&'a [LabOutcome]>,
    limit: Option<f64>,
) -> ExperimentReport<'a> {
    let steps = experiment.steps.iter().enumerate().map(|(index, step)| {
        let outcome = outcome.and_then(|outcome| outcome.steps.get(index));
        step_report(experiment, step, outcome, limit)
    });
    let lab = experiment.lab.iter().enumerate().map(|(index, step)| {
        let outcome = lab.and_then(|outcomes| outcomes.get(index));
        lab::step(step, outcome, limit)
    });
    ExperimentReport {
        name: &experiment.name,
        title: &experiment.title,
        notes: experiment.notes.as_deref(),
        sources: &experiment.sources,
        limit: experiment.limit,
        steps: steps.collect(),
        lab: lab.collect(),
    }
}

fn step_report<'a>(
    experiment: &Experiment,
    step: &'a Step,
    outcome: Option<&'a StepOutcome>,
    limit: Option<f64>,
) -> StepReport<'a> {
    let origin = outcome.map(|outcome| joint::origin(&outcome.profile, experiment));
    let arms = step.arms.iter().enumerate().map(|(index, arm)| {
        let outcome = outcome.and_then(|outcome| outcome.arms.get(index));
        let figures = match outcome.zip(origin) {
            Some((outcome, origin)) => {
                outcome.figures.iter().map(|figure| FigureReport::of(figure, origin, limit)).collect()
            }
            None => step.measures.iter().map(|measure| FigureReport::listed(arm, *measure)).collect(),
        };
        ArmReport { arm, figures, rmw_reads_per_request: outcome.and_then(rmw_reads) }
    });
    StepReport {
        step,
        drive: outcome.map_or(&step.drive, |outcome| &outcome.drive),
        fitted: outcome.map(|outcome| fitted(&outcome.profile).collect()),
        arms: arms.collect(),
    }
}

/// Returns the drive's numbers that were fitted, or chosen by hand to suit published figures.
pub(crate) fn fitted(profile: &Profile) -> impl Iterator<Item = Fitted<'_>> {
    profile.figures.iter().filter_map(|figure| {
        let suits = |source: &&str| source.starts_with("fitted") || source.starts_with("chosen by hand");
        let source = figure.source.as_deref().filter(suits)?;
        Some(Fitted { path: &figure.path, value: &figure.value, source })
    })
}

/// Returns the physical sectors per request that were read to write a part of one.
fn rmw_reads(outcome: &ArmOutcome) -> Option<f64> {
    let reads: Option<u64> =
        outcome.runs.iter().map(|run| run.counters.map(|counters| counters.rmw_reads)).sum();
    let requests: u64 = outcome.runs.iter().map(|run| run.requests).sum();
    reads.filter(|_| requests > 0).map(|reads| float(reads) / float(requests))
}

impl<'a> FigureReport<'a> {
    fn listed(arm: &'a Arm, measure: Measure) -> Self {
        let (unit, published) = (measure.unit(), arm.published(measure));
        Self { measure, unit, published, ..Self::default() }
    }

    fn of(figure: &'a Compared, origin: Origin, limit: Option<f64>) -> Self {
        let ratio = figure.ratio.as_ref();
        let judged = limit.filter(|_| figure.pairs().any(|pair| pair.published.is_some()));
        let band = |pair: &Pair| {
            let explained = limit.and_then(|limit| pair.is_explained(limit));
            pair.band.as_ref().map(|band| BandReport::of(band, pair.published, explained))
        };
        Self {
            measure: figure.measure,
            unit: figure.measure.unit(),
            modelled: Some(figure.figure.modelled),
            published: figure.published.as_ref(),
            error: figure.figure.error(),
            ratio: ratio.map(|ratio| ratio.modelled),
            published_ratio: ratio.and_then(|ratio| ratio.published),
            ratio_error: ratio.and_then(Pair::error),
            within: judged.map(|limit| !figure.is_outside(limit)),
            origin: judged.map(|_| origin),
            band: band(&figure.figure),
            ratio_band: ratio.and_then(band),
        }
    }
}
