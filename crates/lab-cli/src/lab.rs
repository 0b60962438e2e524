//! `straddle lab`: runs a command in a Linux guest, in virtual time, on modelled drives.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use straddle_drive::Profile;
use straddle_lab::guest::{
    Charges, GuestDrive, GuestError, Job, Kernel, Limits, Partition, Stream, Task, Watching,
};
use straddle_lab::media::Cut;
use straddle_units::ByteCount;
use tempfile::NamedTempFile;

use crate::args::{LabArguments, SchemaOf};
use crate::exit::{Exit, UsageError};
use crate::interrupt::on_interrupt;
use crate::output;
use crate::output_file::{self, OutputFile};
use crate::recording::{Modelled, tear};
use crate::target::Drive;
use crate::unfinished;
use crate::view::json::Document;
use crate::view::json::lab::LabReport;
use crate::view::text;

/// Scripts for a line of bash, and for a command given as words, which may be a function of the library.
const LINE: &str = "#!/bin/bash\n";
const WORDS: &str = "#!/bin/bash\nif declare -F \"$1\" >/dev/null; then \"$@\"; else exec \"$@\"; fi\n";

pub(crate) fn run(arguments: &LabArguments) -> Result<Exit> {
    if arguments.clean {
        return clean();
    }
    let mut job = job(arguments)?;
    note_read(arguments);
    let stores: Vec<&Path> = arguments.store.iter().map(PathBuf::as_path).collect();
    if let Some(folder) = arguments.output.as_ref().and_then(|folder| folder.canonicalize().ok()) {
        let named = [&arguments.trace, &arguments.events, &arguments.record].into_iter().flatten();
        let is_in = |path: &&PathBuf| {
            output_file::folder_of(path).canonicalize().is_ok_and(|place| place.starts_with(&folder))
        };
        if let Some(path) = named.into_iter().find(is_in) {
            let text = format!(
                "{}: guests write to this directory (--output): give a file elsewhere",
                path.display()
            );
            return Err(UsageError(text).into());
        }
    }
    let trace = Aside::begin(arguments.trace.as_deref(), &stores)?;
    let events = Aside::begin(arguments.events.as_deref(), &stores)?;
    job.trace = trace.as_ref().map(|file| file.written.path().to_owned());
    job.events = events.as_ref().map(|file| file.written.path().to_owned());
    let recording = recording(arguments)?;
    if let Some(recording) = &recording {
        let recording = recording.clone();
        job.watching = Some(Watching(Arc::new(move |index| recording.watch(index))));
    }
    arguments.store.iter().for_each(|path| unfinished::note(path));
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop).context("cannot watch for Ctrl-C")?;
    // With --json, the command's output is part of the document instead.
    let lost = Mutex::new(None);
    let pass = |stream: Stream, piece: &[u8]| {
        let written = match stream {
            _ if arguments.json => Ok(()),
            Stream::Output => write_through(std::io::stdout(), piece),
            Stream::Error => write_through(std::io::stderr(), piece),
        };
        // A reader that closed the pipe does not stop the experiment.
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
            && let Ok(mut lost) = lost.lock()
        {
            lost.get_or_insert(error);
        }
    };
    let ended = straddle_lab::guest::run(&Kernel::find()?, &job, &pass, &stop);
    let is_interrupted = matches!(ended, Err(GuestError::Interrupted));
    if ended.is_ok() || is_interrupted {
        let kept = recording.map(Modelled::finish).into_iter();
        for kept in kept.chain([trace, events].into_iter().flatten().map(Aside::copy)) {
            match kept {
                // The run ends as one that was interrupted.
                Err(error) if is_interrupted => output::complain(&output::printable(&format!("{error:#}"))),
                kept => kept?,
            }
        }
    }
    let ended = match ended {
        // The status that a shell reports.
        Err(GuestError::Interrupted) => return Ok(Exit::INTERRUPTED),
        ended => ended?,
    };
    if arguments.json {
        Document::of(SchemaOf::Lab, LabReport::of(&job, &ended)).print()?;
    } else {
        write_through(std::io::stderr(), text::lab::ended(&job, &ended).as_bytes())?;
    }
    if let Some(error) = lost.into_inner().unwrap_or_default() {
        return Err(error).context("the command's output could not be written");
    }
    if ended.cut {
        // The command has no status: it did not end.
        return Ok(Exit::Failed);
    }
    Ok(Exit::Command(u8::try_from(ended.status).unwrap_or(u8::MAX)))
}

/// Notes the files that the guest is given: the words of its command, and what is in its input.
fn note_read(arguments: &LabArguments) {
    arguments.command.iter().map(Path::new).filter(|word| word.is_file()).for_each(output_file::note_read);
    arguments.input.iter().for_each(|folder| output_file::note_read(folder));
}

/// A file that the guest's library writes, and where it goes at the end.
struct Aside<'a> {
    path: &'a Path,
    out: OutputFile,
    written: NamedTempFile,
}

impl<'a> Aside<'a> {
    fn begin(path: Option<&'a Path>, stores: &[&Path]) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let out = OutputFile::begin(path, stores)?;
        let written = NamedTempFile::with_prefix("straddle-").with_context(|| {
            format!("{}: cannot be written at first in {}", path.display(), std::env::temp_dir().display())
        })?;
        Ok(Some(Self { path, out, written }))
    }

    fn copy(self) -> Result<()> {
        let mut out = self.out;
        let copied =
            std::fs::File::open(self.written.path()).and_then(|mut file| std::io::copy(&mut file, &mut out));
        copied.and_then(|_| out.finish()).with_context(|| format!("{}: cannot write", self.path.display()))
    }
}

/// Begins the recording of the drives, named as the guest names them.
fn recording(arguments: &LabArguments) -> Result<Option<Modelled>> {
    let Some(path) = &arguments.record else { return Ok(None) };
    if [&arguments.trace, &arguments.events].contains(&&arguments.record) {
        return Err(UsageError("--record: must be another file than --trace and --events".into()).into());
    }
    let mut drives: Vec<(String, String, &Profile)> = Vec::new();
    for (letter, drive) in ('a'..='z').zip(&arguments.drive) {
        drives.push((format!("vd{letter}"), drive.to_string(), &*drive.profile));
    }
    let stores: Vec<&Path> = arguments.store.iter().map(PathBuf::as_path).collect();
    Modelled::begin(path, &drives, &stores).map(Some)
}

/// Removes what killed runs left behind.
fn clean() -> Result<Exit> {
    let mut parents = vec![straddle_lab::guest::run_folders(), std::env::temp_dir()];
    parents.dedup();
    let (mut removed, mut is_clean) = (0, true);
    for parent in parents {
        let cleaned = straddle_lab::guest::remove_orphans(&parent);
        removed += cleaned.removed.len();
        for (path, error) in cleaned.left {
            is_clean = false;
            output::complain(&output::printable(&format!("{}: {error}", path.display())));
        }
    }
    let folders = if removed == 1 { "folder" } else { "folders" };
    let mut out = output::stdout();
    writeln!(out, "{removed} {folders} of killed runs removed")?;
    out.flush()?;
    Ok(if is_clean { Exit::Success } else { Exit::Failed })
}

fn write_through(mut stream: impl Write, piece: &[u8]) -> std::io::Result<()> {
    stream.write_all(piece)?;
    stream.flush()
}

fn job(arguments: &LabArguments) -> Result<Job> {
    let (script, words) = script(&arguments.command)?;
    check_memory(arguments.mem)?;
    if arguments.events.is_some() && arguments.events == arguments.trace {
        return Err(UsageError("--events and --trace: they must be different files".into()).into());
    }
    let task = Task {
        script,
        arguments: words,
        library: straddle_lab::guest::LIBRARY.to_owned(),
        environment: Vec::new(),
        input: arguments.input.as_deref().map(folder).transpose()?,
        output: arguments.output.as_deref().map(folder).transpose()?,
        unconfined: arguments.unconfined,
        memory: arguments.mem.get(),
        processor: processor(),
        settings: Vec::new(),
    };
    Ok(Job {
        task,
        drives: drives(arguments)?,
        seed: arguments.seed,
        charges: Charges::default().scaled(arguments.cpu),
        limits: Limits { guest: arguments.guest_timeout, host: arguments.timeout },
        cut: arguments.cut_after.map(|after| Cut { after, seed: arguments.seed, tear: tear(arguments.tear) }),
        trace: None,
        events: None,
        watching: None,
    })
}

/// Refuses more memory than this machine has: Linux touches memory in proportion to its size at once.
fn check_memory(wanted: ByteCount) -> Result<()> {
    let here = straddle_lab::guest::memory();
    if wanted.get() <= here {
        return Ok(());
    }
    let message = format!("--mem: {wanted}, and this machine has {}", ByteCount::new(here));
    Err(UsageError(message).into())
}

fn drives(arguments: &LabArguments) -> Result<Vec<GuestDrive>> {
    const MAX_DRIVES: usize = 24;
    let count = arguments.drive.len();
    let usage = |message: String| Err(UsageError(message).into());
    if count > MAX_DRIVES {
        return usage(format!("--drive: {count} drives, and a guest has room for {MAX_DRIVES}"));
    }
    let starts = arguments.start.len();
    if starts > 1 && starts != count {
        return usage(format!("--start: {starts} given for {count} drives: give one, or one per drive"));
    }
    let stores = arguments.store.len();
    if stores > 0 && stores != count {
        return usage(format!("--store: {stores} files for {count} drives: give one for each"));
    }
    let drive = |(index, drive): (usize, &Drive)| {
        let profile = Profile::clone(&drive.profile);
        let given = arguments.start.get(if starts == 1 { 0 } else { index });
        let start = given.map(|start| profile.start_byte(*start)).transpose();
        let start = start.map_err(|error| UsageError(format!("--start: {error}")))?;
        let size = arguments.size.filter(|_| start.is_some()).map(ByteCount::get);
        Ok(GuestDrive {
            profile,
            partition: Partition { start, size, ..Partition::default() },
            store: arguments.store.get(index).cloned(),
        })
    };
    arguments.drive.iter().enumerate().map(drive).collect()
}

fn folder(path: &Path) -> Result<PathBuf> {
    let failure = || format!("{}: not a directory that can be shared with the guest", path.display());
    let path = path.canonicalize().with_context(failure)?;
    if path.is_dir() { Ok(path) } else { Err(anyhow::anyhow!(failure())) }
}

/// Returns one of the processors, chosen by process id, so that several of these processes do not share one.
fn processor() -> Option<usize> {
    let processors = straddle_lab::guest::processors();
    let number = usize::try_from(std::process::id()).ok()?;
    processors.get(number.checked_rem(processors.len())?).copied()
}

/// Returns the script to run, and its arguments.
fn script(command: &[String]) -> Result<(String, Vec<String>)> {
    let Some((first, rest)) = command.split_first() else {
        return Err(UsageError("there is no command".into()).into());
    };
    let path = Path::new(first);
    if path.is_file() {
        let bytes = std::fs::read(path).with_context(|| format!("{first}: cannot be read"))?;
        if bytes.starts_with(b"#!") {
            let text =
                String::from_utf8(bytes).with_context(|| format!("{first}: a script must be UTF-8"))?;
            return Ok((text, rest.to_vec()));
        }
    }
    match rest {
        [] => Ok((format!("{LINE}{first}\n"), Vec::new())),
        _ => Ok((WORDS.to_owned(), command.to_vec())),
    }
}
