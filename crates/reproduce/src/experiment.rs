//! Published experiments, run again.
//!
//! The law of this module: an experiment is data (`experiments/*.toml`): who published what, of which drive, and the workloads
//! that made those figures. Running one gives our figure beside each published one, and never changes either. What needs a
//! kernel is here as data only ([`LabStep`]); the lab runs it.

mod builtin;
mod file;
mod lab;
mod lab_file;
#[cfg(test)]
mod lab_tests;
mod reproduce;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use straddle_drive::ProfileError;

pub use lab::{Direction, Input, LabArm, LabMeasure, LabPublished, LabStep, SECTOR, Statistic};
pub use reproduce::{ArmOutcome, Compared, Judged, Outcome, Quantity, StepOutcome, Tally};

use straddle_bench::RunError;
use straddle_bench::Samples;
use straddle_bench::Workload;

/// An experiment that was published.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The name it is called by.
    pub name: String,
    /// What the publication is called.
    pub title: String,
    /// What one should know of it, in sentences.
    pub notes: Option<String>,
    /// Where it was published.
    pub sources: Vec<Source>,
    /// How far, as a share of the published figure, ours may be off.
    pub limit: f64,
    /// What needs a drive only.
    pub steps: Vec<Step>,
    /// What needs a kernel too.
    pub lab: Vec<LabStep>,
}

/// A publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Who wrote it.
    pub author: Option<String>,
    /// When.
    pub year: u16,
    /// What it is called.
    pub title: String,
    /// Where it can be read.
    pub address: Option<String>,
}

/// One workload at several places.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A short name, unique in the experiment.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// The modelled drive, as behind `drive:` in a target.
    pub drive: String,
    /// What is run; the arms move it.
    pub workload: Workload,
    /// What is told of each arm: what was published of any, the elapsed time if nothing was.
    pub measures: Vec<Measure>,
    /// At least one.
    pub arms: Vec<Arm>,
}

/// A workload's offset, or several that were published as one figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// A short name, unique in the step.
    pub name: String,
    /// Whether the others are compared with this one; at most one of a step.
    #[serde(default)]
    pub aligned: bool,
    /// Bytes past the workload's start. Of several, the mean counts.
    pub offsets: Vec<u64>,
    /// At most one of each measure.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured.
    pub measure: Measure,
    /// The figure, or the middle of the range.
    pub value: f64,
    /// The lower end, where a range was published.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// What one should know of it.
    pub note: Option<String>,
}

/// What is measured of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds from the first request to the end of the last.
    Elapsed,
    /// Requests a second.
    Iops,
    /// Milliseconds of a flush, in the mean.
    SyncLatency,
}

/// Why an experiment came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No shipped experiment has this name.
    #[error("no experiment is called {name:?}; there are {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// The file could not be read.
    #[error("cannot read the experiment {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or a key that no experiment has, or a value of the wrong type.
    #[error("experiment {name}: {message}")]
    Syntax {
        /// Which experiment.
        name: String,
        /// What the parser says, with the place.
        message: String,
    },
    /// A value that makes no experiment.
    #[error("experiment {name}: {place}: {reason}")]
    Impossible {
        /// Which experiment.
        name: String,
        /// The step and arm, or the key.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no such drive.
    #[error("experiment {name}: step {step}")]
    Drive {
        /// Which experiment.
        name: String,
        /// Which step.
        step: String,
        /// Why.
        source: Box<ProfileError>,
    },
    /// A run came to nothing.
    #[error("experiment {name}: step {step}, {arm}")]
    Run {
        /// Which experiment.
        name: String,
        /// Which step.
        step: String,
        /// Which arm.
        arm: String,
        /// Why.
        source: Box<RunError>,
    },
}

impl Experiment {
    /// The names of the shipped experiments, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::EXPERIMENTS.iter().map(|(name, _)| *name)
    }

    /// A shipped experiment by its name or, if that has a slash or ends in `.toml`, one from a file.
    pub fn open(name: &str) -> Result<Self, ExperimentError> {
        file::open(name)
    }

    /// An experiment from the text of a file.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        file::parse(name, text, None)
    }

    /// The modelled drives that it runs on, each once, in the order of the steps.
    pub fn drives(&self) -> Vec<&str> {
        let of_steps = self.steps.iter().map(|step| step.drive.as_str());
        let mut drives: Vec<&str> = Vec::new();
        for drive in of_steps.chain(self.lab.iter().map(|step| step.drive.as_str())) {
            if !drives.contains(&drive) {
                drives.push(drive);
            }
        }
        drives
    }

    /// The same, with only what was published of this drive.
    #[must_use]
    pub fn on_drive(mut self, drive: &str) -> Self {
        self.steps.retain(|step| step.drive == drive);
        self.lab.retain(|step| step.drive == drive);
        self
    }

    /// The same, with only those steps that keep a promise.
    #[must_use]
    pub fn with_steps(mut self, keep: impl Fn(&Step) -> bool) -> Self {
        self.steps.retain(keep);
        self
    }
}

impl Measure {
    /// The unit of its figures.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Elapsed => "s",
            Self::Iops => "IOPS",
            Self::SyncLatency => "ms",
        }
    }

    /// The name, as in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::Iops => "iops",
            Self::SyncLatency => "sync-latency",
        }
    }

    /// The figure of a run.
    pub fn of(self, samples: &Samples) -> f64 {
        match self {
            Self::Elapsed => samples.elapsed.seconds(),
            Self::Iops => samples.iops(),
            Self::SyncLatency => samples.flush_latency.mean().millis(),
        }
    }

    /// The figure of something that took so many seconds, or of which each request did.
    pub fn of_seconds(self, seconds: f64) -> f64 {
        match self {
            Self::Elapsed => seconds,
            Self::Iops => 1.0 / seconds,
            Self::SyncLatency => seconds * 1000.0,
        }
    }

    /// How many times `reference`'s cost a figure stands for: above 1 is worse, for rates too.
    pub fn times(self, value: f64, reference: f64) -> f64 {
        match self {
            Self::Elapsed | Self::SyncLatency => value / reference,
            Self::Iops => reference / value,
        }
    }
}

impl Arm {
    /// The published figure of this measure, if there is one.
    pub fn published(&self, measure: Measure) -> Option<&Published> {
        self.published.iter().find(|published| published.measure == measure)
    }
}
