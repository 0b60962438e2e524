//! `straddle realign` and `straddle resume`, and the part of `straddle apply` that moves data.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::{FileId, Options};
use straddle_repair::apply::ApplyError;
use straddle_repair::realign::{
    JournalFile, JournalPlace, Listing, MoveError, Outcome, Realign, RealignError, Run, Wanted,
};
use straddle_repair::relocate::Bad;
use straddle_repair::{Depth, Document, Place, Present, SCHEMA, Situation, Target, realign};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, Lba};

use crate::args::{FormatArguments, SectorArguments, block_size, partition_number, positive_size};
use crate::commands::apply::MOVES;
use crate::commands::copy::CopyArguments;
use crate::commands::plan::save;
use crate::commands::{at_boot, copy};
use crate::exit::{Exit, UsageError, refuse, usage};
use crate::output::quote_path;
use crate::progress::Watcher;
use crate::target::local_targets;
use crate::view::text;
use crate::{durability, exit, input, output, output_file};

const REALIGN_EXAMPLES: &str = "\
Examples:
  straddle realign sdb --save sdb.move.json           # nothing is written
  straddle apply sdb.move.json --write sdb            # move the data
  straddle resume sdb                     # continue after an interruption
  straddle resume sdb --rollback          # restore the old layout
  straddle realign disk.img --partition 2 --start 2=8MiB --save move.json
  straddle realign old.qcow2 --to new.img --save copy.json    # copy instead
  straddle apply copy.json --from old.qcow2 --write new.img
  straddle realign sda --at-boot          # the system's disk, at the next boot

The new table becomes active once all data has been moved. If the move is
interrupted, even by a power cut, no data is lost, because the journal holds the
data that is being overwritten. The journal is in unallocated space on the disk.
If the disk has too little unallocated space, run 'straddle apply' with
--journal FILE, where FILE is on another disk.";

#[derive(Debug, Args)]
#[command(after_help = format!("{REALIGN_EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct RealignArguments {
    /// Block device or raw image to plan for. Nothing is written to it.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) target: PathBuf,

    /// Align only this partition [default: all misaligned partitions]. Can be repeated.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = partition_number)]
    pub(crate) partition: Vec<u32>,

    /// Move a partition to this start instead of the nearest aligned start. Can be repeated.
    #[arg(long, value_name = "NUMBER=START", value_parser = start_of)]
    pub(crate) start: Vec<(u32, Place)>,

    /// Align partitions to multiples of this size instead of 1 MiB.
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) grain: Option<ByteCount>,

    #[command(flatten)]
    pub(crate) sectors: SectorArguments,

    /// Logical sector size of an image [default: detected from its table].
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    #[command(flatten)]
    pub(crate) image: FormatArguments,

    #[command(flatten)]
    pub(crate) copy: CopyArguments,

    /// Save the plan to this file, for 'straddle apply'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Print JSON (see `straddle schema realign` or, with --to, `straddle schema realign-to`).
    #[arg(long)]
    pub(crate) json: bool,

    /// Move the partitions at the next boot (before the root file system is mounted), or cancel such a move.
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_missing_value = "prepare", conflicts_with_all = ["assume", "measured", "format", "logical", "json"])]
    pub(crate) at_boot: Option<AtBoot>,
}

/// When to move partitions of the running system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtBoot {
    /// Install the plan and a hook into the initramfs.
    Prepare,
    /// Remove the plan and the hook.
    Cancel,
    /// Begin or resume the move, as the initramfs does.
    #[value(hide = true)]
    Now,
}

fn start_of(text: &str) -> Result<(u32, Place), String> {
    let (number, place) =
        text.split_once('=').ok_or("must have the form NUMBER=START, such as 2=8MiB or 2=2048s")?;
    let number = number.parse().map_err(|_| format!("'{number}' is not a partition number"))?;
    Ok((number, place.parse().map_err(|error: straddle_repair::PlanError| error.to_string())?))
}

#[derive(Debug, Args)]
pub(crate) struct MoveArguments {
    /// Journal file, on a disk other than the target [default: unallocated space on the target].
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) journal: Option<PathBuf>,

    /// Skip unreadable sectors, and list them in this new file (in ddrescue's map format).
    #[arg(long, value_name = "MAP", value_hint = clap::ValueHint::FilePath)]
    pub(crate) skip_bad: Option<PathBuf>,
}

const RESUME_EXAMPLES: &str = "\
Examples:
  straddle resume sdb                     # complete the move
  straddle resume sdb --rollback          # restore the old layout
  straddle resume disk.img --journal disk.img.move.journal
  straddle resume sdb --restore-table sdb.table
                                          # another program wrote a table

If the partition table has changed since the move stopped, nothing is written.
With --restore-table, the changed table is first saved, so that 'straddle undo'
can restore it. The whole disk is then searched for the journal, and the move is
completed or rolled back. Data that another program has overwritten cannot be
restored.

If a power cut has torn a sector of the table, the sector is restored from the
journal.";

#[derive(Debug, Args)]
#[command(after_help = format!("{RESUME_EXAMPLES}\n\n{}", exit::help(MOVES)))]
pub(crate) struct ResumeArguments {
    /// Block device or raw image with an unfinished move.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = local_targets())]
    pub(crate) target: PathBuf,

    /// Restore the old layout and its contents instead of completing the move.
    #[arg(long)]
    pub(crate) rollback: bool,

    /// Continue even if another program has replaced the partition table since the move stopped. The other
    /// program's table is first saved to this new file, which must be on another disk. Older copies of the
    /// journal, and data changed since the move stopped, are also accepted.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) restore_table: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) moves: MoveArguments,

    #[command(flatten)]
    pub(crate) image: FormatArguments,
}

pub(crate) fn run(arguments: &RealignArguments) -> Result<Exit> {
    if let Some(new) = &arguments.copy.to {
        return copy::plan(arguments, new);
    }
    match arguments.at_boot {
        Some(AtBoot::Cancel) => return at_boot::cancel(&arguments.target),
        Some(AtBoot::Now) => return at_boot::now(&arguments.target),
        Some(AtBoot::Prepare) | None => {}
    }
    let options = opened(arguments);
    let name = arguments.target.display().to_string();
    let present = Present::to_change(&arguments.target, &options, Depth::Contents);
    let present =
        present.map_err(|error| copy::of_container(error, arguments)).with_context(|| name.clone())?;
    let situation = present.situation();
    let realign = match realign::make(&situation, &wanted(arguments, situation.topology.logical.value())?) {
        // No partition is named: a disk without misaligned ones is as it should be.
        Err(RealignError::Nothing)
            if arguments.partition.is_empty()
                && arguments.start.is_empty()
                && !situation.stack.partitions.is_empty() =>
        {
            return nothing(&name, &situation, arguments.json);
        }
        made => {
            made.map_err(|error| copy::hint(error, &situation, arguments)).with_context(|| name.clone())?
        }
    };
    if let Some(path) = &arguments.save {
        save(path, &(realign.to_json()? + "\n"), &[&arguments.target])?;
    }
    if arguments.json {
        output::print_json(&RealignOutput::Plan(Box::new(Document::of(realign.clone()))))?;
    } else {
        let saved = output_file::named(arguments.save.as_ref());
        let is_at_boot = arguments.at_boot.is_some();
        output::print(&text::plan::moves(&arguments.target, &realign, saved, is_at_boot))?;
    }
    if arguments.at_boot.is_some() {
        return at_boot::prepare(&arguments.target, &realign, &present);
    }
    Ok(Exit::Success)
}

pub(super) fn opened(arguments: &RealignArguments) -> Options {
    Options {
        assume: arguments.sectors.topology(),
        logical: arguments.logical,
        format: arguments.image.format,
        ..Options::default()
    }
}

fn nothing(name: &str, situation: &Situation<'_>, is_json: bool) -> Result<Exit> {
    let staying = realign::staying(situation).unwrap_or_default();
    let notes =
        staying.into_iter().map(|(number, why)| format!("partition {number} is not moved, because {why}"));
    let notes: Vec<String> = notes.collect();
    if is_json {
        let straddle = env!("CARGO_PKG_VERSION");
        let report = NothingReport { schema: SCHEMA, straddle, moves: [], notes };
        return output::print_json(&RealignOutput::Nothing(report));
    }
    let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
    output::print(&format!(
        "{notes}{}: nothing to do, because no partition has to be moved\n",
        output::printable(name)
    ))
}

fn wanted(arguments: &RealignArguments, block: BlockSize) -> Result<Wanted> {
    let byte = |place: Place| match place {
        Place::Byte(byte) => Some(ByteOffset::new(byte.get())),
        Place::Sector(sector) => Lba::new(sector).to_bytes(block),
    };
    UsageError::unless_once("--start", arguments.start.iter().map(|(number, _)| *number))?;
    let starts = arguments.start.iter().map(|(number, place)| {
        let at = byte(*place).with_context(|| format!("partition {number} would start beyond byte 2^64"))?;
        Ok((*number, at))
    });
    Ok(Wanted {
        partitions: arguments.partition.clone(),
        starts: starts.collect::<Result<_>>()?,
        grain: arguments.grain,
        wipe: arguments.copy.wipe,
    })
}

pub(super) fn apply(
    realign: &Realign,
    path: &Path,
    moves: &MoveArguments,
    mut target: Target<'static>,
) -> Result<Exit> {
    let name = path.display().to_string();
    check_map(moves, None)?;
    if let Some(file) = &moves.journal {
        durability::warn(("journal", "file on a disk with --journal"), file, path);
    }
    let journal = match &moves.journal {
        Some(file) => JournalPlace::File(JournalFile::create(file, realign)?),
        None => JournalPlace::Inside,
    };
    let id = input::random_bytes("cannot create an identifier for the move")?;
    let begun = realign.begin(&mut target, journal, id);
    carry(begun.with_context(|| name.clone())?, &name, path, moves, false)
}

pub(crate) fn resume(arguments: &ResumeArguments) -> Result<Exit> {
    let path = &arguments.target;
    let name = path.display().to_string();
    check_map(&arguments.moves, arguments.restore_table.as_deref())?;
    let journal = arguments.moves.journal.as_deref().map(JournalFile::open).transpose()?;
    let mut target = Target::open(path, arguments.image.format).with_context(|| name.clone())?;
    let mut restored = None;
    let run = match &arguments.restore_table {
        None => Run::find(&mut target, journal).with_context(|| name.clone())?,
        Some(backup) => {
            let mut run = Run::search(&mut target, journal).with_context(|| name.clone())?;
            durability::warn(("backup", "file on a disk with --restore-table"), backup, path);
            run.check_course(arguments.rollback).with_context(|| name.clone())?;
            if run.restore_table(backup).with_context(|| name.clone())? {
                let undo = format!("straddle undo {} --write {}", quote_path(backup), quote_path(path));
                output::complain(&format!(
                    "{}: the current table was saved and the table of the move restored; to restore the \
                     saved table before the move is complete: {undo}",
                    output::printable(&name)
                ));
                restored = Some(undo);
            }
            run
        }
    };
    let ended = carry(run, &name, path, &arguments.moves, arguments.rollback);
    match restored {
        Some(undo) => ended.with_context(|| {
            format!(
                "{}: the table of the move was restored (to restore the previous one: {undo}), but the move \
                 could not continue",
                output::printable(&name)
            )
        }),
        None => ended,
    }
}

/// Runs to the end, or to the first safe point after an interrupt.
fn carry(run: Run<'_>, name: &str, path: &Path, moves: &MoveArguments, is_back: bool) -> Result<Exit> {
    let mut watcher = Watcher::start(if is_back { "moving back" } else { "moving" })?;
    let mut watch = |progress| watcher.look(progress);
    let run = if moves.skip_bad.is_some() { run.skip_bad() } else { run };
    let moved = run.realign().moves.iter().fold(0, |sum: u64, one| sum.saturating_add(one.from.len().get()));
    let after: Vec<String> = run
        .realign()
        .afterwards()
        .filter(|_| !is_back)
        .map(|(number, what)| text::wrap(&format!("then, partition {number}: {what}"), "  ") + "\n")
        .collect();
    let map = UnreadableMap::make(moves)?;
    let list: Listing<'_> = &mut |bad| map.list(bad);
    let ended = match is_back {
        true => run.roll_back_listing(&mut watch, list),
        false => run.finish_listing(&mut watch, list),
    };
    drop(map);
    drop(watcher);
    let operand = quote_path(path);
    let journal = moves.journal.as_deref();
    let journal = journal.map_or_else(String::new, |file| format!(" --journal {}", quote_path(file)));
    let resume = format!("straddle resume {operand}{journal}");
    let ended = ended.or_else(|error| explained(error, name, (&resume, is_back), moves))?;
    let shown = output::printable(name);
    let Outcome::Complete(bad) = ended else {
        let ways = ways(&resume, is_back);
        let ways: String = ways.iter().map(|way| format!("  {way}\n")).collect();
        output::print(&format!("{shown}: interrupted at a safe point; the move is unfinished\n{ways}"))?;
        return Ok(Exit::INTERRUPTED);
    };
    let said = match is_back {
        true => "old layout and contents restored".to_owned(),
        false => format!("{} moved; new table written and verified", ByteCount::new(moved)),
    };
    // That it is over is known even if nothing can be printed.
    let printed = output::print(&format!("{shown}: {said}\n{}", after.concat()));
    let printed = printed
        .with_context(|| format!("{shown}: {said}, but this result cannot be written to standard output"))?;
    Ok(if bad.is_empty() { printed } else { Exit::Findings })
}

/// What an interrupted run can be followed by. A rollback cannot be turned round.
fn ways(resume: &str, is_back: bool) -> Vec<String> {
    match is_back {
        true => vec![format!("to resume: {resume} --rollback")],
        false => vec![format!("to resume: {resume}"), format!("to roll back: {resume} --rollback")],
    }
}

fn explained(
    error: MoveError,
    name: &str,
    (resume, is_back): (&str, bool),
    moves: &MoveArguments,
) -> Result<Outcome> {
    match error {
        MoveError::OtherTable => {
            let again = format!("{resume} --restore-table FILE");
            // The journal's file does not say whose data it describes.
            let only_if = match moves.journal {
                Some(_) => {
                    " (only if data on this disk was moved; on a clone or a restored backup, this would \
                     destroy the data)"
                }
                None => "",
            };
            refuse(format!(
                "{name}: {error}. To save the changed table to a new file and resume the move, run {again}. \
                 To roll the move back, run {again} --rollback{only_if}"
            ))
        }
        // The move is complete, or has not begun: there is nothing to go on with.
        MoveError::Apply(ApplyError::Kernel(_)) | MoveError::Ended { .. } => {
            Err(error).with_context(|| name.to_owned())
        }
        // The same command would be refused again.
        error if error.kind() == ErrorKind::Refused => Err(error).with_context(|| name.to_owned()),
        error => Err(error).with_context(|| format!("{name}: {}", ways(resume, is_back).join("; "))),
    }
}

/// The file for the list of what could not be read. Without a list it is removed.
pub(super) struct UnreadableMap<'m> {
    made: Option<(&'m Path, fs::File)>,
    is_listed: Cell<bool>,
}

impl<'m> UnreadableMap<'m> {
    /// Makes it. An interrupt is to be noticed by then, for it would leave the file.
    pub(super) fn make(moves: &'m MoveArguments) -> Result<Self> {
        let made =
            moves.skip_bad.as_deref().map(|path| Ok::<_, anyhow::Error>((path, output_file::new(path)?)));
        Ok(Self { made: made.transpose()?, is_listed: Cell::new(false) })
    }

    /// Saves the list, with the places of the fillers, durably; without a file it goes to standard error.
    pub(super) fn list(&self, bad: &[Bad]) -> io::Result<()> {
        match &self.made {
            Some((path, file)) => {
                let (text, areas) = (rescue_map(bad), output::plural(bad.len(), "area"));
                let named = |error| io::Error::other(format!("{}: {error}", path.display()));
                let written = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
                written.and_then(|()| file.sync_all()).map_err(named)?;
                output::complain(&format!("{}: lists {areas} that could not be read", path.display()));
            }
            None => complain_unreadable(bad),
        }
        self.is_listed.set(true);
        Ok(())
    }
}

pub(super) fn complain_unreadable(bad: &[Bad]) {
    if !bad.is_empty() {
        let (text, areas) = (rescue_map(bad), output::plural(bad.len(), "area"));
        output::complain(&format!("{areas} could not be read:\n{}", text.trim_end()));
    }
}

impl Drop for UnreadableMap<'_> {
    fn drop(&mut self) {
        if let Some((path, file)) = self.made.as_ref().filter(|_| !self.is_listed.get()) {
            let _ = FileId::remove_open(file, path);
        }
    }
}

/// Refuses a file for the list that exists or cannot be made, or is the journal or that of `--restore-table`.
pub(super) fn check_map(moves: &MoveArguments, saved_table: Option<&Path>) -> Result<()> {
    let Some(map) = &moves.skip_bad else { return Ok(()) };
    for (option, other) in [("--journal", moves.journal.as_deref()), ("--restore-table", saved_table)] {
        if other.is_some_and(|other| place(other) == place(map)) {
            return usage(format!("{option} and --skip-bad need different files"));
        }
    }
    // Before anything is written: that it can be made is then known.
    output_file::may_make(map)
}

fn place(path: &Path) -> (Option<PathBuf>, Option<&OsStr>) {
    (output_file::folder_of(path).canonicalize().ok(), path.file_name())
}

/// The areas that could not be read, where they are now, as a map of ddrescue.
fn rescue_map(bad: &[Bad]) -> String {
    let mut map =
        "# Mapfile. Created by straddle\n# current_pos  current_status  current_pass\n0x0  +  1\n# pos  size \
          status\n"
            .to_owned();
    let mut areas: Vec<(u64, u64)> = bad.iter().map(|one| (one.to.get(), one.from.len().get())).collect();
    areas.sort_unstable();
    for (at, len) in areas {
        let _ = writeln!(map, "0x{at:X}  0x{len:X}  -");
    }
    map
}

/// What `straddle realign --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "straddle realign")]
#[serde(untagged)]
pub(crate) enum RealignOutput {
    /// A plan to move partitions.
    Plan(Box<Document<Realign>>),
    /// No partition has to move.
    Nothing(NothingReport),
}

/// The output if no partition has to move; no plan is saved.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NothingToDo")]
pub(crate) struct NothingReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// Always empty.
    moves: [(); 0],
    /// Why partitions that start off a boundary are not moved.
    notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that has the list's name by then is neither written to nor removed.
    #[test]
    fn the_list_goes_to_the_file_that_was_made_for_it() {
        for is_listed in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let (path, aside) = (dir.path().join("bad.map"), dir.path().join("aside"));
            let map = UnreadableMap {
                made: Some((&path, output_file::new(&path).unwrap())),
                is_listed: Cell::new(false),
            };
            fs::rename(&path, &aside).unwrap();
            fs::write(&path, "another's").unwrap();
            if is_listed {
                map.list(&[]).unwrap();
            }
            drop(map);
            assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
            let list = if is_listed { rescue_map(&[]) } else { String::new() };
            assert_eq!(fs::read_to_string(&aside).unwrap(), list);
        }
    }

    #[test]
    fn a_list_that_is_not_made_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.map");
        drop(UnreadableMap {
            made: Some((&path, output_file::new(&path).unwrap())),
            is_listed: Cell::new(false),
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_place_is_the_same_by_any_way_to_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let (plain, round) = (dir.path().join("j"), dir.path().join("sub").join("..").join("j"));
        assert_eq!(place(&plain), place(&round));
        assert_ne!(place(&plain), place(&dir.path().join("sub").join("j")));
        assert_eq!(place(Path::new("j")), place(Path::new("./j")));
    }
}
