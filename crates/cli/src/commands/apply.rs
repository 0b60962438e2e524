//! `straddle apply` and `straddle undo`: write a plan, and revert it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use straddle_device::Options;
use straddle_device::image::Format;
use straddle_repair::apply::{ApplyError, BackedUp, Backup, LaterWrites, Prepared, Progress, Written};
use straddle_repair::disk::{Disk, FileDisk};
use straddle_repair::{Plan, Step};
use straddle_units::BlockSize;

use super::plan::{check_raw, of_open_error, serial_of};
use crate::args::{ApplyArguments, UndoArguments};
use crate::exit::{Exit, RefusedError, UsageError};
use crate::output::{self, Styles, plural, quote_path};
use crate::view::text;

/// The largest plan accepted, in bytes.
pub(super) const LARGEST_PLAN: u64 = 16 << 20;

/// A target opened for writing.
struct Opened {
    name: String,
    disk: FileDisk,
    kernel_name: Option<String>,
    serial: Option<String>,
    /// The target's logical sector.
    sector: BlockSize,
}

pub(crate) fn apply(arguments: &ApplyArguments, styles: Styles) -> Result<Exit> {
    let plan = load(&arguments.plan)?;
    let mut target = open(&arguments.write, arguments.format)?;
    if target.kernel_name.is_some() && target.sector != plan.block() {
        let (name, sector, planned) = (&target.name, target.sector, plan.block());
        let text =
            format!("{name}: the plan counts in {planned}-byte sectors, and the disk has {sector}-byte ones");
        return Err(RefusedError(text).into());
    }
    let backup_path = arguments.backup.clone().unwrap_or_else(|| with_ending(&arguments.plan, "undo"));
    let prepared = match Prepared::of(&mut target.disk, &plan, target.serial.as_deref()) {
        Ok(prepared) => prepared,
        Err(error) => {
            let is_other = matches!(error, ApplyError::OtherDisk(_));
            let error = anyhow::Error::from(error).context(target.name.clone());
            let earlier = earlier(&target.disk, target.serial.as_deref(), &backup_path, &arguments.write);
            return Err(match earlier.filter(|_| is_other) {
                Some(earlier) => RefusedError(format!("{error:#}; {earlier}")).into(),
                None => error,
            });
        }
    };
    let mut out = output::stdout();
    out.write_all(text::plan::lost(&plan, output::width(), styles).as_bytes())?;
    out.flush()?;
    // A dry run refuses what the real one would.
    if let Some(earlier) = earlier(prepared.disk(), target.serial.as_deref(), &backup_path, &arguments.write)
    {
        return Err(RefusedError(format!("{}: nothing was written: {earlier}", target.name)).into());
    }
    if arguments.dry_run {
        out.write_all(listing(prepared.steps()).as_bytes())?;
        writeln!(
            out,
            "nothing was written; without --dry-run the backup would be {}",
            output::printable(&backup_path.display().to_string())
        )?;
        out.flush()?;
        return Ok(Exit::Success);
    }
    let written = prepared.back_up(&backup_path).and_then(BackedUp::write);
    let written = written.with_context(|| target.name.clone())?;
    let told = tell_kernel(&written, target.kernel_name.as_deref(), &target.name);
    let name = output::printable(&target.name);
    let count = plural(plan.table().partitions.len(), "partition");
    writeln!(
        out,
        "{name}: {} with {count} written and read back ({} in {})",
        plan.table().format,
        written.bytes(),
        plural(written.places(), "place")
    )?;
    let (backup, operand) = (quote_path(&backup_path), quote_path(&arguments.write));
    writeln!(out, "  to revert: straddle undo {backup} --write {operand}")?;
    out.flush()?;
    told?;
    Ok(Exit::Success)
}

/// Describes the file that is already at the path of the backup, and says what to do about it.
fn earlier(disk: &dyn Disk, serial: Option<&str>, backup: &Path, operand: &Path) -> Option<String> {
    fs::symlink_metadata(backup).ok()?;
    let (name, quoted) = (backup.display(), quote_path(backup));
    let undo = format!("straddle undo {quoted} --write {}", quote_path(operand));
    let progress = Backup::load(backup).map_err(anyhow::Error::from);
    let progress = progress.and_then(|backup| Ok(backup.progress(disk, serial)?));
    Some(match progress {
        Ok(Progress::Nothing) => format!(
            "{name} is the backup of an earlier apply, of which nothing is on this disk: it failed before its first write, was reverted, \
             or was for another disk that is similar to this one and may need it. Name another file with --backup, or move it away: mv -n {quoted} {}",
            quote_path(&with_ending(backup, "earlier"))
        ),
        Ok(Progress::Part { written, of }) => format!(
            "{name} is the backup of an interrupted apply: {written} of {of} bytes were written; revert them \
             first: {undo}"
        ),
        Ok(Progress::Whole) => format!(
            "{name} is the backup of an earlier apply, which was fully applied to this disk: revert it with {undo}, or keep it and name \
             another file with --backup"
        ),
        Err(error) => format!(
            "{name} exists, but is not a backup for this disk's contents ({error:#}): name another file with --backup, or move it away"
        ),
    })
}

/// Appends an ending to the path: `plan.json.undo` for `plan.json`.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

pub(crate) fn undo(arguments: &UndoArguments) -> Result<Exit> {
    let backup = Backup::load(&arguments.backup)?;
    let mut target = open(&arguments.write, arguments.format)?;
    let later = if arguments.force { LaterWrites::Discard } else { LaterWrites::Refuse };
    let was_written = backup.progress(&target.disk, target.serial.as_deref());
    let backed_up = backup.undo(&mut target.disk, target.serial.as_deref(), later).map_err(|error| {
        let hint =
            matches!(error, ApplyError::WrittenSince { .. }).then_some("--force reverts the table anyway");
        let error = anyhow::Error::from(error).context(target.name.clone());
        match hint {
            Some(hint) => RefusedError(format!("{error:#}; {hint}")).into(),
            None => error,
        }
    })?;
    let written = backed_up.write().with_context(|| target.name.clone())?;
    let told = tell_kernel(&written, target.kernel_name.as_deref(), &target.name);
    let mut out = output::stdout();
    let outcome = match was_written {
        Ok(Progress::Nothing) => "nothing to revert; original contents verified",
        _ => "original contents restored and verified",
    };
    writeln!(out, "{}: {outcome}", output::printable(&target.name))?;
    out.flush()?;
    told?;
    Ok(Exit::Success)
}

fn load(path: &Path) -> Result<Plan> {
    let told = || format!("{}: cannot read the plan", path.display());
    let metadata = fs::metadata(path).with_context(told)?;
    if !metadata.is_file() || metadata.len() > LARGEST_PLAN {
        return Err(
            UsageError(format!("{}: not a plan: not a regular file, or too large", path.display())).into()
        );
    }
    let text = fs::read_to_string(path).with_context(told)?;
    Plan::from_json(&text).with_context(|| path.display().to_string())
}

/// Opens the target for writing, once it is known that nothing else uses it.
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
    let disk = FileDisk::open(path, target.size, target.id).with_context(|| name.clone())?;
    let serial = target.kernel_name.as_deref().and_then(serial_of);
    let sector = target.topology.logical.value();
    Ok(Opened { name, disk, kernel_name: target.kernel_name, serial, sector })
}

/// Makes the kernel reread the table of a block device, and checks what it then lists. Does nothing for an
/// image, whose table no kernel reads.
fn tell_kernel(written: &Written<'_>, kernel_name: Option<&str>, name: &str) -> Result<()> {
    let Some(kernel_name) = kernel_name else { return Ok(()) };
    written.tell_kernel(kernel_name).with_context(|| name.to_owned())
}

/// Lists every write, one per line.
fn listing(steps: &[Step]) -> String {
    let line = |step: &Step| match step {
        Step::Write { at, new, what, .. } => {
            format!("byte {at:>14}  {:>8} bytes  {}\n", new.len(), output::printable(what))
        }
        Step::Flush => "flush\n".to_owned(),
    };
    steps.iter().map(line).collect()
}
