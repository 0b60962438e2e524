//! `straddle realign --to`, and the part of `straddle apply` that copies a disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use straddle_device::claim::{self, LockError};
use straddle_device::image::{Format, Limits, Promised};
use straddle_device::live::Machine;
use straddle_device::{FileId, MemoryMedium, Options};
use straddle_layout::read_stack;
use straddle_repair::copy::{self, Copied, Copy, CopyWanted, Source, Stage, Unreadable};
use straddle_repair::relocate::Verify;
use straddle_repair::{Depth, Document, Present};
use straddle_repair::{Situation, Target, TargetError};
use straddle_units::ByteCount;

use super::plan::random_seed;
use super::realign::{UnreadableMap, check_map};
use super::saved::save;
use crate::args::{ApplyArguments, RealignArguments};
use crate::exit::{Exit, RefusedError, UsageError};
use crate::output::{self, quote_path};
use crate::output_file;
use crate::progress::Watcher;
use crate::view::text;

fn open_source(path: &Path, options: &Options) -> Result<Present> {
    let name = path.display().to_string();
    let source = Present::to_copy(path, options).with_context(|| name.clone())?;
    let uses = Machine::read(None).uses(path);
    if !uses.is_empty() {
        return Err(RefusedError(format!("{name}: in use: {}", uses.join("; "))).into());
    }
    Ok(source)
}

pub(super) fn plan(arguments: &RealignArguments, new: &Path) -> Result<Exit> {
    let copy = &arguments.copy;
    let options = Options {
        logical: arguments.logical,
        format: arguments.format,
        allow_backing: copy.allow_backing.clone(),
        read_through: Some(Limits::default()),
        ..Options::default()
    };
    check_apart(&arguments.target, &options, new)?;
    let old = open_source(&arguments.target, &options)?;
    let is_there = !is_to_be_made(new);
    let wanted = CopyWanted {
        // There is nothing yet to write over: what comes there before the copy begins is not what the user has seen.
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
        let mut topology = old.topology().clone();
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
    let view = text::copy::View {
        copy: &made,
        old: &arguments.target,
        options: &how_opened(arguments.format, &copy.allow_backing),
        new,
        // A file was read just now.
        reads_first: is_there && !made.wipes && !new.is_file(),
        saved: output_file::named(arguments.save.as_ref()),
    };
    if arguments.json {
        output::print_json(&Document::of(&made))?;
        return Ok(Exit::Success);
    }
    output::print(&text::copy::plan(&view))?;
    Ok(Exit::Success)
}

/// Refuses to copy a disk onto itself, whatever the names.
fn check_apart(old: &Path, options: &Options, new: &Path) -> Result<()> {
    if let Some(old) = copy::shared(old, options, new) {
        let text =
            format!("{}: is {}, the source of the copy: give another disk", new.display(), old.display());
        return Err(RefusedError(text).into());
    }
    Ok(())
}

pub(super) fn apply(made: &Copy, arguments: &ApplyArguments) -> Result<Exit> {
    let from = arguments.from.as_deref();
    let from = from.ok_or_else(|| UsageError("a copy needs its source: --from SOURCE".to_owned()))?;
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
        // Nothing was written to it.
        let _ = image.remove(new);
    }
    report(copied.with_context(|| name.clone())?, made, arguments, &name)
}

/// What is needed before anything is copied. The list is made when an interrupt no longer ends this process.
fn begin<'a>(
    new: &Path,
    arguments: &'a ApplyArguments,
) -> Result<(Target<'static>, Watcher, UnreadableMap<'a>)> {
    let target = Target::open(new, arguments.format)?;
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
    Ok(made.run(source, &mut target, (moves.verify, unreadable), (&mut watch, &mut |bad| map.list(bad)))?)
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
pub(super) fn how_opened(format: Option<Format>, allowed: &[PathBuf]) -> String {
    let format = format.map(|format| format!(" --from-format {}", format.name()));
    let allowed = allowed.iter().map(|file| format!(" --allow-backing {}", quote_path(file)));
    format.into_iter().chain(allowed).collect()
}

/// Refuses a name for a new image, which is raw, that promises another format.
fn check_name(new: &Path) -> Result<()> {
    let Some(Promised { format, qemu }) = Promised::of(new) else { return Ok(()) };
    let raw = new.with_extension("raw");
    let convert = qemu.map_or_else(String::new, |qemu| {
        format!(
            "; qemu-img convert -O {qemu} {} {} converts it afterwards",
            quote_path(&raw),
            quote_path(new)
        )
    });
    let text = format!(
        "{}: straddle writes only raw images, and this name is for another format ({format}): name it \
         {}{convert}",
        new.display(),
        raw.display()
    );
    Err(RefusedError(text).into())
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

/// Makes a new sparse image, for its owner alone unless what is copied is public. Returns nothing if the path existed,
/// even as an empty file.
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
        return Err(RefusedError("is an empty file of another user: give a new file".to_owned()).into());
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
    let mut out = output::stdout();
    let bad = match copied {
        Copied::Complete(bad) => Some(bad),
        Copied::Stopped => {
            writeln!(out, "{shown}: interrupted: the copy is unfinished, and the source is unchanged")?;
            None
        }
        Copied::Untouched => {
            writeln!(out, "{shown}: interrupted: nothing was written")?;
            None
        }
    };
    let Some(bad) = bad else {
        let (plan, new) = (quote_path(&arguments.plan), quote_path(&arguments.write));
        let from = arguments.from.as_deref().map(quote_path).unwrap_or_default();
        let from = from + &how_opened(arguments.from_format, &arguments.allow_backing);
        writeln!(out, "  to complete it: straddle apply {plan} --from {from} --write {new}")?;
        out.flush()?;
        return Ok(Exit::INTERRUPTED);
    };
    let how = match arguments.moves.verify {
        Verify::Read => "copied and read back",
        Verify::None => "copied",
    };
    writeln!(out, "{shown}: {} {how}, the table is written", made.total())?;
    writeln!(out, "  it has the same UUIDs as its source: do not use both at the same time")?;
    out.flush()?;
    Ok(if bad.is_empty() { Exit::Success } else { Exit::Findings })
}
