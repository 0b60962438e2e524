//! `straddle probe`: what a drive really is, by timing.

use std::fs;
use std::io::Write;

use anyhow::{Context, Result};
use straddle_bench::Modelled;
use straddle_drive::Nanos;
use straddle_drive::profile::{Body, Profile};
use straddle_probe::{Budget, Claims, ProbeError, Surface, probe};

use crate::args::ProbeArguments;
use crate::exit::{Exit, UsageError};
use crate::measured::Measured;
use crate::modelled;
use crate::output::{self, Styles};
use crate::progress::Bar;
use crate::report::probe::ProbeReport;
use crate::text;

pub(crate) fn run(arguments: &ProbeArguments, styles: Styles) -> Result<Exit> {
    let (mut surface, claims) = open(&arguments.target)?;
    let budget = Budget {
        max_write: arguments.max_write.get(),
        max_time: Nanos::from_seconds(arguments.time).unwrap_or_default(),
        seed: arguments.seed,
        ..Budget::default()
    };
    let mut bar = Bar::new();
    let report = probe(surface.as_mut(), &budget, claims, &mut bar).map_err(told)?;
    drop(bar);
    if let Some(path) = &arguments.save {
        match Measured::of(&arguments.target, &report) {
            Some(measured) => fs::write(path, measured.to_json()?)
                .with_context(|| format!("{}: cannot write", path.display()))?,
            None => output::complain(&format!("{}: not written: the unit cannot be told", path.display())),
        }
    }
    if arguments.json {
        output::print_json(&ProbeReport::of(surface.description(), &report))?;
        return Ok(Exit::Aligned);
    }
    let mut out = output::stdout();
    out.write_all(text::probe::report(surface.description(), &report, output::width(), styles).as_bytes())?;
    out.flush()?;
    Ok(Exit::Aligned)
}

/// What is probed, and what it claims. Real devices come in here.
fn open(target: &str) -> Result<(Box<dyn Surface>, Claims)> {
    let profile = modelled::profile_of_target(target, "probe")?;
    Ok((Box::new(Modelled::new(target, &profile)), claims(&profile)))
}

fn claims(profile: &Profile) -> Claims {
    let told = &profile.claims;
    let unit = match profile.body {
        Body::Disk(_) => told.physical_sector,
        Body::Ssd(_) => told.minimum_io.unwrap_or(told.physical_sector),
    };
    Claims { unit: Some(unit), phase: Some(told.alignment_offset), rotational: Some(told.rotational) }
}

/// A target that is too small is the command line's fault; the rest is the target's.
fn told(error: ProbeError) -> anyhow::Error {
    match error {
        ProbeError::Target(_) => error.into(),
        ProbeError::TooSmall { .. } | ProbeError::Sector(_) => UsageError(error.to_string()).into(),
    }
}
