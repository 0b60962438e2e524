//! `straddle reproduce`: published experiments, run again.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use straddle_bench::experiment::{Experiment, ExperimentError};
use straddle_drive::Profile;

use crate::args::ReproduceArguments;
use crate::exit::{Exit, UsageError};
use crate::modelled::PREFIX;
use crate::output::{self, Styles};
use crate::report::reproduce::{ReproduceReport, Reproduced};
use crate::text;

pub(crate) fn run(arguments: &ReproduceArguments, styles: Styles) -> Result<Exit> {
    let names: Vec<&str> = match &arguments.experiments[..] {
        [] => Experiment::names().collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let experiments = names.into_iter().map(Experiment::open).collect::<Result<Vec<_>, _>>().map_err(told)?;
    if arguments.list {
        return list(&experiments, arguments.json, styles);
    }
    let begun = Instant::now();
    // As a target it has the prefix; who copies it from there means the same drive.
    let drive = arguments.drive.as_deref().map(|name| name.strip_prefix(PREFIX).unwrap_or(name));
    let reproduce = |experiment: &Experiment| experiment.reproduce(drive, &Profile::open);
    let outcomes = experiments.iter().map(reproduce).collect::<Result<Vec<_>, _>>().map_err(told)?;
    let reproduced = Reproduced {
        experiments: experiments.iter().zip(&outcomes).collect(),
        other_drive: drive.is_some(),
        wall: begun.elapsed(),
    };
    if arguments.json {
        output::print_json(&ReproduceReport::of(&reproduced))?;
    } else {
        print(&text::reproduce::outcomes(&reproduced, output::width(), styles))?;
    }
    let misses = text::reproduce::misses(&reproduced);
    misses.iter().for_each(|miss| output::complain(miss));
    Ok(if misses.is_empty() { Exit::Aligned } else { Exit::Failed })
}

fn list(experiments: &[Experiment], json: bool, styles: Styles) -> Result<Exit> {
    if json {
        output::print_json(&ReproduceReport::listed(experiments))?;
    } else {
        print(&text::reproduce::list(experiments, output::width(), styles))?;
    }
    Ok(Exit::Aligned)
}

fn print(text: &str) -> Result<()> {
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A name or a file that is no experiment or no drive is the command line's fault.
fn told(error: ExperimentError) -> anyhow::Error {
    match error {
        ExperimentError::Run { .. } => error.into(),
        _ => UsageError(format!("{:#}", anyhow::Error::from(error))).into(),
    }
}
