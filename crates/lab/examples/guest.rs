//! Runs a script in a guest in the host's time: what tests/guest/run starts. The first argument is the folder
//! of the guests' helpers, `$GUEST`; see USAGE for the others.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use straddle_lab::guest::{GuestError, HostedDrive, HostedJob, Kernel, Partition, RunFolder, Stream, Task};

const USAGE: &str = "\
usage: run [-t SECONDS] [-m MEM] [-o OUTDIR] [-e NAME=VALUE]... [-d SOCKET [-s START,SIZE]] [-l LIBRARY] SCRIPT [ARG]...

  -t SECONDS     kill the guest after this long, exit 124 (default 3600)
  -m MEM         guest memory, K, M or G (default 1G; taken only as touched)
  -o OUTDIR      directory the guest may write to, $OUT in SCRIPT
                 (default: one that vanishes at the end)
  -e NAME=VALUE  put into SCRIPT's environment
  -d SOCKET      a vhost-user drive, $DISK
  -s START,SIZE  bytes of its only partition, $PART
  -l LIBRARY     functions for SCRIPT in bash; what they write to $RESULTS
                 is put into OUTDIR

SCRIPT runs in the caller's directory with $GUEST set to the directory of
lib.sh. The guest's /dev, /proc, /sys and /run are its own: of the host's
only the directories named here are there. Output is shown at the end.
Exit status: SCRIPT's; 124 timeout; 125 the guest could not be run.
Environment: LINUX_UML, the guest kernel (default linux.uml).
";

/// Exit statuses, beside the script's own.
const TIMEOUT: u8 = 124;
const NOT_RUN: u8 = 125;

/// What the script is run by: its own path is `$0` to it.
const SCRIPT: &str = "#!/bin/sh\nexec \"$SCRIPT\" \"$@\"\n";

/// Why there is no status of the script.
struct Failed {
    status: u8,
    message: String,
}

impl From<String> for Failed {
    fn from(message: String) -> Self {
        Self { status: NOT_RUN, message: format!("tests/guest/run: {message}\n") }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(Failed { status, message }) => {
            let _ = std::io::stderr().write_all(message.as_bytes());
            ExitCode::from(status)
        }
    }
}

fn run() -> Result<u8, Failed> {
    let mut arguments = std::env::args_os().skip(1);
    let guest = PathBuf::from(arguments.next().unwrap_or_default());
    let Some(Asked { job, name, kept, results }) = asked(&guest, &mut arguments)? else {
        return print(USAGE.as_bytes(), std::io::stdout()).map(|()| 0);
    };
    let (stop, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for number in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let value = usize::try_from(number).unwrap_or_default();
        signal_hook::flag::register_usize(number, Arc::clone(&signal), value)
            .and_then(|_| signal_hook::flag::register(number, Arc::clone(&stop)))
            .map_err(|error| format!("cannot watch for signals: {error}"))?;
    }
    let said = Mutex::new((Vec::new(), Vec::new()));
    let pass = |stream: Stream, piece: &[u8]| {
        if let Ok(mut said) = said.lock() {
            match stream {
                Stream::Output => said.0.extend_from_slice(piece),
                Stream::Error => said.1.extend_from_slice(piece),
            }
        }
    };
    let kernel = Kernel::find().map_err(|error| error.to_string())?;
    let ended = straddle_lab::guest::run_hosted(&kernel, &job, &pass, &stop);
    if matches!(ended, Err(GuestError::Interrupted)) {
        let status = 128 + u8::try_from(signal.load(Ordering::Relaxed)).unwrap_or_default();
        return Err(Failed { status, message: String::new() });
    }
    let (output, errors) = said.into_inner().unwrap_or_default();
    print(&output, std::io::stdout())?;
    print(&errors, std::io::stderr())?;
    drop(kept);
    match ended {
        Ok(ended) => {
            if let Some(path) = results {
                // The guest's root may have put a link there.
                let _ = std::fs::remove_file(&path);
                std::fs::File::create_new(&path)
                    .and_then(|mut file| file.write_all(&ended.results))
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Ok(u8::try_from(ended.status).unwrap_or(u8::MAX))
        }
        Err(GuestError::Hung { .. }) => {
            let seconds = job.limit.as_secs();
            let failed = Failed::from(format!("{name}: killed after {seconds} s; -t gives it longer"));
            Err(Failed { status: TIMEOUT, ..failed })
        }
        Err(error) => Err(chain(&error).into()),
    }
}

/// Writes all of the text. If the reader is gone, the rest is dropped.
fn print(text: &[u8], mut to: impl Write) -> Result<(), Failed> {
    match to.write_all(text).and_then(|()| to.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("the script's output could not be written: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Returns an error with its causes.
fn chain(error: &GuestError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// What the caller asks for.
struct Asked {
    job: HostedJob,
    /// The script's name.
    name: String,
    /// The output folder, if it vanishes at the end.
    kept: Option<RunFolder>,
    /// Where the script's results go.
    results: Option<PathBuf>,
}

/// The options, as given.
#[derive(Default)]
struct Options {
    limit: Option<u64>,
    memory: Option<u64>,
    output: Option<PathBuf>,
    environment: Vec<(String, String)>,
    socket: Option<PathBuf>,
    partition: Partition,
    library: Option<PathBuf>,
}

fn usage() -> Failed {
    Failed { status: NOT_RUN, message: USAGE.to_owned() }
}

impl Options {
    /// Reads the options up to the script, which is returned with them; `None` where help is asked for.
    fn read(arguments: &mut dyn Iterator<Item = OsString>) -> Result<Option<(Self, OsString)>, Failed> {
        let mut this = Self::default();
        loop {
            let argument = arguments.next().ok_or_else(usage)?;
            let option = match argument.as_encoded_bytes() {
                b"--" => return Ok(Some((this, arguments.next().ok_or_else(usage)?))),
                [b'-', b'h', ..] => return Ok(None),
                [b'-', option, ..] => *option,
                _ => return Ok(Some((this, argument))),
            };
            let value = match argument.as_encoded_bytes().len() {
                2 => arguments.next().ok_or_else(usage)?,
                _ => text(&argument)?.get(2..).ok_or_else(usage)?.into(),
            };
            this.set(option, value)?;
        }
    }

    fn set(&mut self, option: u8, value: OsString) -> Result<(), Failed> {
        let shown = value.display();
        match option {
            b't' => {
                let limit = number(&text(&value)?).filter(|limit| *limit > 0);
                self.limit = Some(limit.ok_or_else(|| format!("-t {shown}: give whole seconds"))?);
            }
            b'm' => {
                let memory = size(&text(&value)?);
                self.memory =
                    Some(memory.ok_or_else(|| format!("-m {shown}: give a size such as 512M or 1G"))?);
            }
            b's' => {
                let range = text(&value)?;
                let pair =
                    range.split_once(',').and_then(|(start, size)| Some((number(start)?, number(size)?)));
                let (start, size) = pair.ok_or_else(|| format!("-s {shown}: give two numbers of bytes"))?;
                self.partition = Partition { start: Some(start), size: Some(size), ..Partition::default() };
            }
            b'e' => self.environment.push(variable(&text(&value)?)?),
            b'o' => self.output = Some(value.into()),
            b'd' => self.socket = Some(value.into()),
            b'l' => self.library = Some(value.into()),
            _ => return Err(usage()),
        }
        Ok(())
    }
}

/// Reads the arguments; `None` where help is asked for.
fn asked(guest: &Path, arguments: &mut dyn Iterator<Item = OsString>) -> Result<Option<Asked>, Failed> {
    let Some((options, script)) = Options::read(arguments)? else { return Ok(None) };
    let script = executable(Path::new(&script))?;
    let library = match &options.library {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("-l {}: cannot be read: {error}", path.display()))?,
        None => String::new(),
    };
    let results = options.output.as_ref().filter(|_| options.library.is_some());
    let results = results.map(|folder| folder.join("results"));
    let (output, kept) = output_folder(options.output)?;
    let mut environment = Vec::new();
    for (name, path) in [("GUEST", guest), ("OUT", &output), ("SCRIPT", &script)] {
        environment.push((name.to_owned(), text(path.as_os_str())?));
    }
    environment.extend(options.environment);
    let task = Task {
        script: SCRIPT.to_owned(),
        arguments: arguments.map(|argument| text(&argument)).collect::<Result<_, _>>()?,
        library,
        environment,
        input: None,
        output: Some(output),
        unconfined: false,
        memory: options.memory.unwrap_or(1 << 30),
        processor: processor(),
        settings: Vec::new(),
    };
    let folders = [Some(guest), script.parent()].into_iter().flatten().map(Path::to_owned).collect();
    let partition = options.partition;
    let drives = options.socket.map(|socket| HostedDrive { socket, partition }).into_iter().collect();
    let limit = Duration::from_secs(options.limit.unwrap_or(3600));
    let name = script.file_name().unwrap_or_default().display().to_string();
    Ok(Some(Asked { job: HostedJob { task, folders, drives, limit }, name, kept, results }))
}

fn text(word: &std::ffi::OsStr) -> Result<String, Failed> {
    Ok(word.to_str().ok_or_else(|| format!("{}: not UTF-8", word.display()))?.to_owned())
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the bytes of a size such as 512M.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number(digits).filter(|size| *size > 0)?.checked_mul(1 << shift)
}

fn variable(given: &str) -> Result<(String, String), Failed> {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
    };
    let pair = given.split_once('=').filter(|(name, _)| is_name(name));
    let (name, value) = pair.ok_or_else(|| format!("-e {given}: give NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn executable(script: &Path) -> Result<PathBuf, Failed> {
    let shown = script.display();
    let path = script.canonicalize().map_err(|_| format!("{shown}: no such script"))?;
    let is_executable =
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if is_executable { Ok(path) } else { Err(format!("{shown}: not executable: chmod +x {shown}").into()) }
}

/// Returns the folder to write to, which is made if it is missing; without one given, a folder that vanishes.
fn output_folder(given: Option<PathBuf>) -> Result<(PathBuf, Option<RunFolder>), Failed> {
    let failed = |error| format!("no folder for $OUT: {error}");
    let kept = given.is_none().then(|| RunFolder::new(&straddle_lab::guest::run_folders()));
    let kept = kept.transpose().map_err(failed)?;
    let folder = given.or_else(|| kept.as_ref().map(|kept| kept.path().join("out"))).unwrap_or_default();
    let made = std::fs::create_dir_all(&folder).and_then(|()| folder.canonicalize());
    Ok((
        made.map_err(|error| format!("-o {}: not a directory to write to: {error}", folder.display()))?,
        kept,
    ))
}

/// Chooses one of the processors. The guest's kernel and processes take turns several thousand times a second,
/// which on one processor is six times as fast as with wake-ups across processors.
fn processor() -> Option<usize> {
    let processors = straddle_lab::guest::processors();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let chance = usize::try_from(now.subsec_micros()).unwrap_or_default();
    processors.get(chance % processors.len().max(1)).copied()
}
