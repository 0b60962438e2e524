//! Finds, reads and checks the file of an experiment.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use super::host::HostFile;
use super::lab_file::{self, LabFile};
use super::{Arm, Experiment, ExperimentError, Measure, Published, Source, Step, builtin};

const LARGEST_FILE: u64 = 1 << 20;
const LIMIT_PERCENT: f64 = 20.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    notes: Option<String>,
    drive: String,
    host: Option<HostFile>,
    limit_percent: Option<f64>,
    sources: Vec<Source>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    lab: Vec<LabFile>,
}

impl Experiment {
    /// Opens a shipped experiment by name, or a file if `name` has a slash or ends in `.toml`.
    pub fn open(name: &str) -> Result<Self, ExperimentError> {
        if name.contains('/') || name.ends_with(".toml") {
            let path = Path::new(name);
            return parse(name, &read(path)?, Some(path.parent().unwrap_or(Path::new(""))));
        }
        match builtin::EXPERIMENTS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => Err(ExperimentError::Unknown { name: name.to_owned(), known: Self::names().collect() }),
        }
    }

    /// Parses an experiment from the text of a file.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        parse(name, text, None)
    }
}

pub(super) fn read(path: &Path) -> Result<String, ExperimentError> {
    let unreadable = |source| ExperimentError::Unreadable { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST_FILE {
        let message = format!("the file has {size} bytes, but an experiment can have at most {LARGEST_FILE}");
        return Err(ExperimentError::Syntax { name: path.display().to_string(), message });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// Parses an experiment. `folder` is where scripts of a user's own are.
fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Experiment, ExperimentError> {
    let syntax = |error: toml::de::Error| ExperimentError::Syntax {
        name: name.to_owned(),
        message: error.to_string(),
    };
    let file: File = toml::from_str(text).map_err(syntax)?;
    let check = Check { name };
    let limit = file.limit_percent.unwrap_or(LIMIT_PERCENT);
    check.ensure(limit > 0.0 && limit <= 1000.0, "limit_percent", "must be above 0 and at most 1000")?;
    check.ensure(!file.steps.is_empty() || !file.lab.is_empty(), "steps", "there is nothing to run")?;
    let steps = file.steps.into_iter().map(|step| check.step(step, &file.drive));
    let steps: Vec<Step> = steps.collect::<Result<_, _>>()?;
    let lab = file.lab.into_iter();
    let lab = lab.map(|step| lab_file::steps(&check, step, &file.drive, file.host.as_ref(), folder));
    let lab: Vec<_> = lab.collect::<Result<Vec<_>, _>>()?.concat();
    let names = steps.iter().map(|step| &step.name).chain(lab.iter().map(|step| &step.name));
    check.unique("steps", names.map(String::as_str))?;
    Ok(Experiment {
        name: file.name,
        title: file.title,
        notes: file.notes,
        sources: file.sources,
        limit: limit / 100.0,
        steps,
        lab,
    })
}

/// Every error names the experiment.
pub(super) struct Check<'a> {
    name: &'a str,
}

impl Check<'_> {
    pub(super) fn impossible(&self, place: impl Into<String>, reason: impl Into<String>) -> ExperimentError {
        ExperimentError::Impossible { name: self.name.to_owned(), place: place.into(), reason: reason.into() }
    }

    pub(super) fn ensure(
        &self,
        is_so: bool,
        place: &str,
        reason: impl Into<String>,
    ) -> Result<(), ExperimentError> {
        if is_so { Ok(()) } else { Err(self.impossible(place, reason)) }
    }

    pub(super) fn range(
        &self,
        place: &str,
        low: Option<f64>,
        value: f64,
        high: Option<f64>,
    ) -> Result<(), ExperimentError> {
        let (low, high) = (low.unwrap_or(value), high.unwrap_or(value));
        let is_range = high.is_finite() && low > 0.0 && low <= value && value <= high;
        self.ensure(
            is_range,
            place,
            format!("{low}, {value} and {high} must be above 0 and in ascending order"),
        )
    }

    pub(super) fn unique<'a>(
        &self,
        place: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), ExperimentError> {
        let mut seen = BTreeSet::new();
        for name in names {
            self.ensure(seen.insert(name), place, format!("the name {name:?} is used twice"))?;
        }
        Ok(())
    }

    fn step(&self, mut step: Step, drive: &str) -> Result<Step, ExperimentError> {
        let place = format!("step {}", step.name);
        let arms = &step.arms;
        self.ensure(!arms.is_empty(), &place, "the step has no arm")?;
        self.unique(&place, arms.iter().map(|arm| arm.name.as_str()))?;
        let aligned = arms.iter().filter(|arm| arm.aligned).count();
        self.ensure(aligned <= 1, &place, "more than one arm is marked as aligned")?;
        for arm in arms {
            self.arm(&format!("{place}, {}", arm.name), arm)?;
        }
        let is_published = |measure: &Measure| arms.iter().any(|arm| arm.published(*measure).is_some());
        let all = [Measure::Elapsed, Measure::Iops, Measure::SyncLatency];
        let mut measures: Vec<Measure> = all.into_iter().filter(is_published).collect();
        if measures.is_empty() {
            measures.push(Measure::Elapsed);
        }
        let has_syncs = !measures.contains(&Measure::SyncLatency) || step.workload.flushes();
        self.ensure(has_syncs, &place, "a sync time was published, but the workload issues no sync")?;
        step.measures = measures;
        if step.drive.is_empty() {
            drive.clone_into(&mut step.drive);
        }
        Ok(step)
    }

    fn arm(&self, place: &str, arm: &Arm) -> Result<(), ExperimentError> {
        self.ensure(!arm.offsets.is_empty(), place, "the arm has no offset")?;
        self.unique(place, arm.published.iter().map(|published| published.measure.name()))?;
        for Published { value, low, high, .. } in &arm.published {
            self.range(place, *low, *value, *high)?;
        }
        Ok(())
    }
}
