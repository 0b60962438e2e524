//! `straddle bench --emit-fio` and `--import-fio`.

use std::path::Path;
use std::{fs, io};

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
    let is_new = match fs::metadata(path_of) {
        Ok(found) => found.is_file() && found.len() == 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| target.to_string()),
    };
    if is_new && !workload.writes() {
        return Err(
            UsageError(format!("{target}: there is nothing to read: fio would write it first")).into()
        );
    }
    let way = if arguments.real.io == Some(Way::Buffered) { Io::Buffered } else { Io::Direct };
    if workload.writes() && !is_new {
        check_given_up(path_of, arguments.real.destroy_data.as_deref(), way)?;
    }
    // fio may be run in another folder, or when a link leads elsewhere.
    let whole = if path_of.exists() { path_of.canonicalize()? } else { std::path::absolute(path_of)? };
    if std::path::absolute(path).is_ok_and(|path| path == whole) {
        return Err(UsageError(format!("{target}: the job file cannot be its own target")).into());
    }
    let Some(name) = whole.to_str() else {
        return Err(UsageError(format!("{target}: fio's job files hold names in UTF-8")).into());
    };
    let sector = straddle_real::logical_sector(path_of, way)?;
    let last = arguments.offsets.0.iter().max().map_or(0, |last| last.saturating_mul(sector));
    let asked = arguments.real.area.map(|area| area.get());
    let job = Job {
        target: name,
        offsets: &arguments.offsets.0,
        sector,
        direct: way == Io::Direct,
        bytes: area(path_of, asked, last)?,
        seconds: arguments.real.runtime.unwrap_or(SECONDS),
    };
    let text = fio::emit(workload, &job)?;
    keep::write(path, text.as_bytes(), &super::target(arguments))?;
    Ok(Exit::Success)
}

/// Refuses a target whose contents fio would overwrite, unless they are given up by its name and nothing uses it.
fn check_given_up(path: &Path, again: Option<&str>, way: Io) -> Result<()> {
    let shown = quote_path(path);
    let Some(again) = again else {
        let message = format!(
            "{shown}: fio would write over it from its first byte on, and restores nothing: give its contents up with --destroy-data {shown}, or name a \
             file that does not exist"
        );
        return Err(RefusedError(message).into());
    };
    Ok(straddle_real::check_given_up(path, Path::new(again), way)?)
}

/// How many bytes each arm may use. fio makes an existing file longer, over what it holds, if it ends too early for that.
fn area(path: &Path, asked: Option<u64>, last: u64) -> Result<Option<u64>> {
    let Ok(found) = fs::metadata(path) else { return Ok(asked.or(Some(real::AREA))) };
    match (found.is_file(), found.len()) {
        (true, 0) => Ok(asked.or(Some(real::AREA))),
        (true, len) => match len.checked_sub(last).filter(|left| *left > 0) {
            Some(left) => Ok(Some(asked.map_or(left, |asked| asked.min(left)))),
            None => Err(UsageError(format!("{}: ends before the last offset", quote_path(path))).into()),
        },
        _ => Ok(asked),
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
