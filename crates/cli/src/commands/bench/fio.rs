//! `straddle bench --emit-fio` and `--import-fio`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use straddle_measure::bench::fio::Job;
use straddle_measure::bench::{Clock, Description, Host, WarmUp, Workload, fio};
use straddle_measure::real::Io;

use crate::commands::bench::BenchArguments;
use crate::exit::{Exit, refuse, usage};
use crate::output::quote_path;
use crate::output_file;
use crate::target::TargetSpec;
use crate::view::json::bench::Bench;

const MAX_OUTPUT: u64 = 256 << 20;

pub(super) fn emit(
    arguments: &BenchArguments,
    target: &TargetSpec,
    workload: &Workload,
    path: &Path,
) -> Result<Exit> {
    let Some(path_of) = target.path() else {
        return usage(format!(
            "{target}: fio opens only files and devices; export the drive with 'straddle serve', and use the \
             resulting device"
        ));
    };
    let name = settled(path_of)?;
    let way = arguments.real.io.unwrap_or(Io::Direct);
    if workload.writes() {
        check_given_up(path_of, arguments.real.destroy_data.as_deref(), way)?;
    }
    if std::path::absolute(path).is_ok_and(|path| path == name) {
        return usage(format!("{target}: the job file cannot be its own target"));
    }
    let Some(name) = name.to_str() else {
        return usage(format!("{target}: names in fio's job files must be UTF-8"));
    };
    let (size, sector) = straddle_measure::real::extent(path_of, way)?;
    let offsets = &arguments.offsets.0;
    let last = offsets.iter().max().copied().unwrap_or_default().saturating_mul(sector);
    // fio makes an existing file longer, over what it holds, if it ends too early.
    let Some(left) = size.checked_sub(last).filter(|left| *left > 0) else {
        return usage(format!("{target}: ends before the last offset"));
    };
    let job = Job {
        target: name,
        offsets,
        sector,
        direct: way == Io::Direct,
        bytes: arguments.real.area.map_or(left, |asked| asked.get().min(left)),
        runtime: arguments.real.runtime,
    };
    let text = fio::emit(workload, &job).with_context(|| target.to_string())?;
    // A job file is a place for settings of one's own.
    output_file::write(path, text.as_bytes(), &super::target(arguments))?;
    Ok(Exit::Success)
}

/// The name by which fio finds the target, in whatever folder it runs. A file is named without links, which
/// may lead elsewhere by then. A disk keeps its name in /dev: a link by-id follows the disk, while `/dev/sdb`
/// may become another one.
fn settled(path: &Path) -> Result<PathBuf> {
    let shown = quote_path(path);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return usage(format!(
                "{shown}: there is no such file or device; to create a file: truncate --size"
            ));
        }
        Err(error) => return Err(error).with_context(|| shown.to_string()),
    };
    if found.is_file() && found.len() == 0 {
        return usage(format!(
            "{shown}: is empty, and fio would extend it; set its size first (truncate --size)"
        ));
    }
    let whole = path.canonicalize().with_context(|| shown.to_string())?;
    if !found.file_type().is_block_device() {
        return Ok(whole);
    }
    let given = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (given.parent(), given.file_name()) else { return Ok(whole) };
    let folder = folder.canonicalize().with_context(|| shown.to_string())?;
    let given = folder.join(name);
    // by-id, which udev names after the disk itself, or a mapping.
    let follows_its_disk = ["/dev/disk/by-id", "/dev/mapper"].iter().any(|it| folder == Path::new(it));
    if given == whole || follows_its_disk {
        return Ok(given);
    }
    let message = format!(
        "{shown}: this link may later point to another disk; use the link in /dev/disk/by-id, or {}",
        quote_path(&whole)
    );
    usage(message)
}

/// Refuses a target whose contents fio would overwrite, unless they are given up by its name and nothing uses
/// it.
fn check_given_up(path: &Path, again: Option<&str>, way: Io) -> Result<()> {
    let shown = quote_path(path);
    let Some(again) = again else {
        return refuse(format!(
            "{shown}: fio would overwrite it from the first byte on without restoring it; to allow this, add \
             --destroy-data {shown}"
        ));
    };
    Ok(straddle_measure::real::check_given_up(path, Path::new(again), way)?)
}

pub(super) fn import(arguments: &BenchArguments, path: &Path) -> Result<Exit> {
    let failure = || format!("{}: cannot read", path.display());
    output_file::note_read(path);
    let metadata = fs::metadata(path).with_context(failure)?;
    if !metadata.is_file() || metadata.len() > MAX_OUTPUT {
        anyhow::bail!(
            "{}: not fio's output (not a regular file, or larger than {MAX_OUTPUT} bytes)",
            path.display()
        );
    }
    let bytes = fs::read(path).with_context(failure)?;
    let run = fio::import(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())?;
    let title = format!("a target of {}", run.version);
    let target = Description { name: run.target, title, clock: Clock::Wall };
    let bench = Bench {
        warm_up: WarmUp::Runs(0),
        target: &target,
        // fio's output does not give it.
        capacity: u64::MAX,
        logical_sector: run.sector,
        workload: &run.workload,
        host: Host::default(),
        sweep: &run.sweep,
        firmware: None,
        turns: None,
    };
    super::show(&bench, arguments)?;
    Ok(Exit::Success)
}
