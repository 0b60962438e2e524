//! Published experiments as data (`experiments/*.toml`): who published what about which drive, and the workloads that
//! gave those figures.

mod builtin;
mod file;
mod host;
mod lab;
mod lab_file;
#[cfg(test)]
mod lab_tests;
mod reproduce;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_drive::ProfileError;
use straddle_measure::bench::{RunError, Samples, Workload};

pub use host::{Host, Key, Setting};
pub use lab::{Direction, Input, LabArm, LabMeasure, LabPublished, LabStep, SECTOR, Statistic};
pub use reproduce::{ArmOutcome, Compared, Judged, Outcome, Pair, Quantity, StepOutcome, Tally};

/// A published experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// The title of the publication.
    pub title: String,
    /// Background, in sentences.
    pub notes: Option<String>,
    /// Where it was published.
    pub sources: Vec<Source>,
    /// The largest acceptable error of our figures, as a share of the published figure.
    pub limit: f64,
    /// The steps that need only a drive.
    pub steps: Vec<Step>,
    /// The steps that also need a kernel.
    pub lab: Vec<LabStep>,
}

/// A publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The year of publication.
    pub year: u16,
    /// The title of the publication.
    pub title: String,
    /// The web address of the publication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// One workload, run at several offsets.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A short name, unique in the experiment.
    pub name: String,
    /// A one-line description of the step.
    pub title: String,
    /// How the step differs from the publication, one sentence per difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// How the published program reached the drive.
    #[serde(default)]
    pub access: Access,
    /// The modelled drive, as after `drive:` in a target; in a file, that of the experiment if absent.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub drive: String,
    /// The workload; the arms shift it.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub workload: Workload,
    /// The measures reported for each arm: those that were published for any arm, or the elapsed time.
    #[serde(skip)]
    pub measures: Vec<Measure>,
    /// One or more arms.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub arms: Vec<Arm>,
}

/// How a published program reached the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// The program's own requests reached the drive, through a raw device of FreeBSD or with O_DIRECT.
    #[default]
    Raw,
    /// The requests went through Linux's page cache, which may have sent different ones to the drive.
    PageCache,
}

/// One offset of a workload, or several that were published as one figure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// A short name, unique in the step.
    pub name: String,
    /// Whether the other arms are compared with this one; true for at most one arm per step.
    #[serde(default)]
    pub aligned: bool,
    /// The offsets in bytes from the workload's start. If there are several, the mean over their runs is
    /// used.
    #[serde(rename(serialize = "offsets_bytes"))]
    pub offsets: Vec<u64>,
    /// Published figures, at most one per measure.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub published: Vec<Published>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured.
    #[serde(skip_serializing)]
    pub measure: Measure,
    /// The figure, or the middle of the range.
    pub value: f64,
    /// The lower end of the published range; absent if a single figure was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the published range; absent if a single figure was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Background on the published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What is measured on an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds from the first request to the completion of the last.
    #[default]
    Elapsed,
    /// Requests per second.
    Iops,
    /// Mean milliseconds per sync: the time of the flush and of the writes that the page cache sends at the
    /// sync.
    SyncLatency,
}

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ExperimentError {
    #[error("unknown experiment {name:?}; use {}", known.join(", "))]
    Unknown { name: String, known: Vec<&'static str> },
    #[error("cannot read the experiment {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("experiment {name}: {message}")]
    Syntax { name: String, message: String },
    #[error("experiment {name}, {place}: {reason}")]
    Impossible { name: String, place: String, reason: String },
    #[error("experiment {name}, step {step}")]
    Drive { name: String, step: String, source: Box<ProfileError> },
    #[error("experiment {name}, step {step}, {arm}")]
    Run { name: String, step: String, arm: String, source: Box<RunError> },
}

straddle_units::error_kind! {
    ExperimentError: Usage;
    // A workload of an experiment does not come from the command line, so its errors are not usage errors.
    Self::Run { source, .. } => match source.kind() {
        Interrupted => Interrupted,
        Usage | Refused | Failed => Failed,
    },
}

impl Experiment {
    /// Returns the names of the shipped experiments, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::EXPERIMENTS.iter().map(|(name, _)| *name)
    }

    /// Returns the modelled drives that it runs on, each once, in the order of the steps.
    pub fn drives(&self) -> Vec<&str> {
        let drives = self.steps.iter().map(|step| &step.drive);
        let drives = drives.chain(self.lab.iter().map(|step| &step.drive)).map(String::as_str);
        let mut seen = BTreeSet::new();
        drives.filter(|drive| seen.insert(*drive)).collect()
    }

    /// Keeps only the steps that were published for this drive.
    #[must_use]
    pub fn on_drive(mut self, drive: &str) -> Self {
        self.steps.retain(|step| step.drive == drive);
        self.lab.retain(|step| step.drive == drive);
        self
    }

    /// Keeps only the steps for which `keep` is true.
    #[must_use]
    pub fn with_steps(mut self, keep: impl Fn(&Step) -> bool) -> Self {
        self.steps.retain(keep);
        self
    }
}

impl Measure {
    /// Returns the unit of its figures.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Elapsed => "s",
            Self::Iops => "IOPS",
            Self::SyncLatency => "ms",
        }
    }

    /// Returns its name, as used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::Iops => "iops",
            Self::SyncLatency => "sync-latency",
        }
    }

    /// Returns the figure of a run whose program reached the drive so.
    pub fn of(self, samples: &Samples, access: Access) -> f64 {
        match (self, access) {
            (Self::Elapsed, _) => samples.elapsed.seconds(),
            (Self::Iops, _) => samples.iops(),
            (Self::SyncLatency, Access::Raw) => samples.flush_latency.mean().millis(),
            (Self::SyncLatency, Access::PageCache) => {
                let syncs = u32::try_from(samples.flushes).map_or(f64::INFINITY, f64::from);
                samples.elapsed.millis() / syncs
            }
        }
    }

    /// Returns the figure for work that took this many seconds in all, or requests that took so long each.
    pub fn of_seconds(self, seconds: f64) -> f64 {
        match self {
            Self::Elapsed => seconds,
            Self::Iops => 1.0 / seconds,
            Self::SyncLatency => seconds * 1000.0,
        }
    }

    /// Returns how many times the cost of `reference` a figure stands for. Above 1 is worse, for rates too.
    pub fn times(self, value: f64, reference: f64) -> f64 {
        match self {
            Self::Elapsed | Self::SyncLatency => value / reference,
            Self::Iops => reference / value,
        }
    }
}

impl Arm {
    /// Returns the published figure for this measure, if there is one.
    pub fn published(&self, measure: Measure) -> Option<&Published> {
        self.published.iter().find(|published| published.measure == measure)
    }
}
