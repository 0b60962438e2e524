//! `straddle bench --emit-fio` and `--import-fio`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use straddle_bench::fio::{self, Job};
use straddle_bench::{Clock, Description, Host, Workload};
use straddle_real::Io;

use crate::args::{BenchArguments, Way};
use crate::exit::{Exit, UsageError};
use crate::keep;
use crate::output::Styles;
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
    let io = if arguments.real.io == Some(Way::Buffered) { Io::Buffered } else { Io::Direct };
    let job = Job {
        target: &path_of.to_string_lossy(),
        offsets: &arguments.offsets.0,
        sector: straddle_real::logical_sector(path_of, io)?,
        direct: io == Io::Direct,
        bytes: arguments.real.area.map(|area| area.get()),
        seconds: arguments.real.runtime.unwrap_or(SECONDS),
    };
    let text = fio::emit(workload, &job)?;
    keep::write(path, text.as_bytes(), &super::target(arguments))?;
    Ok(Exit::Success)
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
