//! Runs an experiment on modelled drives, and puts our figures beside the published ones.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::{Profile, ProfileError};
use straddle_measure::bench::{Host, Modelled, Samples, Silent, run};

use super::{Arm, Experiment, ExperimentError, Measure, Published, Step};
use crate::reproduce::float;
use crate::reproduce::policy::{self, Band, Policies};

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results of the steps, in the order of the experiment.
    pub steps: Vec<StepOutcome>,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The modelled drive it ran on.
    pub drive: String,
    /// The profile of that drive.
    pub profile: Profile,
    /// The results of the arms, in the order of the step.
    pub arms: Vec<ArmOutcome>,
}

/// The result of an arm.
#[derive(Clone, Debug)]
pub struct ArmOutcome {
    /// The measurements at each offset.
    pub runs: Vec<Samples>,
    /// One figure for each of the step's measures.
    pub figures: Vec<Compared>,
}

/// Our figure and the published one.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What was measured.
    pub measure: Measure,
    /// The figure; with several offsets, their mean.
    pub figure: Pair,
    /// The smallest of several offsets.
    pub lowest: f64,
    /// The largest of several offsets.
    pub highest: f64,
    /// The published figure, if there is one.
    pub published: Option<Published>,
    /// The cost relative to the aligned arm. `None` for that arm, or if there is none.
    pub ratio: Option<Pair>,
}

/// A value of ours and the published one.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Our value.
    pub modelled: f64,
    /// The published value, if there is one.
    pub published: Option<f64>,
    /// What the plausible policies of read-modify-write give, if they were run.
    pub band: Option<Band>,
}

/// A figure that can be judged against a published one.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Index of the step.
    pub step: usize,
    /// Index of the arm.
    pub arm: usize,
    /// What was measured.
    pub measure: Measure,
    /// Whether the figure itself is judged, or the ratio.
    pub quantity: Quantity,
    /// Our value.
    pub modelled: f64,
    /// The published value.
    pub published: f64,
    /// What the plausible policies give, if they were run.
    pub band: Option<Band>,
}

/// Which quantity of an arm is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The figure itself.
    Figure,
    /// The cost relative to the aligned arm.
    Ratio,
}

/// The number of requests run, and the time they took on the drives' clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Reads and writes.
    pub requests: u64,
    /// Seconds of virtual time.
    pub seconds: f64,
}

impl Experiment {
    /// Runs every step, on `drive` if given, otherwise on the step's own. The steps run in parallel, each offset on a
    /// drive fresh from power-on, so the figures are the same on every machine.
    pub fn reproduce(
        &self,
        drive: Option<&str>,
        open: &(dyn Fn(&str) -> Result<Profile, ProfileError> + Sync),
    ) -> Result<Outcome, ExperimentError> {
        let mut profiles = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let name = drive.unwrap_or(&step.drive);
            let failed = |source| {
                let (name, step) = (self.name.clone(), step.name.clone());
                ExperimentError::Drive { name, step, source: Box::new(source) }
            };
            profiles.push((name.to_owned(), open(name).map_err(failed)?));
        }
        let mut runs = Vec::new();
        for (step, drive) in self.steps.iter().zip(&profiles) {
            for arm in &step.arms {
                runs.extend(arm.offsets.iter().map(|offset| (step, arm, drive, *offset)));
            }
        }
        let run_one = |(step, arm, (name, profile), offset): (&Step, &Arm, &(String, Profile), u64)| {
            let mut target = Modelled::new(name, profile);
            run(&mut target, &step.workload.at(offset), Host::default(), &mut Silent).map_err(|source| {
                let (name, step, arm) = (self.name.clone(), step.name.clone(), arm.name.clone());
                ExperimentError::Run { name, step, arm, source: Box::new(source) }
            })
        };
        let samples = runs.into_par_iter().map(run_one).collect::<Result<Vec<Samples>, ExperimentError>>();
        let mut samples = samples?.into_iter();
        let steps = self.steps.iter().zip(profiles).map(|(step, (drive, profile))| {
            let runs =
                step.arms.iter().map(|arm| samples.by_ref().take(arm.offsets.len()).collect()).collect();
            StepOutcome { drive, profile, arms: compared(step, runs) }
        });
        Ok(Outcome { steps: steps.collect() })
    }

    /// Runs every step with each plausible policy of read-modify-write, and puts the bands into the `outcome` of
    /// [`Experiment::reproduce`] on the same drive. A drive on which they make no difference has no band.
    pub fn band(&self, drive: Option<&str>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        for (step, own) in self.steps.iter().zip(&mut outcome.steps) {
            let Some(policies) = Policies::of(&own.profile) else { continue };
            let part = Self { steps: vec![step.clone()], lab: Vec::new(), ..self.clone() };
            let mut with = Vec::new();
            for policy in policies.all {
                let other = if policy == policies.own {
                    own.arms.clone()
                } else {
                    let open = |specification: &str| policy::open(specification, Some(policy), None);
                    part.reproduce(drive, &open)?.steps.remove(0).arms
                };
                with.push((policy, other));
            }
            for (arm, arm_outcome) in own.arms.iter_mut().enumerate() {
                for (number, figure) in arm_outcome.figures.iter_mut().enumerate() {
                    let each = || with.iter().map(|(policy, arms)| (*policy, &arms[arm].figures[number]));
                    let values = each().map(|(policy, other)| (policy, other.figure.modelled));
                    figure.figure.band = Band::new(values.collect());
                    if let Some(ratio) = &mut figure.ratio {
                        let ratios = each()
                            .filter_map(|(policy, other)| Some((policy, other.ratio.as_ref()?.modelled)));
                        ratio.band = Band::new(ratios.collect());
                    }
                }
            }
        }
        Ok(())
    }
}

fn compared(step: &Step, runs: Vec<Vec<Samples>>) -> Vec<ArmOutcome> {
    let of = |measure: Measure, samples: &Samples| measure.of(samples, step.access);
    let mean = |runs: &[Samples], measure: Measure| {
        runs.iter().map(|samples| of(measure, samples)).sum::<f64>() / float(runs.len() as u64)
    };
    let aligned = step.arms.iter().position(|arm| arm.aligned);
    let reference = |measure: Measure| {
        aligned.map(|index| (mean(&runs[index], measure), step.arms[index].published(measure)))
    };
    let figure = |index: usize, measure: Measure| {
        let each = runs[index].iter().map(|samples| of(measure, samples));
        let modelled = mean(&runs[index], measure);
        let published = step.arms[index].published(measure);
        let ratio = reference(measure).filter(|_| aligned != Some(index)).map(|(ours, theirs)| {
            let theirs = published.zip(theirs).map(|(value, base)| measure.times(value.value, base.value));
            Pair { modelled: measure.times(modelled, ours), published: theirs, band: None }
        });
        Compared {
            measure,
            figure: Pair { modelled, published: published.map(|published| published.value), band: None },
            lowest: each.clone().fold(f64::INFINITY, f64::min),
            highest: each.fold(0.0, f64::max),
            published: published.cloned(),
            ratio,
        }
    };
    let figures =
        |index: usize| step.measures.iter().map(|measure| figure(index, *measure)).collect::<Vec<_>>();
    let figures: Vec<_> = (0..runs.len()).map(figures).collect();
    runs.into_iter().zip(figures).map(|(runs, figures)| ArmOutcome { runs, figures }).collect()
}

impl Pair {
    /// Returns the error of our value, as a share of the published one.
    pub fn error(&self) -> Option<f64> {
        self.published.map(|published| self.modelled / published - 1.0)
    }

    /// Whether a plausible policy gives the published value to within `limit`; `None` if either is missing.
    pub fn is_explained(&self, limit: f64) -> Option<bool> {
        let published = self.published?;
        Some(self.band.as_ref()?.explains(|value| value / published - 1.0, limit))
    }

    fn is_outside(&self, limit: f64) -> bool {
        self.error().is_some_and(|error| error.abs() > limit)
    }
}

impl Compared {
    /// Returns the figure, and its ratio if there is one.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        std::iter::once(&self.figure).chain(&self.ratio)
    }

    /// Whether the figure or its ratio is not within the limit.
    pub fn is_outside(&self, limit: f64) -> bool {
        self.pairs().any(|pair| pair.is_outside(limit))
    }

    /// Whether another policy gives each of the figure and its ratio that is not within the limit.
    pub fn is_explained(&self, limit: f64) -> bool {
        let mut outside = self.pairs().filter(|pair| pair.is_outside(limit));
        outside.all(|pair| pair.is_explained(limit) == Some(true))
    }
}

impl Judged {
    /// Returns the error of our value, as a share of the published one.
    pub fn error(&self) -> f64 {
        self.modelled / self.published - 1.0
    }
}

impl Step {
    /// Returns the unit and value of each published figure and of each ratio of two published figures.
    pub fn published(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let of = |arm: &Arm, measure: Measure| arm.published(measure).map(|published| published.value);
        let aligned = self.arms.iter().find(|arm| arm.aligned);
        let arms =
            self.arms.iter().flat_map(move |arm| self.measures.iter().map(move |measure| (arm, *measure)));
        arms.flat_map(move |(arm, measure)| {
            let figure = of(arm, measure);
            let base = aligned.filter(|_| !arm.aligned).and_then(|aligned| of(aligned, measure));
            let ratio = figure.zip(base).map(|(figure, base)| ("times", measure.times(figure, base)));
            figure.map(|figure| (measure.unit(), figure)).into_iter().chain(ratio)
        })
    }
}

impl Outcome {
    /// Returns every published figure and every ratio of two published figures, with ours.
    pub fn judged(&self) -> Vec<Judged> {
        let mut judged = Vec::new();
        for (step, outcome) in self.steps.iter().enumerate() {
            for (arm, outcome) in outcome.arms.iter().enumerate() {
                for figure in &outcome.figures {
                    let measure = figure.measure;
                    let pairs =
                        [(Quantity::Figure, Some(&figure.figure)), (Quantity::Ratio, figure.ratio.as_ref())];
                    for (quantity, pair) in pairs {
                        let Some(&Pair { modelled, published: Some(published), ref band }) = pair else {
                            continue;
                        };
                        let band = band.clone();
                        judged.push(Judged { step, arm, measure, quantity, modelled, published, band });
                    }
                }
            }
        }
        judged
    }

    /// Returns the requests run and the virtual time.
    pub fn tally(&self) -> Tally {
        let runs = self.steps.iter().flat_map(|step| &step.arms).flat_map(|arm| &arm.runs);
        runs.fold(Tally::default(), |tally, samples| tally.add(samples.requests, samples.elapsed.seconds()))
    }
}

impl Tally {
    /// Adds requests and seconds.
    #[must_use]
    pub fn add(self, requests: u64, seconds: f64) -> Self {
        Self { requests: self.requests + requests, seconds: self.seconds + seconds }
    }
}
