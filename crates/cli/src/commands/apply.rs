//! `straddle apply` and `straddle undo`: write a plan, and revert it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use straddle_repair::apply::{ApplyError, BackedUp, Backup, LaterWrites, Prepared, Progress};
use straddle_repair::{Step, Target};

use crate::args::FormatArguments;
use crate::commands::plan::Saved;
use crate::commands::realign::MoveArguments;
use crate::commands::{copy, realign};
use crate::exit::{Exit, UsageError, refuse};
use crate::output::{plural, quote_path};
use crate::target::{local_paths, local_targets};
use crate::view::text;
use crate::{durability, exit, output};

pub(crate) const MOVES: &[(u8, &str)] = &[
    (0, "success"),
    (1, "done, but some sectors could not be read"),
    (3, "a disk or file could not be read or written"),
    (4, "refused for safety; nothing was written"),
];

const APPLY_EXAMPLES: &str = "\
Examples:
  straddle apply plan.json --write disk.img           # backup: plan.json.undo
  straddle apply plan.json --write sdb --backup /root/sdb.undo
  straddle apply plan.json --write sdb --dry-run      # write nothing
  straddle apply sdb.move.json --write sdb            # from straddle realign
  straddle apply sdb.move.json --write sdb --journal sdb.move.journal
                                          # keep the journal on another disk
  straddle apply copy.json --from old.qcow2 --write new.img
                                          # from straddle realign --to

Nothing is written to a target that is in use. Nothing is written unless the
target's size, partition table and serial number (if any) match the plan.

Before a table is written, all bytes to be overwritten are saved in the backup.
After a power cut, the disk has either the old table or the new one. When
partitions are moved, all bytes to be overwritten are first saved in the
journal. After a power cut, run 'straddle resume' to complete the move or roll
it back. When a disk is copied, the source is opened read-only. To restart an
interrupted copy, run the same command again.";

#[derive(Debug, Args)]
#[command(after_help = format!("{APPLY_EXAMPLES}\n\n{}", exit::help(MOVES)))]
pub(crate) struct ApplyArguments {
    /// Plan saved by 'straddle plan' or 'straddle realign' (with --save).
    #[arg(value_name = "PLAN", value_hint = clap::ValueHint::FilePath)]
    pub(crate) plan: PathBuf,

    /// Block device or raw image to write to.
    #[arg(long, value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = local_targets(), required = true)]
    pub(crate) write: PathBuf,

    #[command(flatten)]
    pub(crate) image: FormatArguments,

    /// For table plans: new file, on another disk, for a backup of the overwritten bytes [default:
    /// PLAN.undo].
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) backup: Option<PathBuf>,

    /// For copy plans: disk or image to copy from, opened read-only.
    #[arg(long, value_name = "SOURCE", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) from: Option<PathBuf>,

    /// Format of the --from image. Must match the --format given to 'straddle realign --to'.
    #[arg(long, value_name = "FORMAT", requires = "from")]
    pub(crate) from_format: Option<straddle_device::image::Format>,

    /// With --from: allow this backing, parent or extent file to be opened if an image refers to it. Can be
    /// repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), requires = "from")]
    pub(crate) allow_backing: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) moves: MoveArguments,

    /// For table plans: show what would be written, without writing anything.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const UNDO_EXAMPLES: &str = "\
Examples:
  straddle undo plan.json.undo --write disk.img
  straddle undo plan.json.undo --write new.img --was /srv/disk.img    # renamed

'straddle undo' also reverts an interrupted 'straddle apply'. 'straddle undo'
changes nothing in these cases:
  the disk contains neither the original nor the written data
  another part of the partition table has changed
  the first MiB or last 64 KiB of a new partition has been written to
  the contents of a grown partition no longer fit into its old size
A disk without a serial number is identified by its path.";

#[derive(Debug, Args)]
#[command(after_help = format!("{UNDO_EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct UndoArguments {
    /// Backup created by 'straddle apply'.
    #[arg(value_name = "BACKUP", value_hint = clap::ValueHint::FilePath)]
    pub(crate) backup: PathBuf,

    /// Block device or raw image to write to.
    #[arg(long, value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = local_targets(), required = true)]
    pub(crate) write: PathBuf,

    #[command(flatten)]
    pub(crate) image: FormatArguments,

    /// Former path of a disk without a serial number, if its path has changed since the backup.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) was: Option<PathBuf>,

    /// Revert the table even if a new or grown partition has been written to. The contents of the partition
    /// are then lost.
    #[arg(long)]
    pub(crate) force: bool,
}

fn check_options(saved: &Saved, arguments: &ApplyArguments) -> Result<(), UsageError> {
    let moves = &arguments.moves;
    let of_tables = arguments.dry_run || arguments.backup.is_some();
    let refused = match saved {
        Saved::Copy(_) if of_tables || moves.journal.is_some() => {
            "--dry-run, --backup and --journal do not apply to a copy plan, because a copy does not change \
             its source"
        }
        Saved::Table(_) | Saved::Moves(_) if arguments.from.is_some() => {
            "--from applies only to a plan made by 'straddle realign --to'"
        }
        Saved::Moves(_) if of_tables => {
            "--dry-run and --backup apply only to a plan made by 'straddle plan'; 'straddle realign' shows \
             what a move plan will move"
        }
        Saved::Table(_) if moves.journal.is_some() || moves.skip_bad.is_some() => {
            "--journal and --skip-bad apply only to a plan made by 'straddle realign'"
        }
        Saved::Table(_) | Saved::Moves(_) | Saved::Copy(_) => return Ok(()),
    };
    Err(UsageError(refused.to_owned()))
}

pub(crate) fn apply(arguments: &ApplyArguments) -> Result<Exit> {
    let saved = Saved::load(&arguments.plan).map_err(|error| match Saved::load(&arguments.write) {
        Ok(_) => {
            let [target, plan] = [&arguments.plan, &arguments.write].map(|path| quote_path(path));
            UsageError(format!("the plan must be the first argument: straddle apply {plan} --write {target}"))
                .into()
        }
        Err(_) => error,
    })?;
    check_options(&saved, arguments)?;
    let name = arguments.write.display().to_string();
    let open = || Target::open(&arguments.write, arguments.image.format).with_context(|| name.clone());
    let plan = match saved {
        Saved::Copy(made) => return copy::apply(&made, arguments),
        Saved::Moves(realign) => {
            return realign::apply(&realign, &arguments.write, &arguments.moves, open()?);
        }
        Saved::Table(plan) => plan,
    };
    let mut target = open()?;
    let backup_path = arguments.backup.clone().unwrap_or_else(|| with_ending(&arguments.plan, "undo"));
    // A file in the place of the backup may be that of an earlier apply, which explains why the disk is not the
    // plan's. Its state is found while the disk can still be read.
    let earlier = earlier(&target, &backup_path, &arguments.write);
    let prepared = match (Prepared::of(&mut target, &plan), &earlier) {
        (Err(error @ ApplyError::OtherDisk(_)), Some(earlier)) => {
            return refuse(format!("{name}: {error}; {earlier}"));
        }
        (prepared, _) => prepared.with_context(|| name.clone())?,
    };
    output::print(&text::plan::lost(&plan))?;
    // A dry run refuses what the real one would.
    if let Some(earlier) = earlier {
        return refuse(format!("{name}: nothing was written, because {earlier}"));
    }
    durability::warn(("backup", "file on a disk with --backup"), &backup_path, &arguments.write);
    if arguments.dry_run {
        output::print(&format!(
            "{}nothing was written; without --dry-run, the backup would be {}\n",
            listing(prepared.steps()),
            output::printable(&backup_path.display().to_string())
        ))?;
        return Ok(Exit::Success);
    }
    let written = prepared.back_up(&backup_path).and_then(BackedUp::write);
    let written = written.with_context(|| name.clone())?;
    let reread = written.tell_kernel().with_context(|| name.clone());
    let name = output::printable(&name);
    let count = plural(plan.table.partitions.len(), "partition");
    let (backup, operand) = (quote_path(&backup_path), quote_path(&arguments.write));
    output::print(&format!(
        "{name}: {} with {count} written and read back ({})\n  to revert: straddle undo {backup} \
         --write {operand}\n",
        plan.table.format,
        written.bytes()
    ))?;
    reread?;
    Ok(Exit::Success)
}

/// Describes the file that is already at the path of the backup, and says what to do about it.
fn earlier(target: &Target<'_>, backup: &Path, operand: &Path) -> Option<String> {
    fs::symlink_metadata(backup).ok()?;
    let (name, quoted) = (backup.display(), quote_path(backup));
    let undo = format!("straddle undo {quoted} --write {}", quote_path(operand));
    let loaded = Backup::load(backup).map_err(anyhow::Error::from);
    if loaded.as_ref().is_ok_and(Backup::is_reverted) {
        return None;
    }
    if let Some(path) = loaded.as_ref().ok().and_then(|loaded| loaded.elsewhere(target)) {
        return Some(format!(
            "{name} is the backup of a change to {}; choose another file with --backup. If that is the old \
             name of this disk, revert the change with: {undo} --was {}",
            output::printable(path),
            quote_path(Path::new(path))
        ));
    }
    let progress = loaded.and_then(|backup| Ok(backup.progress(target)?));
    Some(match progress {
        Ok(Progress::Nothing) => format!(
            "{name} is the backup of an earlier change that is not on this disk (the change failed before \
             its first write, was reverted, or was made to a similar disk). Choose another file with \
             --backup, or rename this one: mv -n {quoted} {}",
            quote_path(&with_ending(backup, "earlier"))
        ),
        Ok(Progress::Part { written, of }) => format!(
            "{name} is the backup of an interrupted 'straddle apply', which wrote {written} of {of} bytes; \
             first revert that change: {undo}"
        ),
        Ok(Progress::Whole) => format!(
            "{name} is the backup of an earlier change to this disk, which is complete; keep this file and \
             choose another one with --backup, or revert that change: {undo}"
        ),
        Err(error) => format!(
            "{name} exists, but is not a backup of this disk's contents ({error:#}); choose another file \
             with --backup, or rename this one"
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
    let name = arguments.write.display().to_string();
    let mut backup = Backup::load(&arguments.backup)?;
    if let Some(was) = &arguments.was {
        backup = backup.renamed_from(was).with_context(|| name.clone())?;
    }
    let mut target = Target::open(&arguments.write, arguments.image.format).with_context(|| name.clone())?;
    let later = if arguments.force { LaterWrites::Discard } else { LaterWrites::Refuse };
    let was_written = backup.progress(&target);
    let backed_up = match backup.undo(&mut target, later) {
        Err(error @ (ApplyError::WrittenSince { .. } | ApplyError::Outgrown { .. })) => {
            return refuse(format!("{name}: {error}; --force reverts the table anyway"));
        }
        Err(ref error @ ApplyError::Elsewhere { ref path }) => {
            let was = quote_path(Path::new(path));
            return refuse(format!("{name}: {error}; if the disk was renamed, add --was {was}"));
        }
        backed_up => backed_up.with_context(|| name.clone())?,
    };
    let written = backed_up.write().with_context(|| name.clone())?;
    let reread = written.tell_kernel().with_context(|| name.clone());
    // Not if it was for another disk, or nothing of it was there: another disk may need it. If it cannot be noted,
    // the next apply asks for another name.
    if arguments.was.is_none() && !matches!(was_written, Ok(Progress::Nothing) | Err(_)) {
        let _ = Backup::retire(&arguments.backup);
    }
    let outcome = match was_written {
        Ok(Progress::Nothing) => "nothing to revert: the disk has its original contents",
        _ if arguments.force => {
            "the bytes that apply overwrote were restored and verified; later changes were kept"
        }
        _ => "original contents restored and verified",
    };
    output::print(&format!("{}: {outcome}\n", output::printable(&name)))?;
    reread?;
    Ok(Exit::Success)
}

fn listing(steps: &[Step]) -> String {
    let line = |step: &Step| match step {
        Step::Write { at, new, what, .. } => {
            format!("byte {at:>14}  {:>8} bytes  {}\n", new.len(), output::printable(what))
        }
        Step::Flush => "flush\n".to_owned(),
    };
    steps.iter().map(line).collect()
}
