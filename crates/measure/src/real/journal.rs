//! Stores the previous contents of a target in files elsewhere until the measurement is over.
//!
//! Invariants: nothing of the target is written before the journal of its areas is complete and
//! durable, and a journal is removed only when the target has been seen to hold its previous contents. A
//! journal that fails its checks is neither used nor removed. [`Kept`] is the proof of the former: it is made
//! here only, from contents that were read ([`Pending`]) and are durable.
//!
//! A file of a journal begins with a line that names the journal and the number of the file in it
//! ([`Title`]), a line of JSON ([`Header`]) and a line with the SHA-256 of both, padded with blanks to 16384
//! bytes. The bytes of each area follow, one area after the other. The file is written under a name that ends
//! in `.new` and, once durable, renamed to one that ends in `.journal`. So a file called `.new` was never
//! used, and one called `.journal` was complete. What is to be overwritten later is added in further files,
//! each of them complete in itself, with a number in the name.
//!
//! Before a file gets its final name, the next one exists, called `.new`, with its first line only. So the
//! files of a journal are those from the first to the one before the first `.new`, and a lost file is noticed
//! even if it is the last one. When the target has been seen to hold its previous contents, that `.new` file
//! is renamed to `.over` before any file is removed.
//!
//! A file that does not begin with such a line does not belong to a journal, whatever its
//! name: it is neither used nor removed.

mod disk;
mod kept;
mod left;
mod restore;
mod sectors;
mod title;

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::FileId;
use straddle_device::hex::encode as hex;
use straddle_units::{ByteCount, ByteOffset, Span};

use self::disk::Disk;
use self::title::Title;
use crate::real::open::{OpenError, Opened};

pub(crate) use kept::{Kept, Pending, lay};
pub use left::{Left, Unrestored, left, unrestored};
pub use restore::{Lacks, LaterWrites, Restored, Settled, restore};

/// The prefix of the names of all journal files.
const PREFIX: &str = "straddle-";
const HEADER: usize = 16384;
/// The maximum length of a journal file, in bytes. A run keeps the same contents in memory too.
const LONGEST: u64 = 1 << 36;
const SUFFIX: &str = "journal";
/// The suffix of an incomplete file.
const NEW: &str = "new";
/// The suffix of a file that was found damaged.
const DAMAGED: &str = "damaged";
/// The suffix of the file that marks a journal as no longer needed.
const OVER: &str = "over";

/// Why a journal cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be written or read.
    #[error("{path}: cannot {what} the journal", path = path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The header has no room for the target's path, or the path is not UTF-8.
    #[error("{path}: a journal cannot hold a path that is not UTF-8, or this long ({length} bytes): give it another name", path = path.display(), length = path.as_os_str().len())]
    Name {
        /// The target.
        path: PathBuf,
    },
    /// The file is damaged. It has been renamed.
    #[error("{path}: {what}; nothing was restored, and the journal is now {renamed}", path = path.display(), renamed = renamed.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What is wrong, and what is known about the target.
        what: String,
        /// Its new name.
        renamed: PathBuf,
    },
    /// The target is no longer the one that was measured.
    #[error("{path}: {target} is not what the journal is of: {what}", path = path.display(), target = target.display())]
    OtherTarget {
        /// The journal.
        path: PathBuf,
        /// The target.
        target: PathBuf,
        /// What differs.
        what: String,
    },
    /// The target cannot be opened.
    #[error("{path}: the journal is kept", path = path.display())]
    Open {
        /// The journal.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// The target cannot be compared or written.
    #[error("{target}: cannot restore {length} bytes at byte {offset}; the journal {path} is kept", path = path.display(), target = target.display())]
    PutBack {
        /// The journal.
        path: PathBuf,
        /// The target.
        target: PathBuf,
        /// The offset in the target, in bytes.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The target cannot be flushed.
    #[error("{target}: cannot flush; the journal {path} is kept", path = path.display(), target = target.display())]
    Flush {
        /// The journal.
        path: PathBuf,
        /// The target.
        target: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

straddle_units::error_kind! {
    JournalError: Failed;
    Self::Open { source: OpenError::InUse { .. }, .. } => Refused,
}

/// The header of a journal file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(skip)]
    title: Title,
    target: PathBuf,
    size: u64,
    identity: FileId,
    /// When the target was created, if it is a file and its file system records that: inode numbers are
    /// reused.
    #[serde(default)]
    born: Option<Duration>,
    /// The identity of the disk, if the target is a device.
    #[serde(default)]
    disk: Disk,
    /// A lower bound of the time of the first write, in seconds since 1970. Nothing is written before the
    /// journal has its final name.
    began_unix_seconds: u64,
    areas: Vec<SavedArea>,
}

/// A saved area. Every write to it writes the saved bytes, so their SHA-256 is also that of the last bytes
/// written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedArea {
    start: u64,
    length: u64,
    sha256: String,
}

impl Header {
    /// The bytes of the header as written to the file. `None` if the target's path is too long or is not
    /// UTF-8.
    fn encode(&self) -> Option<Vec<u8>> {
        let mut text = self.title.line().into_bytes();
        text.extend(serde_json::to_vec(self).ok()?);
        let sum = hex(&Sha256::digest(&text));
        text.push(b'\n');
        text.extend(sum.as_bytes());
        text.push(b'\n');
        if text.len() > HEADER || self.length().is_none() {
            return None;
        }
        text.resize(HEADER, b' ');
        Some(text)
    }

    /// Parses the first bytes of a file. `None` if they are not a valid header.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.get(..HEADER)?.split(|byte| *byte == b'\n');
        let (line, text, sum, rest) = (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
        let found = Sha256::new().chain_update(line).chain_update(b"\n").chain_update(text).finalize();
        if sum != hex(&found).as_bytes() || rest.iter().any(|byte| *byte != b' ') {
            return None;
        }
        let mut header: Self = serde_json::from_slice(text).ok()?;
        header.title = Title::decode(line)?;
        let mut seen = BTreeSet::new();
        let is_of_target = |area: &SavedArea| {
            let end = area.start.checked_add(area.length);
            area.length > 0 && end.is_some_and(|end| end <= header.size) && seen.insert(area.place())
        };
        (header.areas.iter().all(is_of_target) && header.length().is_some()).then_some(header)
    }

    fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = Vec::with_capacity(HEADER);
        file.take(HEADER as u64).read_to_end(&mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    /// The length of the whole file in bytes. `None` if it exceeds the maximum.
    fn length(&self) -> Option<u64> {
        let length = self.areas.iter().try_fold(HEADER as u64, |sum, area| sum.checked_add(area.length));
        length.filter(|length| *length <= LONGEST)
    }
}

impl SavedArea {
    /// Start and length. No two areas of a journal have the same.
    const fn place(&self) -> (u64, u64) {
        (self.start, self.length)
    }

    fn span(&self) -> Option<Span> {
        Span::new(ByteOffset::new(self.start), ByteCount::new(self.length))
    }
}

/// A journal that is being written, in one or more files. They stay until [`remove`](Self::remove) is called.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// The name of the first file without its suffix. The names of the others have their number after it.
    stem: String,
    parts: Vec<PathBuf>,
    /// The file to be filled next, with its first line only. Its existence shows that no other file follows.
    next: Option<File>,
    /// The first file. It is locked for as long as the measurement runs, so that no other process takes the
    /// journal for that of a run that has died.
    lock: Option<Locked>,
    /// Whether adding to it failed. It may hold a part of what was to be added, and the same area must not be
    /// in two of its files, so nothing more is added.
    has_failed: bool,
}

/// The number of areas in a file. A header has room for them and for a long path.
const AREAS: usize = 64;

/// A locked file. It is unlocked explicitly: a child process that is being started may have the open file for
/// longer than this process.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        straddle_device::claim::unlock(&self.0);
    }
}

/// The path of the file with this number in the journal `stem`.
fn named(folder: &Path, stem: &str, number: u64, suffix: &str) -> PathBuf {
    let name = if number == 0 { stem.to_owned() } else { format!("{stem}.{number}") };
    folder.join(format!("{name}.{suffix}"))
}

/// Makes the directory entries of `folder` durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all())
}

impl Journal {
    /// An empty journal of `opened` in `folder`.
    pub(crate) fn new(folder: &Path, opened: &Opened) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Io { path: folder.to_owned(), what: "make a folder for", source };
        fs::create_dir_all(folder).map_err(failed)?;
        let stem = format!("{PREFIX}{}-{}-{}", opened.id.number(), std::process::id(), now().as_nanos());
        Ok(Self {
            folder: folder.to_owned(),
            stem,
            parts: Vec::new(),
            next: None,
            lock: None,
            has_failed: false,
        })
    }

    /// Writes what was read from `opened` to new files, durably. After an error, nothing more can be added.
    pub(crate) fn add(&mut self, opened: &Opened, pending: Pending) -> Result<Kept, JournalError> {
        let failed = |source| JournalError::Io { path: self.folder.clone(), what: "write", source };
        if self.has_failed {
            return Err(failed(io::Error::other("an earlier write to it failed")));
        }
        self.has_failed = true;
        let areas: Vec<(Span, &[u8])> = pending.areas().collect();
        for areas in areas.chunks(AREAS) {
            self.add_part(opened, areas)?;
        }
        let failed = |source| JournalError::Io { path: self.folder.clone(), what: "write", source };
        sync_folder(&self.folder).map_err(failed)?;
        self.has_failed = false;
        Ok(Kept::durable(pending))
    }

    fn named(&self, number: usize, suffix: &str) -> PathBuf {
        named(&self.folder, &self.stem, number as u64, suffix)
    }

    fn add_part(&mut self, opened: &Opened, areas: &[(Span, &[u8])]) -> Result<(), JournalError> {
        let number = self.parts.len();
        let (path, new) = (self.named(number, SUFFIX), self.named(number, NEW));
        let title = Title::new(&self.stem, number as u64);
        let text = self.header(&title, opened, areas)?;
        let failed = |what| {
            let path = path.clone();
            move |source| JournalError::Io { path, what, source }
        };
        let file = self.next.take().map_or_else(|| title.make(&new), Ok).map_err(failed("make"))?;
        match self.fill(&file, &text, areas) {
            Ok(next) => self.next = Some(next),
            Err(source) => {
                // None of these areas has been written yet. A first file is removed. A later one stays, to
                // show that no other follows.
                let line = title.line();
                let _ = file.write_all_at(line.as_bytes(), 0).and_then(|()| file.set_len(line.len() as u64));
                let _ = title::remove(&self.named(number + 1, NEW), &self.stem);
                if number == 0 {
                    let _ = title::remove(&new, &self.stem);
                } else {
                    self.next = Some(file);
                }
                return Err(failed("write")(source));
            }
        }
        self.parts.push(path);
        self.lock.get_or_insert(Locked(file));
        Ok(())
    }

    /// Fills the file, gives it its final name, and returns the file after it.
    fn fill(&self, file: &File, text: &[u8], areas: &[(Span, &[u8])]) -> io::Result<File> {
        let number = self.parts.len();
        file.write_all_at(text, 0)?;
        let mut at = HEADER as u64;
        for (_, bytes) in areas {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        let next = Title::new(&self.stem, number as u64 + 1).make(&self.named(number + 1, NEW))?;
        // The final name means that the contents are durable.
        file.sync_all()?;
        fs::rename(self.named(number, NEW), self.named(number, SUFFIX))?;
        Ok(next)
    }

    fn header(
        &self,
        title: &Title,
        opened: &Opened,
        areas: &[(Span, &[u8])],
    ) -> Result<Vec<u8>, JournalError> {
        let failed =
            |source| JournalError::Io { path: opened.path.clone(), what: "name the target of", source };
        let saved = areas.iter().map(|(span, bytes)| SavedArea {
            start: span.start().get(),
            length: span.len().get(),
            sha256: hex(&Sha256::digest(bytes)),
        });
        let header = Header {
            title: title.clone(),
            target: opened.path.canonicalize().map_err(failed)?,
            size: opened.size,
            identity: opened.id,
            born: opened.file.metadata().ok().as_ref().and_then(born),
            disk: Disk::of(opened),
            began_unix_seconds: now().as_secs(),
            areas: saved.collect(),
        };
        header.encode().ok_or(JournalError::Name { path: header.target })
    }

    /// The path of the first file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.parts.first().map(PathBuf::as_path)
    }

    /// Removes the journal, as the target holds its previous contents.
    pub(crate) fn remove(self) -> Result<(), JournalError> {
        let Some(last) = self.parts.len().checked_sub(1) else { return Ok(()) };
        let end = self.next.is_some().then(|| self.named(last + 1, NEW));
        remove(&self.folder, &self.stem, end.as_deref(), &self.parts)
    }
}

/// Removes the files `parts` of the journal `stem`. Before that, the file `end` is renamed to `.over`, which
/// marks the journal as no longer needed.
fn remove(folder: &Path, stem: &str, end: Option<&Path>, parts: &[PathBuf]) -> Result<(), JournalError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| JournalError::Io { path, what: "remove", source }
    };
    let over = &named(folder, stem, 0, OVER);
    let title = Title::new(stem, 0);
    let is_ours =
        |path: &Path| Title::read(path).is_ok_and(|title| title.is_some_and(|title| title.stem == stem));
    if !is_ours(over) {
        if fs::symlink_metadata(over).is_ok() {
            return Err(failed(over)(io::Error::other("a file that is not the journal's has this name")));
        }
        match end.filter(|end| is_ours(end)) {
            Some(end) => fs::rename(end, over),
            // The file is missing, so the mark is made.
            None => title.make(over).map(drop),
        }
        .map_err(failed(over))?;
    }
    sync_folder(folder).map_err(failed(over))?;
    // The first file, which is locked, is removed last of the parts.
    for path in parts.iter().rev().map(PathBuf::as_path).chain([over.as_path()]) {
        title::remove(path, stem).map_err(failed(path))?;
    }
    Ok(())
}

/// When a file was created, since 1970. `None` if that is not recorded.
fn born(metadata: &Metadata) -> Option<Duration> {
    let created = metadata.created().ok().filter(|_| metadata.is_file())?;
    created.duration_since(UNIX_EPOCH).ok()
}

/// Whether a file created at `found` may be the target of `header`. An unknown time does not exclude it.
fn is_of_age(header: &Header, found: Option<Duration>) -> bool {
    header.born.zip(found).is_none_or(|(then, now)| then == now)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests;
