//! `straddle realign --to`, and the part of `straddle apply` that copies a disk.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use clap::Args;
use straddle_audit::file_about;
use straddle_device::claim::LockError;
use straddle_device::image::{Format, Limits, Promised};
use straddle_device::live::Machine;
use straddle_device::{FileId, MemoryMedium, OpenError, Options, claim};
use straddle_layout::{Problem, TableKind, read_stack};
use straddle_repair::copy::{Copied, Copy, CopyWanted, Source, Stage, Unreadable};
use straddle_repair::realign::RealignError;
use straddle_repair::{ChangeError, Depth, Document, Present, Situation, Target, TargetError, copy};
use straddle_units::ByteCount;

use crate::commands::apply::ApplyArguments;
use crate::commands::plan::{random_seed, save};
use crate::commands::realign::{RealignArguments, UnreadableMap, check_map, opened};
use crate::exit::{Exit, RefusedError, UsageError, refuse};
use crate::output::quote_path;
use crate::progress::Watcher;
use crate::target::{local_paths, local_targets};
use crate::view::text;
use crate::{output, output_file, target};

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// Instead of moving partitions in place, copy everything to this disk or image, and align the partitions
    /// there. TARGET, the source, is opened read-only.
    ///
    /// If the file does not exist, 'straddle apply' creates it as a sparse raw image.
    #[arg(long, value_name = "NEW", value_hint = clap::ValueHint::FilePath, value_parser = local_targets(),
          conflicts_with_all = ["partition", "start", "at_boot"])]
    pub(crate) to: Option<PathBuf>,

    /// Allow overwriting non-zero data in unallocated space, such as a boot loader or the remains of a
    /// deleted partition. With --to: allow overwriting the contents of the new disk. Overwritten data is
    /// lost.
    #[arg(long)]
    pub(crate) wipe: bool,

    /// With --to: allow this backing, parent or extent file to be opened if an image refers to it. Can be
    /// repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), requires = "to")]
    pub(crate) allow_backing: Vec<PathBuf>,
}

fn open_source(path: &Path, options: &Options) -> Result<Present> {
    let name = path.display().to_string();
    let source = Present::to_copy(path, options).with_context(|| name.clone())?;
    let uses = Machine::read(None).uses(path);
    if !uses.is_empty() {
        return refuse(format!("{name}: in use: {}", uses.join("; ")));
    }
    Ok(source)
}

pub(super) fn plan(arguments: &RealignArguments, new: &Path) -> Result<Exit> {
    let copy = &arguments.copy;
    let options = Options {
        logical: arguments.logical,
        format: arguments.image.format,
        allow_backing: copy.allow_backing.clone(),
        read_through: Some(Limits::default()),
        ..Options::default()
    };
    check_apart(&arguments.target, &options, new)?;
    let old = open_source(&arguments.target, &options)?;
    let is_there = !is_to_be_made(new);
    let wanted = CopyWanted {
        // There is nothing yet to write over: the user has not seen what comes there before the copy begins.
        wipe: copy.wipe && is_there,
        grain: arguments.grain,
        seed: random_seed()?,
    };
    let assume = arguments.sectors.topology();
    let source = old.situation();
    let made = if is_there {
        let options = Options { assume, ..Options::default() };
        let name = new.display().to_string();
        let target = Present::to_change(new, &options, Depth::OldTable).with_context(|| name.clone())?;
        let situation = target.situation();
        let made = copy::plan(&source, &situation, &wanted).with_context(|| name.clone())?;
        let mut watcher = Watcher::start("")?;
        let mut watch = |stage, progress| watch(&mut watcher, &name, stage, progress);
        if made.check_file(new, situation.medium, &mut watch).with_context(|| name.clone())?.is_break() {
            return Ok(Exit::INTERRUPTED);
        }
        made
    } else {
        check_name(new)?;
        let name = arguments.target.display().to_string();
        let mut topology = old.situation().topology.clone();
        assume.apply(&mut topology);
        let size = copy::new_size(&source, &topology, &wanted).with_context(|| name.clone())?;
        let medium = MemoryMedium::sparse(Vec::new(), size);
        let stack = read_stack(&medium, Some(topology.logical.value()), None)?;
        let situation = Situation { medium: &medium, topology: &topology, stack: &stack, serial: None };
        copy::plan(&source, &situation, &wanted).with_context(|| name)?
    };
    if let Some(path) = &arguments.save {
        save(path, &(made.to_json()? + "\n"), &[&arguments.target, new])?;
    }
    let view = text::plan::CopyView {
        copy: &made,
        old: &arguments.target,
        options: &how_opened(arguments.image.format, &copy.allow_backing),
        new,
        // A file was read just now.
        reads_first: is_there && !made.wipes && !new.is_file(),
        saved: output_file::named(arguments.save.as_ref()),
    };
    if arguments.json {
        output::print_json(&Document::of(&made))
    } else {
        output::print(&text::plan::copy(&view))
    }
}

fn check_apart(old: &Path, options: &Options, new: &Path) -> Result<()> {
    if let Some(old) = copy::shared(old, options, new) {
        return refuse(format!(
            "{}: is the same disk as {}, the source of the copy; choose another disk",
            new.display(),
            old.display()
        ));
    }
    Ok(())
}

pub(super) fn apply(made: &Copy, arguments: &ApplyArguments) -> Result<Exit> {
    let from = arguments.from.as_deref();
    let from =
        from.ok_or_else(|| UsageError("a copy plan needs the source disk; add --from SOURCE".to_owned()))?;
    let new = arguments.write.as_path();
    check_map(&arguments.moves, None)?;
    let options = Options {
        logical: Some(made.source.sector),
        format: arguments.from_format,
        allow_backing: arguments.allow_backing.clone(),
        read_through: Some(Limits::default()),
        ..Options::default()
    };
    check_apart(from, &options, new)?;
    let source = Source::open(from, &options).with_context(|| from.display().to_string())?;
    let name = new.display().to_string();
    let backing = options.allow_backing.iter().map(PathBuf::as_path);
    let is_public = std::iter::once(from).chain(backing).all(is_public);
    let new_image = make_new(new, made.plan.disk.size, is_public).with_context(|| name.clone())?;
    let begun = begin(new, arguments);
    let has_begun = begun.is_ok();
    let copied = begun.and_then(|begun| run(made, &source, begun, arguments));
    let is_untouched = match &copied {
        Ok(copied) => *copied == Copied::Untouched,
        Err(error) => !has_begun || Exit::of_refusal(error),
    };
    if let Some(image) = new_image.filter(|_| is_untouched) {
        let _ = image.remove(new);
    }
    report(copied.with_context(|| name.clone())?, made, arguments, &name)
}

/// What is needed before anything is copied. The list is made when an interrupt no longer ends this process.
fn begin<'a>(
    new: &Path,
    arguments: &'a ApplyArguments,
) -> Result<(Target<'static>, Watcher, UnreadableMap<'a>)> {
    let target = Target::open(new, arguments.image.format)?;
    let watcher = Watcher::start("copying")?;
    Ok((target, watcher, UnreadableMap::make(&arguments.moves)?))
}

fn run(
    made: &Copy,
    source: &Source<'_>,
    (mut target, mut watcher, map): (Target<'_>, Watcher, UnreadableMap<'_>),
    arguments: &ApplyArguments,
) -> Result<Copied> {
    let moves = &arguments.moves;
    let name = arguments.write.display().to_string();
    let unreadable = if moves.skip_bad.is_some() { Unreadable::IsListed } else { Unreadable::Stops };
    let mut watch = |stage, progress| watch(&mut watcher, &name, stage, progress);
    Ok(made.run(source, &mut target, unreadable, (&mut watch, &mut |bad| map.list(bad)))?)
}

fn watch(
    watcher: &mut Watcher,
    name: &str,
    stage: Stage,
    progress: straddle_repair::relocate::Progress,
) -> ControlFlow<()> {
    watcher.enter(&match stage {
        Stage::Reading => format!("checking that {} is empty", output::printable(name)),
        Stage::Copying => "copying".to_owned(),
    });
    watcher.look(progress)
}

/// The options with which `apply` opens the source as `realign` did, each after a space.
fn how_opened(format: Option<Format>, allowed: &[PathBuf]) -> String {
    let format = format.map(|format| format!(" --from-format {}", format.name()));
    let allowed = allowed.iter().map(|file| format!(" --allow-backing {}", quote_path(file)));
    format.into_iter().chain(allowed).collect()
}

fn check_name(new: &Path) -> Result<()> {
    let Some(Promised { format, qemu }) = Promised::of(new) else { return Ok(()) };
    let raw = new.with_extension("raw");
    let (from, to) = (quote_path(&raw), quote_path(new));
    let convert = qemu.map_or_else(String::new, |qemu| {
        format!("; to convert the image afterwards: qemu-img convert -O {qemu} {from} {to}")
    });
    let text = format!(
        "{}: straddle writes only raw images, but this is the name of a {format} image; use the name \
         {}{convert}",
        new.display(),
        raw.display()
    );
    refuse(text)
}

/// Whether there is nothing at `path`, or an empty file, such as one that was made and got no size.
fn is_to_be_made(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file() && found.len() == 0,
        // A link that leads nowhere is not followed.
        Err(_) => fs::symlink_metadata(path).is_err(),
    }
}

/// Whether anybody may read a file. A device is not public.
fn is_public(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o444 == 0o444)
}

/// The image is sparse, and for its owner alone unless what is copied is public. `None` if the path existed.
fn make_new(path: &Path, size: ByteCount, is_public: bool) -> Result<Option<FileId>> {
    if !is_to_be_made(path) {
        return Ok(None);
    }
    check_name(path)?;
    let mode = if is_public { 0o666 } else { 0o600 };
    let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let is_new = made.is_ok();
    let file = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path)?
        }
        made => made?,
    };
    let own = FileId::of_open(&file)?;
    if !is_new && file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return refuse("is an empty file owned by another user; choose a new file");
    }
    let sized = size_new(&file, path, size);
    if sized.is_err() && is_new {
        let _ = own.remove(path);
    }
    sized.map(|()| is_new.then_some(own))
}

fn size_new(file: &File, path: &Path, size: ByteCount) -> Result<()> {
    let _claim = claim::take(file, path).map_err(|error| match error {
        LockError::Io(source) => TargetError::Io(source),
        error => TargetError::InUse(error.to_string()),
    })?;
    // What another program has written since is not cut.
    if file.metadata()?.len() == 0 {
        file.set_len(size.get())?;
    }
    Ok(file.sync_all()?)
}

fn report(copied: Copied, made: &Copy, arguments: &ApplyArguments, name: &str) -> Result<Exit> {
    let shown = output::printable(name);
    let interrupted = match copied {
        Copied::Complete(bad) => {
            let printed = output::print(&format!(
                "{shown}: {} copied and read back; table written\n  it has the same UUIDs as its source, so \
                 do not use both at the same time\n\
                 ",
                made.total()
            ))?;
            return Ok(if bad.is_empty() { printed } else { Exit::Findings });
        }
        Copied::Stopped => "the copy is unfinished, and the source is unchanged",
        Copied::Untouched => "nothing was written",
    };
    let (plan, new) = (quote_path(&arguments.plan), quote_path(&arguments.write));
    let from = arguments.from.as_deref().map(quote_path).unwrap_or_default();
    let from = from + &how_opened(arguments.from_format, &arguments.allow_backing);
    output::print(&format!(
        "{shown}: interrupted; {interrupted}\n  to complete it: straddle apply {plan} --from {from} --write \
         {new}\n"
    ))?;
    Ok(Exit::INTERRUPTED)
}

/// Adds why a disk without a table is as it should be, and the copy for one without room.
pub(super) fn hint(
    error: RealignError,
    situation: &Situation<'_>,
    arguments: &RealignArguments,
) -> anyhow::Error {
    let (options, operand) = (opened(arguments).declared(), quote_path(&arguments.target));
    let plan = |end| file_about(&arguments.target.display().to_string(), end);
    let is_misplaced = |problem: &Problem| matches!(problem, Problem::GptBackupMisplaced { .. });
    let text = match situation.stack.kind {
        _ if error.lacks_room() && situation.stack.problems.iter().any(is_misplaced) => {
            let plan = plan("plan.json");
            format!(
                "the GPT was made for a smaller disk and leaves no room to move partitions; first move the \
                 backup GPT to the end of the disk: straddle plan {operand}{options} --relocate-backup \
                 --save {plan} && straddle apply {plan} --write {operand}"
            )
        }
        _ if error.lacks_room() => format!(
            "{error}; to copy the partitions to another disk: straddle realign {operand}{options} --to NEW \
             --save {}",
            plan("copy.json")
        ),
        TableKind::Content(content) => {
            format!(
                "nothing to realign, because {content} fills the whole disk from byte 0, which is aligned"
            )
        }
        TableKind::None => "nothing to realign, because there is no partition table".to_owned(),
        _ => return error.into(),
    };
    RefusedError(text).into()
}

pub(super) fn of_container(error: ChangeError, arguments: &RealignArguments) -> anyhow::Error {
    let (kind, is_qcow2) = match &error {
        ChangeError::Target(TargetError::NotRaw(format)) => {
            (format!("a {format} image"), *format == straddle_device::image::Format::Qcow2)
        }
        ChangeError::Target(TargetError::Open(OpenError::NotRead { what, packing: Some(_), .. })) => {
            ((*what).to_owned(), false)
        }
        _ => return error.into(),
    };
    let operand = quote_path(&arguments.target);
    let raw = quote_path(&straddle_repair::copy::raw_name(&arguments.target));
    let plan = file_about(&arguments.target.display().to_string(), "copy.json");
    // No file that an image names is opened unasked: of a chain of them, the first is known.
    let backing = Present::to_copy(&arguments.target, &opened(arguments))
        .err()
        .and_then(|error| target::needed_backing(anyhow::Error::from(error).chain(), &arguments.target));
    let backing: Vec<PathBuf> = backing.into_iter().collect();
    let (seen, read) = (
        opened(arguments).declared() + &how_opened(None, &backing),
        how_opened(arguments.image.format, &backing),
    );
    let mut text = format!(
        "partitions in {kind} cannot be moved in place; to copy them to a raw image: straddle realign \
         {operand}{seen} --to {raw} --save {plan} && straddle apply {plan} --from {operand}{read} --write \
         {raw}"
    );
    if is_qcow2 {
        text += &format!("; to convert the copy back to {kind}: qemu-img convert -O qcow2 {raw} NEW.qcow2");
    }
    RefusedError(text).into()
}
