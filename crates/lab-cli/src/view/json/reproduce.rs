//! What `reproduce --json` prints.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_drive::disk::RmwPolicy;
use straddle_lab::reproduce::experiment::{
    Access, Arm, ArmOutcome, Compared, Experiment, Measure, Outcome, Source, Step, StepOutcome, Tally,
};
use straddle_lab::reproduce::lab::Settings;
use straddle_lab::reproduce::policy::{Band, Choice};

mod lab;

use self::lab::LabStepReport;

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 2;

/// A run of several experiments.
pub(crate) struct Reproduced {
    pub(crate) experiments: Vec<ReproducedExperiment>,
    pub(crate) way: Way,
    pub(crate) wall: Duration,
}

/// A run of an experiment or of a part of it.
pub(crate) struct ReproducedExperiment {
    pub(crate) experiment: Experiment,
    /// Whether figures are judged. False on a drive other than those with published figures.
    pub(crate) judged: bool,
    /// The results of the steps that need only a drive, if they were run.
    pub(crate) outcome: Option<Outcome>,
    /// The results of the steps that need a kernel, if they were run, in the order of the experiment.
    pub(crate) lab: Option<Vec<straddle_lab::reproduce::lab::StepOutcome>>,
}

/// How the experiments were run.
pub(crate) struct Way {
    /// The settings of the lab.
    pub(crate) settings: Settings,
    /// The command that repeats the run.
    pub(crate) command: String,
}

/// What `straddle reproduce --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle reproduce")]
pub(crate) struct ReproduceReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The experiments, in the order in which they were named.
    experiments: Vec<ExperimentReport>,
    /// The policy of read-modify-write that is chosen for each drive, with --policies; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<Vec<ChoiceReport>>,
    /// Totals of the run; absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<SummaryReport>,
}

/// Totals over all experiments.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Summary")]
struct SummaryReport {
    /// The number of published figures and ratios that were compared; 0 on a drive other than the published
    /// one.
    judged: usize,
    /// The number of those within the limit of their experiment.
    within: usize,
    /// The command that repeats this run.
    command: String,
    /// The number of requests.
    requests: u64,
    /// The sum of the times on the clocks of the modelled drives and guests, in seconds.
    virtual_seconds: f64,
    /// The duration in real time, in seconds.
    wall_seconds: f64,
}

/// A published experiment.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Experiment")]
struct ExperimentReport {
    name: String,
    title: String,
    /// Background on the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    sources: Vec<SourceReport>,
    /// The largest acceptable error of a figure, as a fraction of the published one.
    limit: f64,
    /// The steps that need only a modelled drive.
    steps: Vec<StepReport>,
    /// The steps that need a kernel; their `cells` are empty if they were not run.
    lab: Vec<LabStepReport>,
}

/// A publication.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Source")]
struct SourceReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    year: u16,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// A workload that is run at several offsets.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Step")]
struct StepReport {
    name: String,
    title: String,
    /// What is done otherwise than the publication did it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deviations: Vec<String>,
    /// Whether the published program reached the drive through the page cache, which may have sent other
    /// requests than the program's.
    page_cache: bool,
    /// The modelled drive on which it runs or ran.
    drive: String,
    /// The numbers of the drive that were fitted to published figures, or chosen by hand to match them;
    /// absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    fitted: Option<Vec<FittedReport>>,
    arms: Vec<ArmReport>,
}

/// A number of the drive that was fitted or chosen by hand.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fitted")]
struct FittedReport {
    /// Its path in the profile.
    path: String,
    /// The value as written there.
    value: String,
    /// What it was fitted to.
    source: String,
}

/// An offset, or several that were published as one figure.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Arm")]
struct ArmReport {
    name: String,
    /// Whether the other arms are compared with this one.
    aligned: bool,
    /// The offsets in bytes, counted from the start of the workload.
    offsets_bytes: Vec<u64>,
    figures: Vec<FigureReport>,
    /// The number of physical sectors per request that were read because only part of them was written;
    /// absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    rmw_reads_per_request: Option<f64>,
}

/// A modelled figure and the published one.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct FigureReport {
    /// The quantity.
    measure: MeasureReport,
    /// The unit of `modelled` and `published`.
    unit: &'static str,
    /// The model's figure, or the mean over several offsets; absent from a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    modelled: Option<f64>,
    /// The published figure; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<PublishedReport>,
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
    /// Whether all known errors are within the limit; absent if nothing is judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<bool>,
    /// What the plausible policies of read-modify-write give; absent if they were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    band: Option<BandReport>,
    /// What they give for the ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_band: Option<BandReport>,
}

/// What firmware may have done that nobody has published, and what each of it gives.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Band")]
struct BandReport {
    /// The lowest figure.
    lowest: f64,
    /// The highest figure.
    highest: f64,
    /// Whether one of the policies gives the published figure to within the limit; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<bool>,
    /// The policy whose figure is nearest to the published one; absent if there is none, or if all give the
    /// same.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<&'static str>,
    /// Each policy's figure.
    policies: Vec<PolicyReport>,
}

/// The figure of a policy.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
struct PolicyReport {
    /// The policy of read-modify-write.
    policy: &'static str,
    /// Its figure.
    value: f64,
}

/// The policy that is chosen for a drive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Choice")]
struct ChoiceReport {
    /// The drive's profile.
    drive: String,
    /// The policy in its profile.
    own: &'static str,
    /// The policy with the least worst error; absent if the figures do not tell the policies apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<&'static str>,
    /// The number of published figures and ratios that decide.
    figures: usize,
    /// Whether those are of programs that reached the drive directly.
    raw: bool,
    /// The worst error with each policy, as a fraction of the published figure.
    worst: Vec<PolicyReport>,
}

fn choice_report(choice: &Choice) -> ChoiceReport {
    ChoiceReport {
        drive: choice.drive.clone(),
        own: choice.own.name(),
        chosen: choice.chosen.map(RmwPolicy::name),
        figures: choice.figures,
        raw: choice.raw,
        worst: choice.worst.iter().map(policy_report).collect(),
    }
}

fn policy_report((policy, value): &(straddle_drive::disk::RmwPolicy, f64)) -> PolicyReport {
    PolicyReport { policy: policy.name(), value: *value }
}

/// Reports a band, beside the published value.
fn band_report(band: &Band, published: Option<f64>, explained: Option<bool>) -> BandReport {
    BandReport {
        lowest: band.lowest(),
        highest: band.highest(),
        explained,
        nearest: published
            .filter(|_| !band.is_point())
            .and_then(|value| band.nearest(value))
            .map(RmwPolicy::name),
        policies: band.values.iter().map(policy_report).collect(),
    }
}

/// A quantity that is measured.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Measure")]
enum MeasureReport {
    /// The time from the first request to the end of the last, in seconds.
    Elapsed,
    /// Requests per second.
    Iops,
    /// The mean latency of a flush, in milliseconds.
    SyncLatency,
}

/// A published figure.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Published")]
struct PublishedReport {
    /// The figure, or the middle of the range.
    value: f64,
    /// The lower end of the range, if a range was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    /// The upper end of the range, if a range was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    /// Background on this figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl ReproduceReport {
    /// Reports experiments that were run.
    pub(crate) fn of(reproduced: &Reproduced) -> Self {
        let experiments = reproduced.experiments.iter().map(run_report).collect();
        let (judged, within) = reproduced.verdict();
        let Tally { requests, seconds } = reproduced.tally();
        let wall_seconds = reproduced.wall.as_secs_f64();
        let command = reproduced.way.command.clone();
        let summary =
            SummaryReport { judged, within, command, requests, virtual_seconds: seconds, wall_seconds };
        let (schema, straddle) = (SCHEMA, env!("CARGO_PKG_VERSION"));
        Self { schema, straddle, experiments, policies: None, summary: Some(summary) }
    }

    /// Lists experiments without running them.
    pub(crate) fn listed(experiments: &[Experiment]) -> Self {
        let experiments = experiments.iter().map(|experiment| report(experiment, None, None, None)).collect();
        let (schema, straddle) = (SCHEMA, env!("CARGO_PKG_VERSION"));
        Self { schema, straddle, experiments, policies: None, summary: None }
    }

    /// Reports the policies chosen for drives.
    pub(crate) fn chosen(choices: &[Choice]) -> Self {
        let (schema, straddle) = (SCHEMA, env!("CARGO_PKG_VERSION"));
        let policies = Some(choices.iter().map(choice_report).collect());
        Self { schema, straddle, experiments: Vec::new(), policies, summary: None }
    }
}

impl Reproduced {
    /// Returns how many published figures were judged, and how many of them are within their limit.
    pub(crate) fn verdict(&self) -> (usize, usize) {
        let verdicts = self.experiments.iter().map(ReproducedExperiment::verdict);
        verdicts.fold((0, 0), |sum, verdict| (sum.0 + verdict.0, sum.1 + verdict.1))
    }

    /// Returns the requests and the virtual time of all experiments.
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

    /// Returns the lab steps that were run.
    pub(crate) fn lab_steps(
        &self,
    ) -> impl Iterator<
        Item = (&straddle_lab::reproduce::experiment::LabStep, &straddle_lab::reproduce::lab::StepOutcome),
    > {
        self.experiment.lab.iter().zip(self.lab.iter().flatten())
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

fn run_report(reproduced: &ReproducedExperiment) -> ExperimentReport {
    let ReproducedExperiment { experiment, outcome, lab, .. } = reproduced;
    report(experiment, outcome.as_ref(), lab.as_deref(), reproduced.limit())
}

fn report(
    experiment: &Experiment,
    outcome: Option<&Outcome>,
    lab: Option<&[straddle_lab::reproduce::lab::StepOutcome]>,
    limit: Option<f64>,
) -> ExperimentReport {
    let steps = experiment.steps.iter().enumerate().map(|(index, step)| {
        let outcome = outcome.and_then(|outcome| outcome.steps.get(index));
        step_report(step, outcome, limit)
    });
    let lab = experiment.lab.iter().enumerate().map(|(index, step)| {
        let outcome = lab.and_then(|outcomes| outcomes.get(index));
        lab::step(step, outcome, limit)
    });
    ExperimentReport {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        notes: experiment.notes.clone(),
        sources: experiment.sources.iter().map(source_report).collect(),
        limit: experiment.limit,
        steps: steps.collect(),
        lab: lab.collect(),
    }
}

fn source_report(source: &Source) -> SourceReport {
    let Source { author, year, title, address } = source.clone();
    SourceReport { author, year, title, address }
}

fn step_report(step: &Step, outcome: Option<&StepOutcome>, limit: Option<f64>) -> StepReport {
    let fitted = outcome.map(|outcome| {
        let report = |(path, value, source): (&str, &str, &str)| FittedReport {
            path: path.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
        };
        fitted(&outcome.profile).map(report).collect()
    });
    let arms = step.arms.iter().enumerate().map(|(index, arm)| {
        let outcome = outcome.and_then(|outcome| outcome.arms.get(index));
        arm_report(arm, &step.measures, outcome, limit)
    });
    StepReport {
        name: step.name.clone(),
        title: step.title.clone(),
        deviations: step.deviations.clone(),
        page_cache: step.access == Access::PageCache,
        drive: outcome.map_or_else(|| step.drive.clone(), |outcome| outcome.drive.clone()),
        fitted,
        arms: arms.collect(),
    }
}

/// Returns path, value and source of the drive's numbers that were fitted, or chosen by hand to suit
/// published figures.
pub(crate) fn fitted(profile: &Profile) -> impl Iterator<Item = (&str, &str, &str)> {
    profile.figures.iter().filter_map(|figure| {
        let suits = |source: &&str| source.starts_with("fitted") || source.starts_with("chosen by hand");
        let source = figure.source.as_deref().filter(suits)?;
        Some((figure.path.as_str(), figure.value.as_str(), source))
    })
}

fn arm_report(
    arm: &Arm,
    measures: &[Measure],
    outcome: Option<&ArmOutcome>,
    limit: Option<f64>,
) -> ArmReport {
    let figures = match outcome {
        Some(outcome) => outcome.figures.iter().map(|figure| figure_report(figure, limit)).collect(),
        None => measures.iter().map(|measure| listed(arm, *measure)).collect(),
    };
    let rmw_reads_per_request = outcome.and_then(rmw_reads);
    ArmReport {
        name: arm.name.clone(),
        aligned: arm.aligned,
        offsets_bytes: arm.offsets.clone(),
        figures,
        rmw_reads_per_request,
    }
}

/// Returns the physical sectors per request that were read to write a part of one.
fn rmw_reads(outcome: &ArmOutcome) -> Option<f64> {
    let float = |number: u64| u32::try_from(number).map_or(f64::INFINITY, f64::from);
    let reads: Option<u64> =
        outcome.runs.iter().map(|run| run.counters.map(|counters| counters.rmw_reads)).sum();
    let requests: u64 = outcome.runs.iter().map(|run| run.requests).sum();
    reads.filter(|_| requests > 0).map(|reads| float(reads) / float(requests))
}

fn measure_report(measure: Measure) -> MeasureReport {
    match measure {
        Measure::Elapsed => MeasureReport::Elapsed,
        Measure::Iops => MeasureReport::Iops,
        Measure::SyncLatency => MeasureReport::SyncLatency,
    }
}

fn published_report(published: &straddle_lab::reproduce::experiment::Published) -> PublishedReport {
    let (value, low, high) = (published.value, published.low, published.high);
    PublishedReport { value, low, high, note: published.note.clone() }
}

fn listed(arm: &Arm, measure: Measure) -> FigureReport {
    FigureReport {
        measure: measure_report(measure),
        unit: measure.unit(),
        modelled: None,
        published: arm.published(measure).map(published_report),
        error: None,
        ratio: None,
        published_ratio: None,
        ratio_error: None,
        within: None,
        band: None,
        ratio_band: None,
    }
}

fn figure_report(figure: &Compared, limit: Option<f64>) -> FigureReport {
    let errors = [figure.error(), figure.ratio_error()];
    let within = limit.filter(|_| errors.iter().any(Option::is_some));
    let published = figure.published.as_ref().map(|published| published.value);
    let ratio = figure.ratio.and_then(|(_, published)| published);
    FigureReport {
        measure: measure_report(figure.measure),
        unit: figure.measure.unit(),
        modelled: Some(figure.modelled),
        published: figure.published.as_ref().map(published_report),
        error: errors[0],
        ratio: figure.ratio.map(|(ours, _)| ours),
        published_ratio: ratio,
        ratio_error: errors[1],
        within: within.map(|limit| errors.into_iter().flatten().all(|error| error.abs() <= limit)),
        band: figure
            .band
            .as_ref()
            .map(|band| band_report(band, published, limit.and_then(|limit| figure.is_explained(limit)))),
        ratio_band: figure
            .ratio_band
            .as_ref()
            .map(|band| band_report(band, ratio, limit.and_then(|limit| figure.is_ratio_explained(limit)))),
    }
}
