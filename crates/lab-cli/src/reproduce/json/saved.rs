//! Reads the figures of earlier runs from what `reproduce --json` printed, or `scripts/results` saved.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use serde::de::IgnoredAny;
use straddle_cli::exit::UsageError;
use straddle_drive::Profile;
use straddle_drive::disk::RmwPolicy;
use straddle_lab::reproduce::experiment::Statistic;
use straddle_lab::reproduce::joint::{Figure, Origin, base, own};
use straddle_lab::reproduce::lab::error;

pub(crate) struct Part {
    pub(crate) experiment: String,
    pub(crate) step: String,
    /// The drive, as after `drive:`.
    pub(crate) drive: String,
    pub(crate) figures: Vec<Figure>,
}

impl Part {
    pub(crate) fn is_of(&self, experiment: &str, step: &str, drive: &str) -> bool {
        (self.experiment.as_str(), self.step.as_str(), self.drive.as_str()) == (experiment, step, drive)
    }
}

#[derive(Deserialize)]
struct Document {
    experiments: Vec<Experiment>,
}

#[derive(Deserialize)]
struct Experiment {
    name: String,
    steps: Vec<Step>,
    lab: Vec<Step>,
}

/// A step that needs only a drive, with arms that have figures, or one that also needs a kernel.
#[derive(Deserialize)]
struct Step {
    name: String,
    drive: String,
    #[serde(default)]
    arms: Vec<Arm>,
    /// Empty if the step was not run.
    #[serde(default)]
    figures: Vec<IgnoredAny>,
    #[serde(default)]
    published: Vec<LabFigure>,
}

#[derive(Deserialize)]
struct Arm {
    #[serde(default)]
    figures: Vec<RawFigure>,
}

#[derive(Deserialize)]
struct RawFigure {
    published: Option<Published>,
    published_ratio: Option<f64>,
    error: Option<f64>,
    ratio_error: Option<f64>,
    within: Option<bool>,
    origin: Option<Origin>,
    band: Option<Band>,
    ratio_band: Option<Band>,
}

#[derive(Deserialize)]
struct Published {
    value: f64,
}

#[derive(Deserialize)]
struct Band {
    policies: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct LabFigure {
    of: Statistic,
    published: f64,
    range: Option<(f64, f64)>,
    error: Option<f64>,
    within: Option<bool>,
    origin: Option<Origin>,
    band: Option<Band>,
}

/// Adds the parts of a result. They replace those of an earlier one.
pub(crate) fn add(path: &Path, parts: &mut Vec<Part>) -> Result<()> {
    let refused =
        |what: &str, error: &dyn Display| UsageError(format!("{}: {what}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused("cannot read the result", &error))?;
    let document: Document = serde_json::from_str(&text)
        .map_err(|error| refused("is not a result of 'straddle reproduce --json'", &error))?;
    for Experiment { name, steps, lab } in document.experiments {
        for Step { name: step, drive, arms, figures, published } in steps.into_iter().chain(lab) {
            let raw = arms.into_iter().flat_map(|arm| arm.figures).flat_map(RawFigure::judged);
            let published = published.into_iter().filter(|it| !figures.is_empty() && it.within.is_some());
            let judged: Vec<Judged> = raw.chain(published.map(LabFigure::judged)).collect();
            if judged.is_empty() {
                continue;
            }
            let own = own(&Profile::open(&drive)?);
            let figure = |judged: Judged| Figure {
                experiment: name.clone(),
                drive: base(&drive).to_owned(),
                own,
                origin: judged.origin.unwrap_or(Origin::Predicted),
                ratios: match judged.policies {
                    Some(policies) => {
                        policies.into_iter().map(|(policy, ratio)| (Some(policy), ratio)).collect()
                    }
                    None => judged.own.into_iter().map(|ratio| (own, ratio)).collect(),
                },
            };
            let figures = judged.into_iter().map(figure).collect();
            parts.retain(|part| !part.is_of(&name, &step, &drive));
            parts.push(Part { experiment: name.clone(), step, drive, figures });
        }
    }
    Ok(())
}

/// A figure relative to the published one: with the drive's own policy, and with each.
struct Judged {
    origin: Option<Origin>,
    own: Option<f64>,
    policies: Option<Vec<(RmwPolicy, f64)>>,
}

impl Judged {
    fn of(
        origin: Option<Origin>,
        error: Option<f64>,
        band: Option<Band>,
        ratio: impl Fn(f64) -> f64,
    ) -> Self {
        let policies = band.map(|band| {
            let known = |(name, value): (String, f64)| Some((RmwPolicy::named(&name)?, ratio(value)));
            band.policies.into_iter().filter_map(known).collect()
        });
        Self { origin, own: error.map(|error| 1.0 + error), policies }
    }
}

impl RawFigure {
    /// Returns the figure and its ratio, as far as they were compared.
    fn judged(self) -> impl Iterator<Item = Judged> {
        let origin = self.origin;
        let judged = move |published: Option<f64>, error: Option<f64>, band| {
            let published = published.zip(error)?.0;
            Some(Judged::of(origin, error, band, |value| value / published))
        };
        let is_judged = self.within.is_some();
        let figure = judged(self.published.map(|published| published.value), self.error, self.band);
        let ratio = judged(self.published_ratio, self.ratio_error, self.ratio_band);
        [figure, ratio].into_iter().flatten().filter(move |_| is_judged)
    }
}

impl LabFigure {
    fn judged(self) -> Judged {
        let Self { of, published, range, .. } = self;
        Judged::of(self.origin, self.error, self.band, |value| 1.0 + error(of, published, range, value))
    }
}
