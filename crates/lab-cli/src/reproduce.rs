//! `straddle reproduce`: runs published experiments again.

mod html;
pub(crate) mod json;
mod text;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use straddle_drive::Profile;
use straddle_lab::reproduce::experiment::Experiment;
use straddle_lab::reproduce::joint::{self, Figure, base};
use straddle_lab::reproduce::lab::input::Inputs;
use straddle_lab::reproduce::lab::{self, Charges, Guests, Planned, Settings, StepOutcome};
use straddle_lab::reproduce::policy::Policies;

use crate::reproduce::json::{
    JudgedFigures, ReproduceReport, Reproduced, ReproducedExperiment, Way, published, saved,
};
use straddle_cli::args::{ReproduceArguments, SchemaOf};
use straddle_cli::exit::{Exit, UsageError};
use straddle_cli::progress::{Bar, on_interrupt};
use straddle_cli::view::json::Document;
use straddle_cli::{output, output_file};

/// Seed of the generated inputs: always the same, so that they are generated once.
const INPUT_SEED: u64 = 1;
/// A guest that takes longer than this in real time is taken for hung.
const HOST_LIMIT: Duration = Duration::from_secs(4 * 3600);

pub(crate) fn run(arguments: &ReproduceArguments) -> Result<Exit> {
    if let Some(path) = &arguments.html {
        output_file::check(path, &[])?;
    }
    let names: Vec<&str> = match &arguments.experiments[..] {
        [] => Experiment::names().collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let experiments = names.iter().map(|name| Experiment::open(name)).collect::<Result<Vec<_>, _>>()?;
    let drive = arguments.drive.as_ref().map(|drive| drive.specification.as_str());
    if arguments.list {
        show(arguments, ReproduceReport::listed(&experiments), || text::list(&experiments))?;
        return Ok(Exit::Success);
    }
    if let Some(results) = &arguments.joint {
        let judged = judged(&experiments, drive, results)?;
        show(arguments, ReproduceReport::judged(&judged), || text::joint::judged(&judged))?;
        return Ok(Exit::Success);
    }
    let begun = Instant::now();
    let mut experiments: Vec<ReproducedExperiment> =
        experiments.into_iter().map(|experiment| chosen(experiment, drive)).collect();
    if !arguments.lab_only {
        for reproduced in &mut experiments {
            let other = drive.filter(|_| !reproduced.judged);
            let mut outcome = reproduced.experiment.reproduce(other, &Profile::open)?;
            if reproduced.judged {
                reproduced.experiment.band(other, &mut outcome)?;
            }
            reproduced.outcome = Some(outcome);
        }
    }
    let settings = settings(arguments, &experiments);
    if !arguments.model_only {
        run_lab(arguments, drive, settings, &mut experiments)?;
    }
    let way = Way { settings, command: command(&names, arguments) };
    let reproduced = Reproduced { judged: of_run(&experiments)?, experiments, way, wall: begun.elapsed() };
    let report = ReproduceReport::of(&reproduced);
    if let Some(path) = &arguments.html {
        output_file::write(path, html::page(&reproduced).as_bytes(), &[])?;
    }
    show(arguments, report, || {
        let page = arguments.html.as_ref().map(|path| format!("\nPage: {}\n", path.display()));
        text::outcomes(&reproduced, arguments.verbose) + &page.unwrap_or_default()
    })?;
    let misses = text::misses(&reproduced);
    misses.iter().for_each(|miss| output::complain(miss));
    Ok(if misses.is_empty() { Exit::Success } else { Exit::Failed })
}

fn of_run(experiments: &[ReproducedExperiment]) -> Result<JudgedFigures> {
    let mut figures = Vec::new();
    for experiment in experiments {
        figures.extend(experiment.figures()?);
    }
    let published = experiments.iter().map(ReproducedExperiment::published).sum();
    Ok(JudgedFigures { joints: joint::judge(&figures), published })
}

/// Of earlier runs, and of the steps that need only a drive and that none of these ran.
fn judged(experiments: &[Experiment], drive: Option<&str>, results: &[PathBuf]) -> Result<JudgedFigures> {
    let is_wanted = |name: &str| drive.is_none_or(|drive| base(drive) == base(name));
    let mut parts = Vec::new();
    for path in results {
        saved::add(path, &mut parts)?;
    }
    parts.retain(|part| is_wanted(&part.drive));
    let others = parts.iter().filter(|part| experiments.iter().all(|known| known.name != part.experiment));
    let mut all: usize = others.map(|part| part.figures.len()).sum();
    let mut figures: Vec<Figure> = Vec::new();
    for experiment in experiments {
        let mut experiment = experiment.clone().with_steps(|step| is_wanted(&step.drive));
        experiment.lab.retain(|step| is_wanted(&step.drive));
        all += published(&experiment);
        let name = experiment.name.clone();
        let experiment = experiment
            .with_steps(|step| !parts.iter().any(|part| part.is_of(&name, &step.name, &step.drive)));
        let mut outcome = experiment.reproduce(None, &Profile::open)?;
        experiment.band(None, &mut outcome)?;
        figures.extend(joint::of_drives(&experiment, &outcome));
    }
    figures.extend(parts.into_iter().flat_map(|part| part.figures));
    Ok(JudgedFigures { joints: joint::judge(&figures), published: all })
}

/// Keeps the steps published for this drive, or all if none was.
fn chosen(experiment: Experiment, drive: Option<&str>) -> ReproducedExperiment {
    let published_of = drive.filter(|drive| experiment.drives().contains(drive));
    let judged = drive.is_none() || published_of.is_some();
    let experiment = match published_of {
        Some(drive) => experiment.on_drive(drive),
        None => experiment,
    };
    ReproducedExperiment { experiment, judged, outcome: None, lab: None }
}

fn settings(arguments: &ReproduceArguments, experiments: &[ReproducedExperiment]) -> Settings {
    let steps = experiments.iter().flat_map(|reproduced| &reproduced.experiment.lab);
    let largest = steps.map(|step| step.memory).max().unwrap_or_default();
    Settings {
        runs: arguments.runs,
        seed: arguments.seed,
        full: arguments.full,
        guests: arguments.guests.unwrap_or_else(|| lab::at_once(largest)),
    }
}

/// Runs the lab steps of all experiments together, so that no processor is idle while one experiment ends.
fn run_lab(
    arguments: &ReproduceArguments,
    drive: Option<&str>,
    settings: Settings,
    experiments: &mut [ReproducedExperiment],
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop).context("cannot install the Ctrl-C handler")?;
    let mut steps = Vec::new();
    for ReproducedExperiment { experiment, judged, .. } in &*experiments {
        let other = drive.filter(|_| !judged);
        for step in &experiment.lab {
            let drive = other.unwrap_or(&step.drive);
            // Without a published figure there is nothing for a band to explain.
            let banded = arguments.bands && *judged && !step.published.is_empty();
            steps.push((step, drive, if banded { Policies::of(&Profile::open(drive)?) } else { None }));
        }
    }
    let planned: Vec<Planned<'_>> = steps
        .iter()
        .map(|&(step, drive, ref policies)| Planned { step, drive, policies: policies.as_ref() })
        .collect();
    if planned.is_empty() {
        return Ok(());
    }
    for Planned { drive, .. } in &planned {
        Profile::open(drive)?;
    }
    let machine = Guests::new(Charges::default(), HOST_LIMIT, &stop, arguments.unconfined)
        .context("the lab cannot run (to do without it, use --model-only)")?;
    let inputs = Inputs { cache: cache(arguments)?, seed: INPUT_SEED };
    if !std::io::stderr().is_terminal() {
        output::complain("booting guests, which takes minutes; to do without them, use --model-only");
    }
    let outcomes = lab::reproduce(&machine, &planned, &inputs, settings, &mut Bar::new())?;
    let mut outcomes = outcomes.into_iter();
    for ReproducedExperiment { experiment, judged, lab, .. } in experiments {
        let mut own: Vec<StepOutcome> = outcomes.by_ref().take(experiment.lab.len()).collect();
        for (step, outcome) in experiment.lab.iter().zip(&mut own).filter(|_| *judged) {
            joint::note_origins(experiment, step, &Profile::open(&outcome.drive)?, outcome);
        }
        *lab = Some(own);
    }
    Ok(())
}

fn cache(arguments: &ReproduceArguments) -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || set("XDG_CACHE_HOME").or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let folder =
        arguments.cache.clone().or_else(|| usual().map(|cache| cache.join("straddle").join("inputs")));
    folder.ok_or_else(|| {
        UsageError(
            "no default directory for inputs, because this user has no home directory; choose a directory \
             with --cache DIR"
                .to_owned(),
        )
        .into()
    })
}

fn command(names: &[&str], arguments: &ReproduceArguments) -> String {
    let mut words = vec!["straddle reproduce".to_owned()];
    words.extend(names.iter().map(|name| output::quote_path(Path::new(name))));
    let path = |path: &PathBuf| output::quote_path(path);
    let drive = arguments.drive.as_ref().map(|drive| straddle_device::shown::quote(&drive.specification));
    let valued = [
        ("--drive", drive),
        ("--runs", arguments.runs.map(|runs| runs.to_string())),
        ("--seed", (arguments.seed != 1).then(|| arguments.seed.to_string())),
        ("--html", arguments.html.as_ref().map(path)),
    ];
    let flags = [
        ("--model-only", arguments.model_only),
        ("--lab-only", arguments.lab_only),
        ("--full", arguments.full),
        ("--bands", arguments.bands),
    ];
    words.extend(flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag.to_owned()));
    words.extend(valued.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))));
    words.join(" ")
}

fn show(
    arguments: &ReproduceArguments,
    report: ReproduceReport<'_>,
    text: impl FnOnce() -> String,
) -> Result<Exit> {
    if arguments.json { Document::of(SchemaOf::Reproduce, report).print() } else { output::print(&text()) }
}
