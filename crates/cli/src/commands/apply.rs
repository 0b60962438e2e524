//! `straddle apply` and `straddle undo`: a plan written, and taken back.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use straddle_device::Options;
use straddle_device::image::Format;
use straddle_repair::apply::{self, ApplyError, Backup, Progress};
use straddle_repair::disk::{DiskError, FileDisk};
use straddle_repair::{Plan, Step};

use super::plan::{check_raw, of_open_error, of_plan_error, serial_of};
use crate::args::{ApplyArguments, UndoArguments};
use crate::exit::{Exit, RefusedError, UsageError};
use crate::output::{self, Styles, plural, quote_path};
use crate::view::text;

/// No plan is larger.
const LARGEST_PLAN: u64 = 16 << 20;

/// The target of a write, open for it.
struct Opened {
    name: String,
    disk: FileDisk,
    kernel_name: Option<String>,
    serial: Option<String>,
    /// Its logical sector.
    sector: u64,
}

pub(crate) fn apply(arguments: &ApplyArguments, styles: Styles) -> Result<Exit> {
    let plan = load(&arguments.plan)?;
    let mut target = open(&arguments.write, arguments.format)?;
    if target.kernel_name.is_some() && target.sector != plan.disk.sector {
        let (name, sector, planned) = (&target.name, target.sector, plan.disk.sector);
        let text =
            format!("{name}: the plan counts in {planned}-byte sectors, and the disk has {sector}-byte ones");
        return Err(RefusedError(text).into());
    }
    let failed = |error: ApplyError, name: &str| of_apply_error(error, name);
    let serial = target.serial.clone();
    let backup_path = arguments.backup.clone().unwrap_or_else(|| with_ending(&arguments.plan, "undo"));
    let steps = apply::prepare(&target.disk, &plan, serial.as_deref()).map_err(|error| {
        let is_other = matches!(error, ApplyError::OtherDisk(_));
        let error = failed(error, &target.name);
        match earlier(&target, &backup_path, &arguments.write).filter(|_| is_other) {
            Some(earlier) => RefusedError(format!("{error:#}; {earlier}")).into(),
            None => error,
        }
    })?;
    let mut out = output::stdout();
    out.write_all(text::plan::lost(&plan, output::width(), styles).as_bytes())?;
    out.flush()?;
    if arguments.dry_run {
        out.write_all(listing(&steps).as_bytes())?;
        writeln!(
            out,
            "nothing was written; without --dry-run the backup would be {}",
            output::printable(&backup_path.display().to_string())
        )?;
        out.flush()?;
        return Ok(Exit::Aligned);
    }
    if let Some(earlier) = earlier(&target, &backup_path, &arguments.write) {
        return Err(RefusedError(format!("{}: nothing was written: {earlier}", target.name)).into());
    }
    apply::check_kernel(&target.disk).map_err(|error| failed(error, &target.name))?;
    Backup::of(&steps, plan.disk.size, serial)
        .watching(&target.disk, &plan, &steps)
        .map_err(|error| failed(error, &target.name))?
        .store(&backup_path)
        .map_err(|error| anyhow::Error::from(error).context(target.name.clone()))?;
    apply::write(&mut target.disk, &steps)
        .and_then(|()| apply::agrees(&target.disk, &plan))
        .map_err(|error| failed(error, &target.name))?;
    let told = tell_kernel(&target, Some(&plan));
    let name = output::printable(&target.name);
    let count = plural(plan.table.partitions.len(), "partition");
    writeln!(
        out,
        "{name}: {} with {count} written and read back ({} in {})",
        plan.table.format,
        apply::written(&steps),
        plural(steps.iter().filter(|step| matches!(step, Step::Write { .. })).count(), "place")
    )?;
    let (backup, operand) = (quote_path(&backup_path), quote_path(&arguments.write));
    writeln!(out, "  to take it back: straddle undo {backup} --write {operand}")?;
    out.flush()?;
    told?;
    Ok(Exit::Aligned)
}

/// What is already where the backup would be stored, and what to do about it.
fn earlier(target: &Opened, backup: &Path, operand: &Path) -> Option<String> {
    fs::symlink_metadata(backup).ok()?;
    let (name, quoted) = (backup.display(), quote_path(backup));
    let undo = format!("straddle undo {quoted} --write {}", quote_path(operand));
    let progress = Backup::load(backup).map_err(anyhow::Error::from);
    let progress = progress.and_then(|backup| Ok(backup.progress(&target.disk, target.serial.as_deref())?));
    Some(match progress {
        Ok(Progress::Nothing) => format!(
            "{name} is the backup of an earlier apply, of which nothing is on this disk: that failed before its first write, was taken back, \
             or was on another disk that is like this one and may need it. Name another file with --backup, or move it away: mv -n {quoted} {}",
            quote_path(&with_ending(backup, "earlier"))
        ),
        Ok(Progress::Part { written, of }) => format!(
            "{name} is the backup of an earlier apply that did not come to its end: {written} of {of} bytes are written; take them back \
             first: {undo}"
        ),
        Ok(Progress::Whole) => format!(
            "{name} is the backup of an earlier apply, all of which is on this disk: take it back with {undo}, or keep it and name \
             another file with --backup"
        ),
        Err(error) => format!(
            "{name} is there, and is not the backup of what is on this disk ({error:#}): name another file with --backup, or move it away"
        ),
    })
}

/// The path with another ending behind its own: `plan.json.undo` for `plan.json`.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

pub(crate) fn undo(arguments: &UndoArguments) -> Result<Exit> {
    let backup = Backup::load(&arguments.backup)?;
    let mut target = open(&arguments.write, arguments.format)?;
    let steps = backup
        .undoing(&target.disk, target.serial.as_deref())
        .map_err(|error| of_apply_error(error, &target.name))?;
    if !arguments.force {
        backup.check_unwritten(&target.disk).map_err(|error| {
            let hint = matches!(error, ApplyError::WrittenSince { .. })
                .then_some("--force takes the table back all the same");
            let error = of_apply_error(error, &target.name);
            match hint {
                Some(hint) => RefusedError(format!("{error:#}; {hint}")).into(),
                None => error,
            }
        })?;
    }
    apply::check_kernel(&target.disk).map_err(|error| of_apply_error(error, &target.name))?;
    apply::write(&mut target.disk, &steps).map_err(|error| of_apply_error(error, &target.name))?;
    let told = tell_kernel(&target, None);
    let mut out = output::stdout();
    writeln!(
        out,
        "{}: what was there before is there again, and was read back",
        output::printable(&target.name)
    )?;
    out.flush()?;
    told?;
    Ok(Exit::Aligned)
}

fn load(path: &Path) -> Result<Plan> {
    let told = || format!("{}: cannot read the plan", path.display());
    let metadata = fs::metadata(path).with_context(told)?;
    if !metadata.is_file() || metadata.len() > LARGEST_PLAN {
        return Err(UsageError(format!(
            "{}: no plan: not a regular file, or larger than any plan",
            path.display()
        ))
        .into());
    }
    let text = fs::read_to_string(path).with_context(told)?;
    Plan::from_json(&text).map_err(|error| of_plan_error(error, &path.display().to_string()))
}

/// Opens the target for writing, once it is known that nobody uses it.
fn open(path: &Path, format: Option<Format>) -> Result<Opened> {
    let name = path.display().to_string();
    let options = Options { format, ..Options::default() };
    let target = straddle_device::open(path, &options).map_err(|error| of_open_error(error, &name))?;
    check_raw(&target, &name)?;
    if let Some(number) = target.partition {
        return Err(UsageError(format!("{name} is partition {number} of a disk: name the disk")).into());
    }
    super::plan::check_zones(&target, &name)?;
    if target.read_only {
        return Err(RefusedError(format!("{name}: nothing was written: the device is read-only")).into());
    }
    let disk = FileDisk::open(path, target.size).map_err(|error| of_apply_error(error.into(), &name))?;
    if target.id.is_some_and(|id| id != disk.id()) {
        return Err(of_apply_error(DiskError::Replaced.into(), &name));
    }
    let serial = target.kernel_name.as_deref().and_then(serial_of);
    let sector = target.topology.logical.value().get();
    Ok(Opened { name, disk, kernel_name: target.kernel_name, serial, sector })
}

/// Has the kernel take the table; on an image there is none that does.
fn tell_kernel(target: &Opened, plan: Option<&Plan>) -> Result<()> {
    let Some(name) = target.kernel_name.as_deref().filter(|_| target.disk.is_device()) else { return Ok(()) };
    apply::tell_kernel(&target.disk, name, plan).map_err(|error| of_apply_error(error, &target.name))
}

/// Every write, a line each.
fn listing(steps: &[Step]) -> String {
    let line = |step: &Step| match step {
        Step::Write { at, new, what, .. } => {
            format!("byte {at:>14}  {:>8} bytes  {}\n", new.len(), output::printable(what))
        }
        Step::Flush => "flush\n".to_owned(),
    };
    steps.iter().map(line).collect()
}

fn of_apply_error(error: ApplyError, name: &str) -> anyhow::Error {
    let is_refusal = matches!(
        error,
        ApplyError::OtherDisk(_)
            | ApplyError::WouldDiffer(_)
            | ApplyError::WrittenSince { .. }
            | ApplyError::InUse(_)
            | ApplyError::Disk(DiskError::InUse(_) | DiskError::Replaced)
    );
    match error {
        ApplyError::Plan(error) => of_plan_error(error, name),
        error => {
            let text = format!("{name}: {:#}", anyhow::Error::from(error));
            if is_refusal { RefusedError(text).into() } else { anyhow!(text) }
        }
    }
}
