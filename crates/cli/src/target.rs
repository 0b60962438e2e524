//! What a command works on: a path, a modelled drive, or an object on a server. It is parsed once, by clap with the
//! parsers of this module. A command that does not read from servers refuses an address, without showing its secrets.

use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use clap::builder::{OsStringValueParser, PathBufValueParser, PossibleValue, TypedValueParser};
use straddle_audit::examine::{DRIVE as PREFIX, specification};
use straddle_device::image::ImageError;
use straddle_device::shown::{quote_path, with_causes};
use straddle_device::{Address, Assume};
use straddle_drive::Profile;
use straddle_drive::profile::ProfileError;

use crate::args::Completed;
use crate::exit::{RefusedError, UsageError};
use crate::output::{self, printable, printable_lines};

/// A modelled drive, opened.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The name or file of its profile, with options after commas.
    pub specification: String,
    /// The drive's profile.
    pub profile: Arc<Profile>,
}

impl Drive {
    /// With or without the prefix `drive:`, so that a target copied from elsewhere means the same drive.
    pub(crate) fn open(text: &str) -> Result<Self, ProfileError> {
        let specification = text.strip_prefix(PREFIX).unwrap_or(text);
        let profile = Arc::new(Profile::open(specification)?);
        profile.files.iter().for_each(|path| crate::output_file::note_read(path));
        Ok(Self { specification: specification.to_owned(), profile })
    }
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&modelled(&self.specification))
    }
}

/// A target of this machine.
#[derive(Clone, Debug)]
pub enum TargetSpec {
    /// A file or a device.
    Path(PathBuf),
    /// `NAME`, `NAME,OPTION` or `drive:FILE.toml`.
    Modelled(Drive),
}

impl TargetSpec {
    fn parse(path: PathBuf) -> Result<Self, ProfileError> {
        match specification(&path) {
            Some(drive) => Drive::open(drive).map(Self::Modelled),
            None => Ok(Self::Path(device(path))),
        }
    }

    /// Returns the path if it is one: output must not overwrite it.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Modelled(_) => None,
        }
    }

    pub(crate) const fn is_modelled(&self) -> bool {
        matches!(self, Self::Modelled(_))
    }

    /// Returns the modelled drive; a usage error for a path, on which `command` does not work.
    pub fn modelled(&self, command: &str) -> Result<&Drive, UsageError> {
        match self {
            Self::Modelled(drive) => Ok(drive),
            Self::Path(_) => Err(UsageError(format!(
                "{self}: is not a modelled drive, but '{command}' works only on modelled drives ('straddle \
                 drive list' lists them)"
            ))),
        }
    }
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Modelled(drive) => drive.fmt(f),
        }
    }
}

/// Returns the target that a modelled drive is, from its specification.
pub fn modelled(specification: &str) -> String {
    format!("{PREFIX}{specification}")
}

/// Returns the node of the block device that a bare name such as `sda` means, unless a file has that name.
pub(crate) fn device(path: PathBuf) -> PathBuf {
    let node = Path::new("/dev").join(&path);
    let is_bare = path.file_name() == Some(path.as_os_str()) && !path.exists();
    if is_bare && is_device(&node) { node } else { path }
}

pub(crate) fn is_target(word: &Path) -> bool {
    specification(word).is_some() || device(word.to_owned()).exists()
}

pub(crate) fn targets() -> impl TypedValueParser<Value = TargetSpec> {
    Local(names()).try_map(|text| {
        let path = PathBuf::from(text);
        match misspelt(&path) {
            _ if path.as_os_str().is_empty() => Err("the name of a target is empty".to_owned()),
            Some(drive) => Err(did_you_mean(drive)),
            None => TargetSpec::parse(path).map_err(|error| shown(&error)),
        }
    })
}

/// The least likeness, of 1, at which a name counts as a misspelt drive.
const ALIKE: f64 = 0.9;

/// Returns the modelled drive that a name is like, if nothing has the name itself.
pub(crate) fn misspelt(path: &Path) -> Option<&'static str> {
    let name = path.file_name().filter(|name| *name == path.as_os_str() && !is_target(path))?.to_str()?;
    Profile::names().find(|drive| strsim::jaro_winkler(&name.to_lowercase(), drive) >= ALIKE)
}

pub(crate) fn did_you_mean(drive: &str) -> String {
    format!("no file or drive has this name; did you mean {drive}?")
}

pub(crate) fn local_targets() -> impl TypedValueParser<Value = PathBuf> {
    local_paths().map(device)
}

pub(crate) fn local_paths() -> impl TypedValueParser<Value = PathBuf> {
    Local(PathBufValueParser::new())
}

pub(crate) fn redacted(path: &Path) -> Option<String> {
    path.to_str().filter(|text| Address::parse(text).is_some()).map(Address::redacted)
}

pub(crate) fn backing_files() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let refused = |shown| {
            UsageError(format!("{shown}: is on a server, but --allow-backing accepts only local files"))
        };
        redacted(&path).map_or(Ok(path), |shown| Err(refused(shown)))
    })
}

fn names() -> Completed {
    Completed(|| Box::new(Profile::names()))
}

pub(crate) fn drives() -> impl TypedValueParser<Value = Drive> {
    names().try_map(|text| Drive::open(&text).map_err(|error| shown(&error)))
}

/// Returns an error with its causes. Hidden characters from the profile are made printable; lines are kept.
pub(crate) fn shown(error: &ProfileError) -> String {
    printable_lines(&with_causes(error))
}

/// Returns a parser of `--assume`, which completes to the usual formats and the names of the shipped profiles.
pub(crate) fn topologies<T: Clone + Send + Sync + 'static>(
    parse: fn(&str) -> Result<T, String>,
) -> impl TypedValueParser<Value = T> {
    Completed(|| Box::new(["512n", "512e", "4kn"].into_iter().chain(Profile::names())))
        .try_map(move |text| parse(&text))
}

pub(crate) fn assume(text: &str) -> Result<Assume, String> {
    straddle_audit::examine::assume(text).map_err(|error| match misspelt(Path::new(text)) {
        Some(drive) => did_you_mean(drive),
        None => printable_lines(&error),
    })
}

/// A declared topology: that of the target at a path, or of all others.
#[derive(Clone, Debug)]
pub(crate) struct Assumed {
    pub(crate) of: Option<PathBuf>,
    pub(crate) assume: Assume,
}

pub(crate) fn assumed(text: &str) -> Result<Assumed, String> {
    let error = match assume(text) {
        Ok(assume) => return Ok(Assumed { of: None, assume }),
        Err(error) => error,
    };
    let of_one = |(at, _): (usize, &str)| {
        let of = text.get(..at).filter(|of| !of.is_empty())?;
        let assume = assume(text.get(at + 1..)?).ok()?;
        Some(Assumed { of: Some(PathBuf::from(of)), assume })
    };
    text.match_indices('=').find_map(of_one).ok_or(error)
}

/// As [`assume`], for a file that is read without being named.
pub(crate) fn assume_below(folder: &Path, text: &str) -> Result<Assume, String> {
    straddle_audit::examine::assume_below(folder, text).map_err(|error| printable_lines(&error))
}

/// Parses what `P` does, but refuses an address: the command works on disks and images of this machine only.
#[derive(Clone, Debug)]
struct Local<P>(P);

impl<P: TypedValueParser> TypedValueParser for Local<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        if let Some(error) = refused(command.get_name(), Path::new(value)) {
            let refuse = OsStringValueParser::new().try_map(move |_| Err(error.clone()));
            return refuse.parse_ref(command, argument, value);
        }
        self.0.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

fn refused(command: &str, path: &Path) -> Option<RefusedError> {
    let text = path.to_str()?;
    let fetch = Address::parse(text)?.ok().and_then(|address| address.fetch_command());
    let fetch = fetch.map_or_else(String::new, |fetch| format!(": {fetch}"));
    let shown = Address::redacted(text);
    Some(RefusedError(format!(
        "{shown}: is on a server, and straddle {command} works only on local disks and images; download it \
         first{fetch}"
    )))
}

/// Returns a command with which `target` can be read, if `error` is that another file is not opened and it exists:
/// `verb` with the files in `allowed` and this one, and `words`, which name the target.
pub(crate) fn allowing_backing(
    error: &anyhow::Error,
    verb: &str,
    target: &Path,
    words: &str,
    allowed: &[PathBuf],
) -> Option<String> {
    let beside = needed_backing(error.chain(), target)?;
    let files = allowed.iter().chain([&beside]).map(|file| format!(" --allow-backing {}", quote_path(file)));
    Some(format!("straddle {verb}{} {words}", files.collect::<String>()))
}

/// Returns the file that the image at `target` needs and that was not opened, if that is one of these `causes`.
pub(crate) fn needed_backing<'a>(
    mut causes: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>,
    target: &Path,
) -> Option<PathBuf> {
    let name = causes.find_map(|cause| {
        let boxed = || cause.downcast_ref::<Box<ImageError>>().map(AsRef::as_ref);
        match cause.downcast_ref().or_else(boxed)? {
            ImageError::NotOpened { name, .. } => Some(name),
            _ => None,
        }
    })?;
    // A relative name in an image is relative to the image's folder.
    Some(target.parent().unwrap_or(Path::new("")).join(name)).filter(|beside| beside.is_file())
}

pub(crate) fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Work on a thread, which is abandoned and ends with the process if it does not end in time.
pub(crate) struct Pending<T> {
    answer: Option<Receiver<T>>,
    until: Instant,
}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn start(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        // Sending fails if the result comes too late; that is ignored.
        let started = thread::Builder::new().spawn(move || drop(sender.send(work())));
        Self { answer: started.is_ok().then_some(receiver), until: Instant::now() + limit }
    }

    pub(crate) fn wait(self) -> Option<T> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.answer?.recv_timeout(left).ok()
    }
}

/// Says on stderr that the partitions of the disk at `path` are being moved, if they are.
pub fn note_unfinished(path: &Path) {
    unfinished(path).iter().for_each(|note| output::complain(note));
}

/// Returns the note. A command that locks the file asks before that, as this opens it.
pub(crate) fn unfinished(path: &Path) -> Option<String> {
    let note = straddle_repair::moves::unfinished(path).ok()??.journal.note(&quote_path(path));
    Some(format!("{}: {note}", printable(&path.display().to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let (keep, held) = mpsc::channel::<()>();
        let stuck = Pending::start(Duration::from_millis(1), move || held.recv().is_ok());
        let done = Pending::start(Duration::from_secs(3600), || 7);
        assert_eq!((stuck.wait(), done.wait()), (None, Some(7)));
        drop(keep);
        // Work that panics is not waited for either.
        let broken: Pending<u8> =
            Pending::start(Duration::from_secs(3600), || std::panic::resume_unwind(Box::new(0)));
        assert_eq!(broken.wait(), None);
    }
}
