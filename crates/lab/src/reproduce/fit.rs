//! Fits a modelled drive: finds the values of a profile's knobs for which the worst error of our figures is smallest,
//! over all arms and all ratios of two arms. It draws no random numbers, so it gives the same values on every
//! machine.

mod search;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::{Profile, ProfileError, profile};
use straddle_measure::bench::Progress;

use crate::reproduce::experiment::{Experiment, ExperimentError, Judged, Measure, Quantity, Step};
use crate::reproduce::float;

use search::MARGIN;

/// The resolution of a worst error: half a percent. No published figure is more exact.
const STEP: f64 = 0.005;

/// The result of a fit: what `straddle drive fit --json` prints. Errors are fractions of the published figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fit {
    /// The drive as named on the command line.
    pub drive: String,
    /// Manufacturer, model and size.
    pub title: String,
    /// The experiments to whose published figures the drive was fitted.
    pub experiments: Vec<String>,
    /// The fitted parameters; empty if the profile lists none.
    pub knobs: Vec<Fitted>,
    /// The published figures beside those of the model.
    pub figures: Vec<Figure>,
    /// The largest error of a figure or ratio with the profile's values, as a fraction of the published one.
    pub worst_before: f64,
    /// The largest error of a figure or ratio with the fitted values, as a fraction of the published one.
    pub worst_after: f64,
    /// The largest error with the fitted values, or with any one of them lowered or raised by `margin`,
    /// rounded up to half a percent.
    pub worst_nearby: f64,
    /// How far each fitted value was lowered and raised for `worst_nearby`, as a fraction of the value.
    pub margin: f64,
    /// The number of combinations of values that were tried.
    pub evaluations: usize,
}

/// A parameter of the drive and its values.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Knob")]
pub struct Fitted {
    /// The parameter's key in the profile, such as `write_cache.setup_us`.
    pub path: String,
    /// The smallest value that the fit may choose.
    pub low: f64,
    /// The largest value that the fit may choose.
    pub high: f64,
    /// The value in the profile.
    pub before: f64,
    /// The fitted value.
    pub after: f64,
}

/// A published figure beside the model's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// The name of the experiment.
    pub experiment: String,
    /// The title of the step.
    pub step: String,
    /// The name of the arm.
    pub arm: String,
    /// What was measured.
    pub measure: Measure,
    /// Whether the arm's figure itself is compared, or its ratio to the aligned arm's.
    pub quantity: Quantity,
    /// The published value.
    pub published: f64,
    /// The model's value with the profile's parameters.
    pub before: f64,
    /// The model's value with the fitted parameters.
    pub after: f64,
    /// The error of `before`, as a fraction of `published`.
    pub error_before: f64,
    /// The error of `after`, as a fraction of `published`.
    pub error_after: f64,
}

/// Why a fit failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum FitError {
    #[error(transparent)]
    Drive(#[from] ProfileError),
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    #[error("the profile {drive} has no [fit] section, which lists the knobs and experiments")]
    NoFit { drive: String },
    #[error("the drive {drive} cannot be fitted, because {}", nothing_from(experiments))]
    NoFigures { drive: String, experiments: Vec<String> },
    #[error("profile {drive}, knob {path}: {reason}")]
    Knob { drive: String, path: String, reason: String },
}

straddle_units::error_kind! {
    FitError: Usage;
    Self::Drive(error) => error.kind(),
    // The named profile, or a shipped experiment, is at fault.
    Self::Experiment(error) => match error.kind() {
        Interrupted => Interrupted,
        Usage | Refused | Failed => Failed,
    },
}

fn nothing_from(experiments: &[String]) -> String {
    if experiments.is_empty() {
        "the profile names no experiment".to_owned()
    } else {
        format!("no figure was published for {}", experiments.join(", "))
    }
}

/// Fits the numbers of `drive`, a name or a file as in `drive:NAME`, without options.
pub fn fit(drive: &str, progress: &mut dyn Progress) -> Result<Fit, FitError> {
    let profile = Profile::open(drive)?;
    let Some(asked) = &profile.fit else { return Err(FitError::NoFit { drive: drive.to_owned() }) };
    let course = Course::new(drive, &profile, asked)?;
    let start = values(drive, &profile, &asked.knobs)?;
    let before = course.run(&start)?;
    if before.is_empty() {
        return Err(FitError::NoFigures { drive: drive.to_owned(), experiments: asked.experiments.clone() });
    }
    let thin = course.thinned();
    let worst = |values: &[f64], bound: f64| thin.score(values, bound);
    let found = search::search(&asked.knobs, &worst, progress);
    let after = course.run(&found.values)?;
    let knobs = asked.knobs.iter().zip(start.iter().zip(&found.values)).map(|(knob, (before, after))| {
        Fitted { path: knob.path.clone(), low: knob.low, high: knob.high, before: *before, after: *after }
    });
    let figures = course.figures(&before, &after);
    let worst = |error: fn(&Figure) -> f64| figures.iter().map(|it| error(it).abs()).fold(0.0, f64::max);
    Ok(Fit {
        drive: drive.to_owned(),
        title: profile.title.clone(),
        experiments: asked.experiments.clone(),
        knobs: knobs.collect(),
        worst_before: worst(|figure| figure.error_before),
        worst_after: worst(|figure| figure.error_after),
        figures,
        worst_nearby: worst_of(found.worst_nearby),
        margin: MARGIN,
        evaluations: found.evaluations,
    })
}

/// The search minimises the worst error in steps of [`STEP`], and among equal ones the root mean square.
fn score(figures: &[Judged]) -> f64 {
    let errors = || figures.iter().map(|judged| judged.error().abs());
    let worst = errors().fold(0.0, f64::max);
    let squares: f64 = errors().map(|error| error * error).sum();
    let mean = (squares / float(figures.len() as u64)).sqrt();
    STEP * ((worst / STEP).ceil() + mean.min(0.999))
}

/// Returns the worst error that a score stands for, rounded up.
fn worst_of(score: f64) -> f64 {
    STEP * (score / STEP).floor()
}

fn values(drive: &str, profile: &Profile, knobs: &[profile::Knob]) -> Result<Vec<f64>, FitError> {
    let wrong = |knob: &profile::Knob, reason: String| FitError::Knob {
        drive: drive.to_owned(),
        path: knob.path.clone(),
        reason,
    };
    let value = |knob: &profile::Knob| {
        if !(knob.low.is_finite() && knob.high.is_finite() && 0.0 < knob.low && knob.low < knob.high) {
            return Err(wrong(
                knob,
                format!("{} and {} must be above 0 and in ascending order", knob.low, knob.high),
            ));
        }
        let figure = profile.figures.iter().rfind(|figure| figure.path == knob.path);
        let number = figure.and_then(|figure| figure.value.parse::<f64>().ok());
        number.ok_or_else(|| wrong(knob, "the profile has no such number".to_owned()))
    };
    knobs.iter().map(value).collect()
}

struct Course<'a> {
    drive: &'a str,
    knobs: &'a [profile::Knob],
    experiments: Vec<Experiment>,
}

impl<'a> Course<'a> {
    fn new(drive: &'a str, profile: &Profile, fit: &'a profile::Fit) -> Result<Self, ExperimentError> {
        let is_ours = |specification: &str| {
            let name = specification.split(',').next().unwrap_or_default();
            name == drive || name == profile.name
        };
        let published = |step: &Step| step.arms.iter().any(|arm| !arm.published.is_empty());
        let open = |name: &String| {
            Ok(Experiment::open(name)?.with_steps(|step| is_ours(&step.drive) && published(step)))
        };
        let experiments = fit.experiments.iter().map(open).collect::<Result<_, ExperimentError>>()?;
        Ok(Self { drive, knobs: &fit.knobs, experiments })
    }

    /// For a quicker search: only the first offset of each arm, and each step as an experiment, the shortest first.
    fn thinned(&self) -> Self {
        let mut parts: Vec<Experiment> = Vec::new();
        for experiment in &self.experiments {
            for step in &experiment.steps {
                let mut step = step.clone();
                step.arms.iter_mut().for_each(|arm| arm.offsets.truncate(1));
                parts.push(Experiment { steps: vec![step], lab: Vec::new(), ..experiment.clone() });
            }
        }
        parts.sort_by_key(|part| part.steps.iter().map(|step| step.workload.limits().0).max());
        Self { drive: self.drive, knobs: self.knobs, experiments: parts }
    }

    /// Infinite if it exceeds `bound`, or if no drive can have the values.
    fn score(&self, values: &[f64], bound: f64) -> f64 {
        let mut figures = Vec::new();
        for experiment in &self.experiments {
            let Ok(more) = self.judged(experiment, values) else { return f64::INFINITY };
            figures.extend(more);
            if worst_of(score(&figures)) > bound {
                return f64::INFINITY;
            }
        }
        score(&figures)
    }

    fn judged(&self, experiment: &Experiment, values: &[f64]) -> Result<Vec<Judged>, ExperimentError> {
        let replaced: Vec<(&str, f64)> =
            self.knobs.iter().zip(values).map(|(knob, value)| (knob.path.as_str(), *value)).collect();
        let open = |specification: &str| {
            let options =
                specification.split_once(',').map_or(String::new(), |(_, options)| format!(",{options}"));
            Profile::open_with(&format!("{}{options}", self.drive), &replaced)
        };
        Ok(experiment.reproduce(None, &open)?.judged())
    }

    fn run(&self, values: &[f64]) -> Result<Vec<(usize, Judged)>, ExperimentError> {
        let mut figures = Vec::new();
        for (index, experiment) in self.experiments.iter().enumerate() {
            figures.extend(self.judged(experiment, values)?.into_iter().map(|judged| (index, judged)));
        }
        Ok(figures)
    }

    fn figures(&self, before: &[(usize, Judged)], after: &[(usize, Judged)]) -> Vec<Figure> {
        let figure = |((index, before), (_, after)): (&(usize, Judged), &(usize, Judged))| {
            let experiment = &self.experiments[*index];
            let step = &experiment.steps[before.step];
            Figure {
                experiment: experiment.name.clone(),
                step: step.title.clone(),
                arm: step.arms[before.arm].name.clone(),
                measure: before.measure,
                quantity: before.quantity,
                published: before.published,
                before: before.modelled,
                after: after.modelled,
                error_before: before.error(),
                error_after: after.error(),
            }
        };
        before.iter().zip(after).map(figure).collect()
    }
}

impl Fit {
    /// Returns the text of a profile that overrides the drive's values with the fitted ones.
    pub fn profile(&self, name: &str) -> String {
        let source = format!("fitted to {} by straddle drive fit", self.experiments.join(", "));
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text = format!("base = {}\nname = {}\n", quoted(&self.drive), quoted(name));
        for knob in &self.knobs {
            let path = &knob.path;
            text += &format!("{path} = {{ value = {}, source = {} }}\n", knob.after, quoted(&source));
        }
        text
    }
}
