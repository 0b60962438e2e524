//! `straddle lab`: runs a command in a Linux guest, in virtual time, on modelled drives.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::Profile;
use straddle_lab::guest::{
    self, Charges, Ended, GuestDrive, GuestError, Job, Kernel, Limits, Partition, Stream, Task,
};
use straddle_lab::media::Cut;
use straddle_units::ByteCount;
use straddle_units::io::Counters;
use tempfile::NamedTempFile;

use crate::recording::{Modelled, tear};
use straddle_cli::args::{LabArguments, SchemaOf};
use straddle_cli::exit::{Exit, UsageError};
use straddle_cli::output::{plural, printable};
use straddle_cli::output_file::OutputFile;
use straddle_cli::progress::on_interrupt;
use straddle_cli::target::{self, note_unfinished};
use straddle_cli::view::json::Document;
use straddle_cli::view::text::wrap;
use straddle_cli::{output, output_file};

/// Scripts for a line of bash, and for words, of which the first may be a function of the library.
const LINE: &str = "#!/bin/bash\n";
const WORDS: &str = "#!/bin/bash\nif declare -F \"$1\" >/dev/null; then \"$@\"; else exec \"$@\"; fi\n";

pub(crate) fn run(arguments: &LabArguments) -> Result<Exit> {
    let mut job = job(arguments)?;
    arguments.command.iter().map(Path::new).filter(|word| word.is_file()).for_each(output_file::note_read);
    arguments.input.iter().for_each(|folder| output_file::note_read(folder));
    let stores: Vec<&Path> = arguments.store.iter().map(PathBuf::as_path).collect();
    if let Some(folder) = arguments.output.as_ref().and_then(|folder| folder.canonicalize().ok()) {
        let named = [&arguments.events, &arguments.record].into_iter().flatten();
        let is_in = |path: &&PathBuf| {
            output_file::folder_of(path).canonicalize().is_ok_and(|place| place.starts_with(&folder))
        };
        if let Some(path) = named.into_iter().find(is_in) {
            let text = format!(
                "{}: is in the directory of --output, to which the guest writes; choose a file outside this \
                 directory",
                path.display()
            );
            return Err(UsageError(text).into());
        }
    }
    let events = Aside::begin(arguments.events.as_deref(), &stores)?;
    job.events = events.as_ref().map(|file| file.written.path().to_owned());
    let recording = recording(arguments)?;
    job.watching =
        recording.clone().map(|shared| Arc::new(move |index| shared.watch(index)) as guest::Watching);
    arguments.store.iter().for_each(|path| note_unfinished(path));
    let stop = Arc::new(AtomicBool::new(false));
    on_interrupt(&stop).context("cannot install the Ctrl-C handler")?;
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
    let ended = guest::run(&Kernel::find()?, &job, &pass, &stop);
    let is_interrupted = matches!(ended, Err(GuestError::Interrupted));
    if ended.is_ok() || is_interrupted {
        let kept = recording.map(Modelled::finish).into_iter();
        for kept in kept.chain(events.into_iter().map(Aside::copy)) {
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
        write_through(std::io::stderr(), text_of_ended(&job, &ended).as_bytes())?;
    }
    if let Some(error) = lost.into_inner().unwrap_or_default() {
        return Err(error).context("the output of the command could not be written");
    }
    if ended.cut {
        return Ok(Exit::Failed);
    }
    Ok(Exit::Command(u8::try_from(ended.status).unwrap_or(u8::MAX)))
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
            let folder = std::env::temp_dir();
            format!("{}: cannot create a temporary file for it in {}", path.display(), folder.display())
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

fn recording(arguments: &LabArguments) -> Result<Option<Modelled>> {
    let Some(path) = &arguments.record else { return Ok(None) };
    if arguments.record == arguments.events {
        return Err(UsageError("--record and --events must name different files".into()).into());
    }
    let drives = ('a'..='z').zip(&arguments.drive);
    let drives = drives.map(|(letter, drive)| (format!("vd{letter}"), drive.to_string(), &*drive.profile));
    let drives: Vec<(String, String, &Profile)> = drives.collect();
    let stores: Vec<&Path> = arguments.store.iter().map(PathBuf::as_path).collect();
    Modelled::begin(path, &drives, &stores).map(Some)
}

fn write_through(mut stream: impl Write, piece: &[u8]) -> std::io::Result<()> {
    stream.write_all(piece)?;
    stream.flush()
}

fn job(arguments: &LabArguments) -> Result<Job> {
    let (script, words) = script(&arguments.command)?;
    // Linux touches memory in proportion to its size at once.
    let here = guest::memory();
    if arguments.mem.get() > here {
        let message =
            format!("--mem specifies {}, but this machine has only {}", arguments.mem, ByteCount::new(here));
        return Err(UsageError(message).into());
    }
    let task = Task {
        script,
        arguments: words,
        library: guest::LIBRARY.to_owned(),
        input: arguments.input.as_deref().map(folder).transpose()?,
        output: arguments.output.as_deref().map(folder).transpose()?,
        unconfined: arguments.unconfined,
        memory: arguments.mem.get(),
        processor: processor(),
        ..Task::default()
    };
    Ok(Job {
        task,
        drives: drives(arguments)?,
        seed: arguments.seed,
        charges: Charges::default().scaled(arguments.cpu),
        limits: Limits { guest: arguments.guest_timeout, host: arguments.timeout },
        cut: arguments.cut_after.map(|after| Cut { after, seed: arguments.seed, tear: tear(arguments.tear) }),
        ..Job::default()
    })
}

fn drives(arguments: &LabArguments) -> Result<Vec<GuestDrive>> {
    const MAX_DRIVES: usize = 24;
    let count = arguments.drive.len();
    let usage = |message: String| Err(UsageError(message).into());
    if count > MAX_DRIVES {
        return usage(format!("--drive specifies {count} drives, but a guest can have at most {MAX_DRIVES}"));
    }
    let starts = arguments.start.len();
    if starts > 1 && starts != count {
        return usage(format!(
            "--start specifies {starts} values for {count} drives; use one value, or one per drive"
        ));
    }
    let stores = arguments.store.len();
    if stores > 0 && stores != count {
        return usage(format!("--store specifies {stores} files for {count} drives; use one file per drive"));
    }
    let drive = |(index, drive): (usize, &target::Drive)| {
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
    let failure = || format!("{}: is not a directory that can be shared with the guest", path.display());
    let path = path.canonicalize().with_context(failure)?;
    if path.is_dir() { Ok(path) } else { Err(anyhow::anyhow!(failure())) }
}

/// Chooses a processor by process id, so that several of these processes do not share one.
fn processor() -> Option<usize> {
    let processors = guest::processors();
    let number = usize::try_from(std::process::id()).ok()?;
    processors.get(number.checked_rem(processors.len())?).copied()
}

fn script(command: &[String]) -> Result<(String, Vec<String>)> {
    let Some((first, rest)) = command.split_first() else {
        return Err(UsageError("no command was specified".into()).into());
    };
    let path = Path::new(first);
    if path.is_file() {
        let bytes = std::fs::read(path).with_context(|| format!("{first}: cannot read the script"))?;
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

/// What `straddle lab --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LabReport<'a> {
    /// The exit status of the command; absent if the power was cut before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    #[serde(flatten)]
    ended: &'a Ended,
    /// Whether an identical run on this machine would take the same time to the nanosecond.
    repeatable: bool,
    /// Why an identical run may take a different time, one sentence per reason; empty if `repeatable` is
    /// true.
    not_repeatable: Vec<String>,
    /// The drives, in the order of their names in the guest (`vda`, `vdb` and so on).
    drives: Vec<Drive<'a>>,
    /// The time that the guest is charged for its own work.
    charges: Charges,
    /// The seed of the guest's random numbers, and of the rotational phase of its drives.
    seed: u64,
}

/// A drive and what happened in it.
#[derive(Debug, Serialize, JsonSchema)]
struct Drive<'a> {
    /// The name of the drive's profile.
    name: &'a str,
    /// The offset of its partition, in bytes; absent without a partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_bytes: Option<u64>,
    /// Counters from inside the drive.
    counters: &'a Counters,
}

impl<'a> LabReport<'a> {
    pub(crate) fn of(job: &'a Job, ended: &'a Ended) -> Self {
        let drives = job.drives.iter().zip(&ended.counters).map(|(drive, counters)| Drive {
            name: &drive.profile.name,
            start_bytes: drive.partition.start,
            counters,
        });
        let not_repeatable = ended.spent.not_repeatable();
        Self {
            status: (!ended.cut).then_some(ended.status),
            ended,
            repeatable: not_repeatable.is_empty(),
            not_repeatable,
            drives: drives.collect(),
            charges: job.charges,
            seed: job.seed,
        }
    }
}

fn text_of_ended(job: &Job, ended: &Ended) -> String {
    let (guest, host) = (ended.guest.as_secs_f64(), ended.host.as_secs_f64());
    let mut text = format!(
        "\nlab: {guest:.3} s of the guest's time in {host:.1} s ({:.1} times as fast as real time)",
        guest / host
    );
    if ended.cut {
        text.push_str("; the power was cut");
    } else if let Some(cut) = &job.cut {
        let _ = write!(text, "; the power was not cut, because the run ended before request {}", cut.after);
    }
    text.push('\n');
    for measured in &ended.measures {
        let _ = writeln!(text, "  {:<24} {:>12.6} s", printable(&measured.name), measured.value);
    }
    for (drive, counters) in job.drives.iter().zip(&ended.counters) {
        let _ = writeln!(text, "{}", wrap(&of_drive(drive, counters), "  "));
    }
    let requests = plural(ended.requests, "request");
    let charged = format!(
        "{requests}, fingerprint {:016x}, seed {}; charged: {}",
        ended.fingerprint, job.seed, job.charges
    );
    let _ = writeln!(text, "{}", wrap(&charged, "  "));
    let reasons = ended.spent.not_repeatable();
    if !reasons.is_empty() {
        let sentence = format!("Not repeatable to the nanosecond: {}.", reasons.join("; "));
        let _ = writeln!(text, "{}", wrap(&sentence, "  "));
    }
    text
}

fn of_drive(drive: &GuestDrive, counters: &Counters) -> String {
    let start = drive.partition.start.map_or(String::new(), |start| format!(" (partition at byte {start})"));
    let mut text = format!(
        "{}{start}: {} read-modify-writes, {} read and {} written inside",
        printable(&drive.profile.name),
        counters.rmw_reads,
        ByteCount::new(counters.media_read_bytes),
        ByteCount::new(counters.media_write_bytes),
    );
    if counters.revolution > 0 {
        let waited = counters.revolutions_waited();
        let _ = write!(text, ", {} seeks, {waited:.1} revolutions waited", counters.seeks);
    }
    text
}
