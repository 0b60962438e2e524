//! `straddle bench --emit-fio` and `--import-fio`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use straddle_bench::fio::{self, Job};
use straddle_bench::{Clock, Description, Host, Workload};
use straddle_real::Io;

use super::real;
use crate::args::{BenchArguments, Way};
use crate::exit::{Exit, RefusedError, UsageError};
use crate::keep;
use crate::output::{Styles, quote_path};
use crate::target::{TargetSpec, refuse_bare_drive};
use crate::view::json::bench::Bench;

/// Default seconds per arm, if nothing else ends it.
const SECONDS: f64 = 10.0;
/// The largest fio output accepted, in bytes.
const LARGEST: u64 = 256 << 20;

pub(super) fn emit(
    arguments: &BenchArguments,
    target: &TargetSpec,
    workload: &Workload,
    path: &Path,
) -> Result<Exit> {
    let Some(path_of) = target.path() else {
        let message =
            format!("{target}: fio opens files and devices; serve the drive (straddle serve) and name that");
        return Err(UsageError(message).into());
    };
    refuse_bare_drive(path_of)?;
    // fio creates a missing file, and would create one in /dev for a missing device.
    if path_of.starts_with("/dev") && !path_of.exists() {
        return Err(UsageError(format!("{target}: no such device")).into());
    }
    let is_new = fs::metadata(path_of).map_or(true, |found| found.is_file() && found.len() == 0);
    if workload.writes() && !is_new {
        check_given_up(path_of, arguments.real.destroy_data.as_deref())?;
    }
    let io = if arguments.real.io == Some(Way::Buffered) { Io::Buffered } else { Io::Direct };
    let area = arguments.real.area.map(|area| area.get());
    let job = Job {
        target: &path_of.to_string_lossy(),
        offsets: &arguments.offsets.0,
        sector: straddle_real::logical_sector(path_of, io)?,
        direct: io == Io::Direct,
        // A file that fio makes has no size of its own.
        bytes: area.or(is_new.then_some(real::AREA)),
        seconds: arguments.real.runtime.unwrap_or(SECONDS),
    };
    let text = fio::emit(workload, &job)?;
    keep::write(path, text.as_bytes(), &super::target(arguments))?;
    Ok(Exit::Success)
}

/// Refuses a target whose contents fio would overwrite, unless they are given up by its name.
fn check_given_up(path: &Path, again: Option<&str>) -> Result<()> {
    let shown = quote_path(path);
    let Some(again) = again else {
        let message = format!(
            "{shown}: fio would write over it from its first byte on, and restores nothing: give its contents up with --destroy-data {shown}, or name a \
             file that does not exist"
        );
        return Err(RefusedError(message).into());
    };
    let is_same =
        path.canonicalize().ok().filter(|real| Path::new(again).canonicalize().ok().as_ref() == Some(real));
    match is_same {
        Some(_) => Ok(()),
        None => Err(UsageError(format!("--destroy-data names another target than {shown}: {again}")).into()),
    }
}

pub(super) fn import(arguments: &BenchArguments, path: &Path, styles: Styles) -> Result<Exit> {
    let failure = || format!("{}: cannot read", path.display());
    let metadata = fs::metadata(path).with_context(failure)?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        anyhow::bail!("{}: not fio's output: no file, or larger than {LARGEST} bytes", path.display());
    }
    let bytes = fs::read(path).with_context(failure)?;
    let run = fio::import(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())?;
    let title = format!("a target of {}", run.version);
    let target = Description { name: run.target, title, clock: Clock::Wall };
    let bench = Bench {
        warmup: 0,
        target: &target,
        // fio's output does not give it.
        capacity: u64::MAX,
        logical_sector: run.sector,
        workload: &run.workload,
        host: Host::default(),
        sweep: &run.sweep,
        turns: None,
    };
    super::show(&bench, arguments, styles)?;
    Ok(Exit::Success)
}
