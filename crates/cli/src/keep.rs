//! Writes files that a command was asked for besides its output: plans, pictures, pages, traces.
//!
//! The law of this module: such a file is written whole or not at all, but for what is added to later ([`write_over`]). It
//! replaces one of its own kind ([`Over`]) and nothing else: no disk, nothing that the command reads, no file of another
//! kind. What is an open file of this process, such as standard output, is written to as that, by whatever name.

mod access;

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use anyhow::{Context, Result};
use rustix::fs::{Access, OFlags, access};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use straddle_device::FileId;
use tempfile::NamedTempFile;

use crate::exit::RefusedError;

pub(crate) use access::{is_anothers_link, is_public};

/// Bytes examined of a file that would be replaced.
const LOOKED_AT: u64 = 64 << 10;
/// The most links that a name may lead through.
pub const MOST_LINKS: usize = 40;

/// Files that this command reads besides those that are named when one is written.
static READ: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Notes that this command reads a file, which then is not replaced.
pub fn note_read(path: &Path) {
    if let Ok(mut read) = READ.lock() {
        read.push(path.to_owned());
    }
}

/// What a file of a kind may replace, besides an empty file: what began as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over<'a> {
    /// Text that begins so.
    Text(&'a str),
    /// Text that begins so, and says what it was made by.
    MadeBy(&'a str, &'a str),
    /// The events of a guest.
    Events,
    /// A table in Parquet that this program wrote.
    Parquet,
    /// A recording of modelled drives.
    Recording,
    /// Nothing: what is there could not be made again.
    Nothing,
}

impl Over<'static> {
    /// A page in HTML.
    pub const PAGE: Self = Self::MadeBy("<!DOCTYPE html>", crate::view::markup::GENERATOR);
    /// A drawing in SVG.
    pub(crate) const DRAWING: Self = Self::MadeBy("<svg ", crate::view::markup::MADE_BY);
    /// A plan, which the caller takes a closer look at.
    pub(crate) const PLAN: Self = Self::Text("{");
    /// A page of the manual.
    pub(crate) const MANUAL: Self = Self::Text(".ie \\n(.g .ds Aq");
}

/// Writes `contents` to a temporary file, which then replaces `path`. Refused if [`may_replace`] refuses.
pub fn write(path: &Path, contents: &[u8], inputs: &[&Path], over: Over<'_>) -> Result<()> {
    write_over(path, contents, inputs, over).map(drop)
}

/// As [`write`], and returns the file, which may be added to.
pub(crate) fn write_over(path: &Path, contents: &[u8], inputs: &[&Path], over: Over<'_>) -> Result<File> {
    let mut pending = Pending::begin(path, inputs, over)?;
    let written = pending.write_all(contents).and_then(|()| pending.commit());
    written.with_context(|| format!("{}: cannot write", path.display()))
}

/// Makes a file that is written to as it is, and not replaced. Refused if anything has its name.
pub(crate) fn new(path: &Path) -> Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        return refused(path, "exists: choose a new file name");
    }
    let synced = made.and_then(|made| match sync_folder(path) {
        Ok(()) => Ok(made),
        Err(error) => {
            let _ = FileId::remove_open(&made, path);
            Err(error)
        }
    });
    synced.with_context(|| format!("{}: cannot make it", path.display()))
}

/// Checks that a new file could be made, and makes none: an interrupt would leave it.
pub(crate) fn may_make(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return refused(path, "exists: choose a new file name");
    }
    let folder = folder_of(path);
    let may = fs::metadata(folder).and_then(|_| Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?));
    may.with_context(|| format!("{}: cannot make it", path.display()))
}

/// A file that is written piece by piece, and then replaces another one or none.
pub enum Pending {
    /// A temporary file, the place that it is for, and what is there.
    Made(Box<NamedTempFile>, PathBuf, Option<Box<Metadata>>),
    /// An open file of this process, a pipe or a terminal.
    Direct(File),
    /// The output.
    Output(File),
}

impl Pending {
    /// Begins a file for `path`. Refused if [`may_replace`] refuses.
    pub fn begin(path: &Path, inputs: &[&Path], over: Over<'_>) -> Result<Self> {
        let begun = match Place::of(path, inputs, over)? {
            Place::Open(1, open) => Ok(Self::Output(open)),
            Place::Open(_, open) => Ok(Self::Direct(open)),
            Place::Stream => stream(path).map(Self::Direct),
            Place::File(present) => made(path, present.as_ref())
                .map(|(made, path)| Self::Made(Box::new(made), path, present.map(Box::new))),
        };
        begun.with_context(|| format!("{}: cannot write", path.display()))
    }

    /// Removes the unfinished file if Ctrl-C or its like ends this process, which then ends as usual.
    pub(crate) fn gone_if_interrupted(self) -> io::Result<Self> {
        let Self::Made(made, ..) = &self else { return Ok(self) };
        let path = made.path().to_owned();
        let mut signals = Signals::new(crate::interrupt::ending())?;
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let _ = fs::remove_file(&path);
                let _ = emulate_default_handler(signal);
            }
        });
        Ok(self)
    }

    /// Cuts the file to this many bytes. A pipe keeps what it got.
    pub(crate) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Made(made, ..) => {
                made.as_file_mut().set_len(bytes)?;
                made.as_file_mut().seek(io::SeekFrom::Start(bytes)).map(|_| ())
            }
            Self::Direct(_) | Self::Output(_) => Ok(()),
        }
    }

    /// Puts the file in its place, and returns it.
    pub(crate) fn commit(self) -> io::Result<File> {
        match self {
            Self::Made(made, path, present) => persist(*made, &path, present.as_deref()),
            Self::Direct(file) | Self::Output(file) => Ok(file),
        }
    }

    /// Puts a file in its place that ends early because of `why`, if it has anything and nothing else is there; otherwise
    /// leaves it where it was made.
    pub(crate) fn commit_part(self, why: &io::Error) -> io::Result<()> {
        match self {
            Self::Made(made, ..) if made.as_file().metadata()?.len() == 0 => Ok(()),
            Self::Made(made, _, Some(_)) => {
                Err(kept_aside(*made, &format!("{why}; the former file stays, as the new one ends early")))
            }
            whole => whole.commit().map(drop),
        }
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            // Its own errors would have the name of the temporary file.
            Self::Made(made, ..) => made.as_file_mut().write(bytes),
            Self::Output(file) => file.write(bytes),
            // Only the reader of the output may leave: then it has seen enough.
            Self::Direct(file) => file.write(bytes).map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => io::Error::other("its reader has closed it"),
                _ => error,
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Made(made, ..) => made.as_file_mut().flush(),
            Self::Direct(file) | Self::Output(file) => file.flush(),
        }
    }
}

/// A file that is written by its name, by others, and then replaces another one or none.
pub struct Aside {
    /// The name that it was asked for by.
    name: PathBuf,
    /// Where it is written: not beside the file that was asked for, as who owns that folder could put another file in its
    /// place by its name.
    written: NamedTempFile,
    pending: Pending,
}

impl Aside {
    /// Begins a file for `path`. Refused if [`may_replace`] refuses.
    pub fn begin(path: &Path, inputs: &[&Path], over: Over<'_>) -> Result<Self> {
        let pending = Pending::begin(path, inputs, over)?;
        let written = NamedTempFile::with_prefix("straddle-").with_context(|| {
            format!("{}: cannot be written at first in {}", path.display(), std::env::temp_dir().display())
        })?;
        Ok(Self { name: path.to_owned(), written, pending })
    }

    /// Where it is written. It has no contents yet.
    pub fn path(&self) -> &Path {
        self.written.path()
    }

    /// Puts the file in its place. If it ended early, a former file stays.
    pub fn commit(mut self, ended_early: Option<&io::Error>) -> Result<()> {
        let copied = File::open(self.path()).and_then(|mut file| io::copy(&mut file, &mut self.pending));
        let committed = match copied {
            // There may be no room for it where it belongs.
            Err(error) => Err(kept_aside(self.written, &error.to_string())),
            Ok(_) => match ended_early {
                None => self.pending.commit().map(drop),
                Some(why) => self.pending.commit_part(why),
            },
        };
        committed.with_context(|| format!("{}: cannot write", self.name.display()))
    }
}

/// Whether a name stands for an open file of this process.
pub(crate) fn is_open(path: &Path) -> Result<bool> {
    let open = descriptor(path).with_context(|| format!("{}: cannot write", path.display()))?;
    Ok(open.is_some())
}

/// Which open file of this process a name stands for, if it stands for one: `/dev/stdout`, `/dev/fd/7`, a link to either.
/// A pipe or a terminal may also be one of another process, whose files are as any others.
fn descriptor(path: &Path) -> io::Result<Option<(i32, File)>> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Ok(parent) = parent.canonicalize() else { return Ok(None) };
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let (Some(process), Some(number)) = (whose_files(&parent), number) {
            if process == std::process::id().to_string() {
                return Ok(Some((number, duplicate(number)?.into())));
            }
            return Ok(None);
        }
        match fs::read_link(parent.join(name)) {
            Ok(leads) => path = parent.join(leads),
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// The process, as /proc names it, whose open files are in this folder.
fn whose_files(folder: &Path) -> Option<String> {
    let rest = folder.strip_prefix("/proc").ok()?;
    let parts: Vec<&str> = rest.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    match parts[..] {
        [process, "fd"] | [process, "task", _, "fd"] => Some(process.to_owned()),
        _ => None,
    }
}

/// Another descriptor of the same open file, with the same position in it.
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    match number {
        1 => io::stdout().as_fd().try_clone_to_owned(),
        2 => io::stderr().as_fd().try_clone_to_owned(),
        _ => {
            let own = pidfd_open(getpid(), PidfdFlags::empty())?;
            Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
        }
    }
}

/// Opens a pipe or a terminal. What another program has put in its place since is not written to.
fn stream(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).open(path)?;
    match has_contents(&file.metadata()?) {
        true => Err(io::Error::other("another program has put another file in its place")),
        false => Ok(file),
    }
}

/// Makes a temporary file beside `path`, and returns the place that it is for.
fn made(path: &Path, present: Option<&Metadata>) -> io::Result<(NamedTempFile, PathBuf)> {
    // Replace the target of a symbolic link, not the link.
    let path: PathBuf = if present.is_some() { path.canonicalize()? } else { path.to_owned() };
    let folder = folder_of(&path);
    // The user's umask applies to a new file. One that replaces another is its owner's alone until it is in its place.
    let usual = Permissions::from_mode(if present.is_some() { 0o600 } else { 0o666 });
    // The error of a folder that does not exist would name the temporary file.
    std::fs::metadata(folder)?;
    let made = tempfile::Builder::new().prefix(".straddle-").permissions(usual).tempfile_in(folder);
    Ok((made.map_err(|error| io::Error::from(error.kind()))?, path))
}

fn persist(made: NamedTempFile, path: &Path, present: Option<&Metadata>) -> io::Result<File> {
    if let Err(error) = prepared(made.as_file(), path, present) {
        return Err(kept_aside(made, &error.to_string()));
    }
    if !is_at(made.as_file(), made.path()) {
        return Err(io::Error::other(TAKEN_AWAY));
    }
    let persisted = match present {
        None => made.persist_noclobber(path).or_else(|error| match error.error.raw_os_error() {
            // exfat-fuse knows neither RENAME_NOREPLACE nor links.
            Some(libc::EPERM | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS)
                if fs::symlink_metadata(path).is_err() =>
            {
                error.file.persist(path)
            }
            _ => Err(error),
        }),
        Some(present) if fs::metadata(path).is_ok_and(|now| state(&now) == state(present)) => {
            made.persist(path)
        }
        Some(_) => return Err(kept_aside(made, MEANWHILE)),
    };
    let file = persisted.map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => kept_aside(error.file, MEANWHILE),
        _ => kept_aside(error.file, &error.error.to_string()),
    })?;
    if !is_at(&file, path) {
        return Err(io::Error::other(TAKEN_AWAY));
    }
    sync_folder(path).map_err(|error| {
        io::Error::new(error.kind(), format!("it is written, but may be lost in a power failure: {error}"))
    })?;
    Ok(file)
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the name of a file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(folder_of(path)) {
        // A folder in which files may be made, and not listed.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        opened => opened?.sync_all(),
    }
}

/// Makes a file durable, for those who may use the one that it replaces.
fn prepared(file: &File, path: &Path, present: Option<&Metadata>) -> io::Result<()> {
    if let Some(present) = present {
        // Its permissions may have been changed meanwhile. What cannot take its place stays its owner's alone.
        match fs::metadata(path) {
            Ok(now) if FileId::of(&now) == FileId::of(present) => access::keep(file, path, &now)?,
            _ => return Err(io::Error::other(MEANWHILE)),
        }
    }
    file.sync_all()
}

/// Whether a name is still that of this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let named = fs::symlink_metadata(path).map(|found| FileId::of(&found));
    matches!((named, FileId::of_open(file)), (Ok(named), Ok(own)) if named == own)
}

/// What changes when another program writes to a file, or puts another one in its place.
fn state(found: &Metadata) -> (FileId, u64, Option<SystemTime>) {
    (FileId::of(found), found.len(), found.modified().ok())
}

/// Why a file is not replaced whose state has changed.
const MEANWHILE: &str = "another program has changed or removed it meanwhile";
/// Why a file is not known to be in its place.
const TAKEN_AWAY: &str = "another program has removed what was written, or put another file in its place";

/// Leaves a file where it was made, because it cannot be put in its place.
fn kept_aside(made: NamedTempFile, why: &str) -> io::Error {
    if !is_at(made.as_file(), made.path()) {
        return io::Error::other(format!("{why}; {TAKEN_AWAY}"));
    }
    match made.keep() {
        Ok((_, path)) => io::Error::other(format!("{why}; what was to be written is in {}", path.display())),
        Err(error) => error.error,
    }
}

/// Checks that `path` may be overwritten: it does not exist, is a pipe or a terminal, or is of the kind that may be replaced
/// and not one of `inputs`, whatever its name. It is known before a long run whether a file can be made there.
pub fn may_replace(path: &Path, inputs: &[&Path], over: Over<'_>) -> Result<()> {
    match Place::of(path, inputs, over)? {
        Place::Open(..) | Place::Stream => Ok(()),
        Place::File(present) => made(path, present.as_ref())
            .map(drop)
            .with_context(|| format!("{}: cannot write", path.display())),
    }
}

/// What a name stands for that may be written to.
enum Place {
    /// An open file, by its number in this process.
    Open(i32, File),
    /// A pipe or a terminal, which has no contents to lose.
    Stream,
    /// A file that is to be made, and what is there.
    File(Option<Metadata>),
}

impl Place {
    fn of(path: &Path, inputs: &[&Path], over: Over<'_>) -> Result<Self> {
        if path == Path::new("-") {
            return refused(
                path,
                "name a file; standard output is /dev/stdout, and a file of this name is ./-",
            );
        }
        let present = match fs::metadata(path) {
            Ok(present) => present,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{}: cannot write", path.display()));
            }
            Err(_) if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) => {
                return refused(path, "is a link that leads to nothing: name the file itself");
            }
            Err(_) => return Ok(Self::File(None)),
        };
        if access::is_anothers_link(path) {
            return refused(path, "is a link of another user: name the file itself");
        }
        let id = FileId::of(&present);
        if present.file_type().is_block_device() {
            return refused(path, "is a device and would be overwritten: name a file that does not exist");
        }
        let read = READ.lock().map(|read| read.clone()).unwrap_or_default();
        let mut inputs = inputs.iter().copied().chain(read.iter().map(PathBuf::as_path));
        if let Some(input) = inputs.find(|input| is_same_or_in(path, id, input)) {
            let text = format!(
                "would be overwritten, and is an input ({}): name a file that does not exist",
                input.display()
            );
            return refused(path, &text);
        }
        if present.is_dir() {
            anyhow::bail!("{}: cannot write: it is a folder", path.display());
        }
        if has_contents(&present) && !present.is_file() {
            return refused(path, "is a device: name a file that does not exist");
        }
        let open = descriptor(path).with_context(|| format!("{}: cannot write", path.display()))?;
        if let Some((number, file)) = open {
            if present.is_file() && is_before_its_end(&file).unwrap_or(true) {
                return refused(path, "would be overwritten from where it is open: open it to append (>>)");
            }
            return Ok(Self::Open(number, file));
        }
        if !present.is_file() {
            return Ok(Self::Stream);
        }
        if is_open_here(id) {
            return refused(path, "is open here, perhaps for the output: name another file, or /dev/stdout");
        }
        if !is_ours(path, over).with_context(|| format!("{}: cannot read", path.display()))? {
            let text = match over {
                Over::Nothing => "exists: name a file that does not exist",
                _ => "would be overwritten, and holds something else: name a file that does not exist",
            };
            return refused(path, text);
        }
        if !access::is_writable(path, &present) {
            return refused(path, "is write-protected: name a file that does not exist");
        }
        Ok(Self::File(Some(present)))
    }
}

/// Whether a file is this input, or in the folder that is one.
fn is_same_or_in(path: &Path, id: FileId, input: &Path) -> bool {
    let Ok(found) = fs::metadata(input) else { return false };
    // Both what a link leads to and the link: any user who may write to the folder may have made it.
    let is_inside = || {
        let (input, place) = (input.canonicalize().ok()?, folder_of(path).canonicalize().ok()?);
        Some(place.starts_with(&input) || path.canonicalize().ok()?.starts_with(&input))
    };
    FileId::of(&found) == id || (found.is_dir() && is_inside().unwrap_or(false))
}

fn refused<T>(path: &Path, why: &str) -> Result<T> {
    Err(RefusedError(format!("{}: {why}", path.display())).into())
}

/// Whether something else than a pipe or a terminal.
fn has_contents(found: &Metadata) -> bool {
    let kind = found.file_type();
    kind.is_file() || kind.is_block_device() || (kind.is_char_device() && !is_harmless(found.rdev()))
}

/// Whether a character device is a terminal, or /dev/null, /dev/zero or /dev/full (Linux, admin-guide/devices.txt). To
/// open /dev/ptmx makes another terminal, which nothing reads.
fn is_harmless(number: u64) -> bool {
    let number = (rustix::fs::major(number), rustix::fs::minor(number));
    matches!(number, (1, 3 | 5 | 7) | (4 | 5 | 136..=143 | 204, _)) && number != (5, 2)
}

/// Whether bytes of a file are behind the position where it is written next.
fn is_before_its_end(mut file: &File) -> io::Result<bool> {
    if rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND) {
        return Ok(false);
    }
    Ok(file.stream_position()? < file.metadata()?.len())
}

/// Whether a descriptor of this process is of this file, such as that of standard output.
fn is_open_here(id: FileId) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return false };
    let mut found = open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
    found.any(|found| FileId::of(&found) == id)
}

/// Whether the file is empty, or of the kind that may be replaced.
fn is_ours(path: &Path, over: Over<'_>) -> io::Result<bool> {
    let mut head = Vec::new();
    // What has become a pipe since is not waited for.
    let mut file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    (&mut file).take(LOOKED_AT).read_to_end(&mut head)?;
    let is_text = match std::str::from_utf8(&head) {
        Ok(text) => !text.contains('\0'),
        // The last character may be cut off.
        Err(error) => head.len() as u64 == LOOKED_AT && error.error_len().is_none() && !head.contains(&0),
    };
    if head.is_empty() {
        return Ok(true);
    }
    Ok(match over {
        Over::Text(beginning) => is_text && head.starts_with(beginning.as_bytes()),
        Over::MadeBy(beginning, maker) => {
            is_text && head.starts_with(beginning.as_bytes()) && has(&head, maker)
        }
        Over::Events => is_text && is_event(head.split(|byte| *byte == b'\n').next().unwrap_or_default()),
        Over::Recording => straddle_trace::is_recording(&head) && has(&head, crate::recording::CLOCK),
        Over::Parquet => straddle_trace::is_own_table(file),
        Over::Nothing => false,
    })
}

/// Whether a line is the first one of a guest's events: `1 1023198485 r 7ffff7ea7f11 7fffffffe6f0 27 0`.
fn is_event(line: &[u8]) -> bool {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [b"1", time, [kind], rest @ ..] = &fields[..] else { return false };
    let is_number = |field: &&[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_hexdigit);
    kind.is_ascii_alphabetic()
        && time.iter().all(u8::is_ascii_digit)
        && rest.len() == 4
        && rest.iter().all(is_number)
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[cfg(test)]
mod tests;
