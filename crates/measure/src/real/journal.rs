//! Stores the previous contents of a target in a file elsewhere until the measurement is over.
//!
//! Nothing of the target is written before the journal holds it durably ([`Kept`] is the proof, made here only), and
//! a journal is removed only when the target has been seen to hold its previous contents. A journal that fails its
//! checks is not used.
//!
//! A journal is one file, which is locked (flock) while its run lasts. It begins with a [`Header`] of [`HEADER`]
//! bytes. Each area follows: a [`SavedArea`] of [`LINE`] bytes, and what was read there. Both are a line of JSON and
//! a line with its SHA-256, padded with blanks. An area's line is written when all else is durable; lines are
//! sectors, which are not torn. The journal ends where zeroes, or nothing, are in the place of a line. Without any
//! area, it was never used.

mod restore;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use straddle_device::hex::encode as hex;
use straddle_device::sysfs::{Attributes, Directory, name_of_disk, of_number};
use straddle_device::{FileId, claim};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::real::memory::Memory;
use crate::real::open::{Kind, OpenError, Opened};
use crate::real::target::{RealError, read_area};

pub use restore::{LaterWrites, Restored, restore};

const MAGIC: &[u8] = b"{\"straddle_journal\":4,";
const PREFIX: &str = "straddle-";
const SUFFIX: &str = ".journal";
/// A path may be as long as 4096 bytes, and longer in JSON.
const HEADER: u64 = 16384;
const LINE: u64 = 512;
const CHUNK: ByteCount = ByteCount::new(1 << 20);

/// Why a journal cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum JournalError {
    #[error("{path}: cannot {what} the journal", path = path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{path}: this path cannot be stored in a journal, because it is too long ({length} bytes) or not \
             UTF-8; rename the file", path = path.display(), length = path.as_os_str().len())]
    Name { path: PathBuf },
    #[error("{path}: the journal is damaged ({what}), so nothing was restored. Compare the target with a \
             backup. The journal was renamed to {renamed}", path = path.display(), renamed = renamed.display())]
    Damaged { path: PathBuf, what: String, renamed: PathBuf },
    #[error("{path}: {target} is not the target of this journal ({what})", path = path.display(), target = target.display())]
    OtherTarget { path: PathBuf, target: PathBuf, what: String },
    #[error("{path}: cannot restore the target of this journal; the journal was kept", path = path.display())]
    Open { path: PathBuf, source: OpenError },
    #[error("{target}: cannot restore {length} bytes at byte {offset}; the journal {path} was kept", path = path.display(), target = target.display())]
    PutBack { path: PathBuf, target: PathBuf, offset: u64, length: u64, source: io::Error },
    #[error("{target}: cannot flush the restored data; the journal {path} was kept", path = path.display(), target = target.display())]
    Flush { path: PathBuf, target: PathBuf, source: io::Error },
}

straddle_units::error_kind! {
    JournalError: Failed;
    Self::Open { source: OpenError::InUse { .. }, .. } => Refused,
}

#[derive(Default)]
pub(crate) struct Pending(Vec<(Span, Memory)>);

pub(crate) struct Kept(Vec<(Span, Memory)>);

impl Pending {
    /// Reads what of `span` is neither in `known` nor read yet: what was read first counts.
    pub(crate) fn read(&mut self, opened: &Opened, span: Span, known: &[Span]) -> Result<(), RealError> {
        let taken = self.0.iter().map(|(area, _)| *area).chain(known.iter().copied());
        for gap in span.gaps(taken.filter(|area| area.overlaps(span)).collect::<Vec<_>>()) {
            self.0.push((gap, read_area(opened, gap)?));
        }
        Ok(())
    }
}

impl Kept {
    pub(crate) fn into_areas(self) -> Vec<(Span, Memory)> {
        self.0
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    straddle_journal: u32,
    target: PathBuf,
    size: u64,
    identity: FileId,
    /// When the target was created, if that is recorded for a file: inode numbers are reused.
    born: Option<Duration>,
    disk: Disk,
    /// A lower bound of the time of the first write, in seconds since 1970.
    began_unix_seconds: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedArea {
    start: u64,
    length: u64,
    sha256: String,
}

/// What the kernel reports about a disk, as its number may later be given to another disk; empty for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    /// The drive's own name (WWID, or serial number); of a loop device, its file.
    name: Option<String>,
    /// The id of the boot, and the disk's number since then (`diskseq`, Linux 5.15 and later).
    attached: Option<(String, u64)>,
}

impl Disk {
    fn of(opened: &Opened) -> Self {
        let Some(number) = opened.file.metadata().ok().filter(|_| opened.kind == Kind::Block) else {
            return Self::default();
        };
        let device = of_number(number.rdev());
        // A partition is identified by its disk.
        let both = [Directory::new(device.clone()), Directory::new(device.join(".."))];
        let named = |disk: &Directory| {
            name_of_disk(disk).or_else(|| disk.text("serial")).or_else(|| disk.text("loop/backing_file"))
        };
        let name = both.iter().find_map(named);
        let sequence = both.iter().find_map(|disk| disk.number("diskseq"));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self { name, attached: boot.map(|boot| boot.trim().to_owned()).zip(sequence) }
    }

    /// Whether `other` is certainly a different disk. A disk that has a name may be attached again.
    fn differs(&self, other: &Self) -> bool {
        let attached = self.attached.as_ref().zip(other.attached.as_ref());
        match self.name.as_ref().zip(other.name.as_ref()) {
            Some((one, two)) => one != two,
            None => attached.is_some_and(|((boot, one), (now, two))| boot == now && one != two),
        }
    }
}

impl Header {
    fn of(opened: &Opened) -> Result<Self, JournalError> {
        let failed =
            |source| JournalError::Io { path: opened.path.clone(), what: "name the target of", source };
        Ok(Self {
            straddle_journal: 4,
            target: opened.path.canonicalize().map_err(failed)?,
            size: opened.size,
            identity: opened.id,
            born: opened.file.metadata().ok().as_ref().and_then(born),
            disk: Disk::of(opened),
            began_unix_seconds: now().as_secs(),
        })
    }

    /// Whether what was found at `name` is the target. An unknown time does not exclude it.
    fn is_of(&self, id: FileId, found: Option<Duration>) -> bool {
        id == self.identity && self.born.zip(found).is_none_or(|(then, now)| then == now)
    }

    fn difference(&self, opened: &Opened) -> Option<String> {
        let born = opened.file.metadata().ok().as_ref().and_then(born);
        if !self.is_of(opened.id, born) || self.disk.differs(&Disk::of(opened)) {
            return Some("the target has been replaced".to_owned());
        }
        (opened.size != self.size).then(|| {
            format!("the target has {} bytes, but had {} when the journal was made", opened.size, self.size)
        })
    }
}

fn born(metadata: &Metadata) -> Option<Duration> {
    let created = metadata.created().ok().filter(|_| metadata.is_file())?;
    created.duration_since(UNIX_EPOCH).ok()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A line of JSON and one with its checksum, padded with blanks. `None` if there is too little room.
fn encoded(value: &impl Serialize, length: u64) -> Option<Vec<u8>> {
    let mut text = serde_json::to_vec(value).ok()?;
    let sum = hex(&Sha256::digest(&text));
    text.extend(format!("\n{sum}\n").into_bytes());
    let length = usize::try_from(length).ok().filter(|length| text.len() <= *length)?;
    text.resize(length, b' ');
    Some(text)
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let (text, sum, rest) = (lines.next()?, lines.next()?, lines.next()?);
    if sum != hex(&Sha256::digest(text)).as_bytes() || rest.iter().any(|byte| *byte != b' ') {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// The journal of a running measurement. It stays until [`remove`](Self::remove) is called.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) path: PathBuf,
    file: Locked,
    end: u64,
    /// Whether a write to it failed. Its contents are then unknown, and nothing more is added.
    has_failed: bool,
}

/// A locked file, unlocked explicitly: a child process may have the open file for longer than this process.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        claim::unlock(&self.0);
    }
}

impl Locked {
    fn of(file: File) -> io::Result<Option<Self>> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_gone(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.nlink() == 0)
    }
}

impl Journal {
    pub(crate) fn make(folder: &Path, opened: &Opened) -> Result<Self, JournalError> {
        let failed = |path: &Path, what| {
            let path = path.to_owned();
            move |source| JournalError::Io { path, what, source }
        };
        let header = Header::of(opened)?;
        let header = encoded(&header, HEADER).ok_or(JournalError::Name { path: header.target })?;
        fs::create_dir_all(folder).map_err(failed(folder, "create a directory for"))?;
        let path = folder.join(format!("{PREFIX}{}-{}{SUFFIX}", std::process::id(), now().as_nanos()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(failed(&path, "make"))?;
        let begin = |file| {
            let taken = || io::Error::other("another process has locked or removed the journal");
            let file = Locked::of(file)?.ok_or_else(taken)?;
            if file.is_gone()? {
                return Err(taken());
            }
            file.0.write_all_at(&header, 0)?;
            File::open(folder)?.sync_all()?;
            Ok(file)
        };
        match begin(file) {
            Ok(file) => Ok(Self { path, file, end: HEADER, has_failed: false }),
            Err(source) => {
                let _ = fs::remove_file(&path);
                Err(failed(&path, "write")(source))
            }
        }
    }

    pub(crate) fn add(&mut self, pending: Pending) -> Result<Kept, JournalError> {
        let failed = |source| JournalError::Io { path: self.path.clone(), what: "write", source };
        if self.has_failed {
            return Err(failed(io::Error::other("an earlier write to the journal failed")));
        }
        match self.write(&pending) {
            Ok(end) => self.end = end,
            Err(source) => {
                self.has_failed = true;
                return Err(failed(source));
            }
        }
        Ok(Kept(pending.0))
    }

    /// The lines are written when the areas are durable. Returns where they end.
    fn write(&self, pending: &Pending) -> io::Result<u64> {
        if pending.0.is_empty() {
            return Ok(self.end);
        }
        let file = &self.file.0;
        let (mut lines, mut at) = (Vec::new(), self.end);
        for (span, memory) in &pending.0 {
            let (start, length) = (span.start().get(), span.len().get());
            let area = SavedArea { start, length, sha256: hex(&Sha256::digest(memory.bytes())) };
            lines.extend(encoded(&area, LINE).map(|line| (at, line)));
            file.write_all_at(memory.bytes(), at + LINE)?;
            at += LINE + length;
        }
        file.sync_all()?;
        lines.iter().try_for_each(|(at, line)| file.write_all_at(line, *at))?;
        file.sync_all()?;
        Ok(at)
    }

    pub(crate) fn remove(self) -> Result<(), JournalError> {
        remove(&self.path)
    }
}

fn remove(path: &Path) -> Result<(), JournalError> {
    fs::remove_file(path).map_err(|source| JournalError::Io { path: path.to_owned(), what: "remove", source })
}

/// Returns the journals in `folder`, ordered by name; none if it does not exist. Other programs may have files there:
/// a journal begins as one, or is empty and has the name of one, of a run that was killed at once.
pub fn left(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_named = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if !is_named || !entry.file_type()?.is_file() {
            continue;
        }
        let mut begin = Vec::new();
        match File::open(entry.path()).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut begin))
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read?,
        };
        if begin.is_empty() || begin == MAGIC {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// A journal that must be restored before the next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unrestored {
    pub(crate) path: PathBuf,
    /// Whether its run, or a process that restores it, is still running.
    pub(crate) is_running: bool,
}

/// Finds a journal whose target is what `path` names now. Without a readable header, its target is unknown, and no
/// run is refused for it.
pub(crate) fn unrestored(path: &Path, folder: &Path) -> io::Result<Option<Unrestored>> {
    // A missing target is reported when it is opened.
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    let (name, id, born) = (path.canonicalize().ok(), FileId::of(&metadata), born(&metadata));
    for path in left(folder)? {
        let Ok(file) = File::open(&path) else { continue };
        let header: Option<Header> = read(&file, 0, HEADER).ok().and_then(|bytes| decoded(&bytes));
        let is_of_this = |header: Header| name.as_ref() == Some(&header.target) || header.is_of(id, born);
        let is_used = || read(&file, HEADER, LINE).is_ok_and(|line| !is_end(&line));
        if header.is_some_and(is_of_this) && is_used() {
            return Ok(Some(Unrestored { path, is_running: !matches!(Locked::of(file), Ok(Some(_))) }));
        }
    }
    Ok(None)
}

/// Reads fewer bytes at the end.
fn read(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut done = 0;
    while let more @ 1.. = file.read_at(&mut bytes[done..], at + done as u64)? {
        done += more;
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn is_end(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte == 0)
}

/// Its contents begin at byte `at` of the journal.
#[derive(Debug)]
struct Area {
    span: Span,
    at: u64,
}

/// `InvalidData` if the journal is damaged.
fn areas(file: &File, header: &Header) -> io::Result<Vec<Area>> {
    let length = file.metadata()?.len();
    let mut areas = Vec::new();
    let mut at = HEADER;
    loop {
        let line = read(file, at, LINE)?;
        if is_end(&line) {
            return Ok(areas);
        }
        let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{what} (byte {at})"));
        let area: SavedArea =
            decoded(&line).ok_or_else(|| damaged("the header line of an area is invalid"))?;
        let span = Span::new(ByteOffset::new(area.start), ByteCount::new(area.length))
            .filter(|span| !span.is_empty() && span.end().get() <= header.size)
            .ok_or_else(|| damaged("an area is outside the target, or empty"))?;
        if length.saturating_sub(at + LINE) < area.length {
            return Err(damaged("the contents of an area are truncated"));
        }
        let area_at = at + LINE;
        let mut sum = Sha256::new();
        for piece in Span::first(span.len()).pieces(CHUNK) {
            sum.update(read(file, area_at + piece.start().get(), piece.len().get())?);
        }
        if hex(&sum.finalize()) != area.sha256 {
            return Err(damaged("the checksum of an area is wrong"));
        }
        areas.push(Area { span, at: area_at });
        at = area_at + area.length;
    }
}

#[cfg(test)]
mod tests;
