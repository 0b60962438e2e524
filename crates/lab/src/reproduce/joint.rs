//! Whether one policy of read-modify-write suits all published figures of a drive, from raw requests and from file
//! systems. A policy is chosen for a drive, never for a figure.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_drive::Profile;
use straddle_drive::disk::RmwPolicy;

use crate::reproduce::experiment::{Experiment, Judged, LabStep, Outcome, Step};
use crate::reproduce::lab::{self, Comparison};
use crate::reproduce::policy::{Band, Policies};

/// The error of a figure that is within the first limit, and within the second.
pub const LIMITS: [f64; 2] = [0.20, 0.25];

/// Worst ratios that are closer than this, as logarithms, are equal.
const EQUAL: f64 = 0.001;

/// How the model's figure was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A number or the policy of the drive was chosen to match this published figure.
    Fitted,
    /// No property of the drive was chosen to match this figure.
    Predicted,
}

/// A published figure or ratio of a drive, and what the model gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of the experiment.
    pub experiment: String,
    /// The drive, without options.
    pub drive: String,
    /// The policy of its profile; `None` if policies make no difference on it.
    pub own: Option<RmwPolicy>,
    /// How the model came to it.
    pub origin: Origin,
    /// The model's figure with each policy that was run, relative to the published one. Empty if it failed.
    pub ratios: Vec<(Option<RmwPolicy>, f64)>,
}

/// How well each read-modify-write policy matches the published figures of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Joint")]
pub struct Joint {
    /// The name of the drive's profile.
    pub drive: String,
    /// The experiments that published figures of the drive.
    pub experiments: Vec<String>,
    /// The policy of the drive's profile; absent if policies make no difference on this drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<RmwPolicy>,
    /// The policy that matches all figures best; absent if policies make no difference on this drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<RmwPolicy>,
    /// The number of published figures and ratios of the drive.
    pub figures: usize,
    /// The number of `figures` to which a number or the policy of the drive was fitted.
    pub fitted: usize,
    /// The score of each policy, the best first.
    pub policies: Vec<Score>,
    /// For each experiment, the score on it of the policy that matches the other experiments best; empty if
    /// there is only one experiment.
    pub left_out: Vec<LeftOut>,
}

/// How well a policy matches the published figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Score {
    /// The name of the policy; absent if policies make no difference on the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<RmwPolicy>,
    /// The number of figures that were run with the policy. A policy that was run for fewer figures than
    /// another is not chosen.
    pub figures: usize,
    /// The number of figures whose error is at most 20 %.
    pub within_20_percent: usize,
    /// The number of figures whose error is at most 25 %.
    pub within_25_percent: usize,
    /// The number of predicted figures whose error is at most 20 %.
    pub predicted_within_20_percent: usize,
    /// The largest ratio of a figure to the published one, or the inverse of the smallest ratio if that is
    /// larger.
    pub worst_ratio: f64,
}

/// The score, on one experiment, of the policy that the drive's other experiments chose.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The name of the experiment.
    pub experiment: String,
    /// The number of figures of the experiment.
    pub figures: usize,
    /// The score, on these figures, of the policy that matches the drive's other experiments best.
    pub score: Score,
}

/// Numbers of figures over all drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All.
    pub figures: usize,
    /// Those that were fitted.
    pub fitted: usize,
    /// Those within 20 % with the policies of the profiles.
    pub own: usize,
    /// Those of them that were predicted.
    pub own_predicted: usize,
    /// Those within 20 % with the policy chosen for each drive.
    pub chosen: usize,
    /// Those of drives with several experiments.
    pub left_out: usize,
    /// Those of them that are within 20 % with the policy chosen by the drive's other experiments.
    pub left_out_within: usize,
}

/// Returns a drive's name without options.
pub fn base(specification: &str) -> &str {
    specification.split(',').next().unwrap_or_default()
}

/// Judges each drive, in the order of their first figures.
pub fn judge(figures: &[Figure]) -> Vec<Joint> {
    let mut drives: Vec<&str> = Vec::new();
    figures.iter().for_each(|figure| push(&mut drives, &figure.drive));
    let of = |drive: &str| figures.iter().filter(|figure| figure.drive == drive).collect::<Vec<_>>();
    drives.into_iter().map(|drive| joint(drive, &of(drive))).collect()
}

fn push<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

fn joint(drive: &str, figures: &[&Figure]) -> Joint {
    let own = figures.first().and_then(|figure| figure.own);
    let mut experiments: Vec<&str> = Vec::new();
    figures.iter().for_each(|figure| push(&mut experiments, &figure.experiment));
    let policies = scores(figures, own);
    let mut left_out = Vec::new();
    for experiment in experiments.iter().filter(|_| experiments.len() > 1) {
        let (out, others): (Vec<&Figure>, Vec<&Figure>) =
            figures.iter().partition(|figure| figure.experiment == *experiment);
        let Some(best) = scores(&others, own).first().copied() else { continue };
        let score = score(&out, best.policy);
        left_out.push(LeftOut { experiment: (*experiment).to_owned(), figures: out.len(), score });
    }
    Joint {
        drive: drive.to_owned(),
        own,
        chosen: policies.first().and_then(|best| best.policy),
        figures: figures.len(),
        fitted: figures.iter().filter(|figure| figure.origin == Origin::Fitted).count(),
        policies,
        left_out,
        experiments: experiments.into_iter().map(str::to_owned).collect(),
    }
}

fn scores(figures: &[&Figure], own: Option<RmwPolicy>) -> Vec<Score> {
    let mut policies = Vec::new();
    figures.iter().flat_map(|figure| &figure.ratios).for_each(|(policy, _)| push(&mut policies, *policy));
    let mut scores: Vec<Score> = policies.into_iter().map(|policy| score(figures, policy)).collect();
    let rank = |score: &Score| (score.figures, score.within_20_percent, score.within_25_percent);
    scores.sort_by(|one, other| {
        rank(other).cmp(&rank(one)).then(one.worst_ratio.total_cmp(&other.worst_ratio))
    });
    let is_tied = |best: &Score, score: &Score| {
        rank(score) == rank(best) && (score.worst_ratio / best.worst_ratio).ln() <= EQUAL
    };
    if let Some(index) = scores.iter().position(|score| score.policy == own)
        && is_tied(&scores[0], &scores[index])
    {
        scores[..=index].rotate_right(1);
    }
    scores
}

fn score(figures: &[&Figure], policy: Option<RmwPolicy>) -> Score {
    let of =
        |figure: &&Figure| figure.ratios.iter().find(|(known, _)| *known == policy).map(|(_, ratio)| *ratio);
    let ratios: Vec<f64> = figures.iter().filter_map(of).collect();
    let is_within = |ratio: f64, limit: f64| (ratio - 1.0).abs() <= limit;
    let predicted = figures.iter().filter(|figure| figure.origin == Origin::Predicted).filter_map(of);
    let within = |limit: f64| ratios.iter().filter(|ratio| is_within(**ratio, limit)).count();
    let [within_20_percent, within_25_percent] = LIMITS.map(within);
    let worst_ratio = ratios.iter().map(|ratio| ratio.max(ratio.recip())).fold(1.0, f64::max);
    Score {
        policy,
        figures: ratios.len(),
        within_20_percent,
        within_25_percent,
        predicted_within_20_percent: predicted.filter(|ratio| is_within(*ratio, LIMITS[0])).count(),
        worst_ratio,
    }
}

impl Joint {
    /// Returns the score of a policy, if it was run.
    pub fn score(&self, policy: Option<RmwPolicy>) -> Option<&Score> {
        self.policies.iter().find(|score| score.policy == policy)
    }
}

impl Totals {
    /// Adds up the numbers of all drives.
    pub fn of(joints: &[Joint]) -> Self {
        let mut totals = Self::default();
        for joint in joints {
            let (own, chosen) = (joint.score(joint.own), joint.score(joint.chosen));
            totals.figures += joint.figures;
            totals.fitted += joint.fitted;
            totals.own += own.map_or(0, |score| score.within_20_percent);
            totals.own_predicted += own.map_or(0, |score| score.predicted_within_20_percent);
            totals.chosen += chosen.map_or(0, |score| score.within_20_percent);
            totals.left_out += joint.left_out.iter().map(|left| left.figures).sum::<usize>();
            totals.left_out_within +=
                joint.left_out.iter().map(|left| left.score.within_20_percent).sum::<usize>();
        }
        totals
    }
}

/// Returns how the model comes to the raw figures of an experiment.
pub fn origin(profile: &Profile, experiment: &Experiment) -> Origin {
    let fit = profile.fit.as_ref();
    let is_of = |of: &String| of.split('/').next() == Some(&*experiment.name);
    let is_fitted =
        fit.is_some_and(|fit| fit.experiments.contains(&experiment.name) || fit.chosen.iter().any(is_of));
    if is_fitted { Origin::Fitted } else { Origin::Predicted }
}

/// Notes how the model came to each figure of a lab step: a step may repeat a raw figure to which the drive is
/// fitted, or a value of the drive may have been chosen to match it.
pub fn note_origins(
    experiment: &Experiment,
    step: &LabStep,
    profile: &Profile,
    outcome: &mut lab::StepOutcome,
) {
    let chosen = profile.fit.iter().flat_map(|fit| &fit.chosen).filter_map(|of| of.split_once('/'));
    let chosen: Vec<(&str, &str)> = chosen.collect();
    let steps = experiment.steps.iter().filter(|step| base(&step.drive) == base(&outcome.drive));
    let raw: Vec<(&str, f64)> = steps.flat_map(Step::published).collect();
    for compared in &mut outcome.compared {
        let is_same = |(unit, value): &(&str, f64)| {
            *unit == compared.unit_name() && (value / compared.published - 1.0).abs() < 1e-9
        };
        let repeated = raw.iter().any(is_same);
        let measure = step.measures[compared.measure].name.as_str();
        compared.origin = Some(match repeated {
            _ if chosen.contains(&(experiment.name.as_str(), measure)) => Origin::Fitted,
            true => origin(profile, experiment),
            false => Origin::Predicted,
        });
    }
}

/// Returns the published figures of the steps that need only a drive.
pub fn of_drives(experiment: &Experiment, outcome: &Outcome) -> Vec<Figure> {
    let figure = |judged: Judged| {
        let step = &outcome.steps[judged.step];
        let own = own(&step.profile);
        Figure {
            experiment: experiment.name.clone(),
            drive: base(&step.drive).to_owned(),
            own,
            origin: origin(&step.profile, experiment),
            ratios: ratios(own, Some(judged.modelled), judged.band.as_ref(), |value| {
                value / judged.published
            }),
        }
    };
    outcome.judged().into_iter().map(figure).collect()
}

/// Returns the published figures of a step in the lab. A figure of a guest that failed has no ratio.
pub fn of_lab(experiment: &Experiment, profile: &Profile, outcome: &lab::StepOutcome) -> Vec<Figure> {
    let own = own(profile);
    let figure = |compared: &Comparison| Figure {
        experiment: experiment.name.clone(),
        drive: base(&outcome.drive).to_owned(),
        own,
        origin: compared.origin.unwrap_or(Origin::Predicted),
        ratios: ratios(own, compared.ours, compared.band.as_ref(), |value| 1.0 + compared.error_of(value)),
    };
    outcome.compared.iter().map(figure).collect()
}

/// Returns the policy of a drive's profile; `None` if policies make no difference on it.
pub fn own(profile: &Profile) -> Option<RmwPolicy> {
    Policies::of(profile).map(|policies| policies.own)
}

fn ratios(
    own: Option<RmwPolicy>,
    ours: Option<f64>,
    band: Option<&Band>,
    ratio: impl Fn(f64) -> f64,
) -> Vec<(Option<RmwPolicy>, f64)> {
    match band {
        Some(band) => band.values.iter().map(|(policy, value)| (Some(*policy), ratio(*value))).collect(),
        None => ours.into_iter().map(|value| (own, ratio(value))).collect(),
    }
}
