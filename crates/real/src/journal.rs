//! What a target held, on another file, until the measurement is over.
//!
//! The law of this module: nothing of the target is written before the journal of its areas is complete and durable, and a
//! journal goes only when the target has been seen to hold what it held. One that does not pass its checks is never used and
//! never removed.
//!
//! A file of it: a line that says of which journal it is, and which one ([`Title`]), a line of JSON ([`Header`]), a line with the
//! SHA-256 of both, padded with blanks to 16384 bytes; then each area's bytes, one after the other. It is written under another name, which ends in `.new`, and gets its own, which ends in `.journal`,
//! when it is durable. So what is called `.new` was never used, and what is called `.journal` was complete. What is to be written
//! later is added in further files, each of them whole by itself, with a number behind the name.
//!
//! Before a file gets its name, the next one is there, with its first line only, and called `.new`. So the files of a journal are those from the
//! first to the one before the first that is `.new`, and one that is lost is missed, be it the last. When the target has been seen
//! to hold what it held, that one is called `.over` before the first file goes.
//!
//! A file whose header ends in anything but a blank is dirty: a write of what the journal holds, or a flush, has begun or failed,
//! and the target has not been seen to hold it since. Below the target a cache may have it, and the medium not. What does not begin with such a line is no file
//! of a journal, whatever it is called: it is neither used nor removed.

mod disk;
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
use straddle_units::{ByteCount, ByteOffset, Span};

use self::disk::Disk;
use self::title::Title;
use crate::open::{OpenError, Opened};

pub use left::{Left, Unrestored, left, unrestored};
pub use restore::{Lacks, Restored, Settled, restore};

/// What their names begin with.
const PREFIX: &str = "straddle-";
const HEADER: usize = 16384;
/// Where a header says that the journal is dirty.
const MARK: usize = HEADER - 1;
/// No file of a journal is longer: what it holds is in memory as well.
const LONGEST: u64 = 1 << 36;
const SUFFIX: &str = "journal";
/// Of one that is not complete.
const NEW: &str = "new";
/// Of one that was found damaged.
const DAMAGED: &str = "damaged";
/// Of what says that the journal is no longer needed.
const OVER: &str = "over";

/// Why there is no journal, or it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be written or read.
    #[error("{path}: cannot {what} the journal", path = path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The header has no place for the target's name.
    #[error("{path}: a journal cannot hold a path that is not UTF-8, or this long ({length} bytes): give it another name", path = path.display(), length = path.as_os_str().len())]
    Name {
        /// The target.
        path: PathBuf,
    },
    /// It is no journal, or a damaged one. It has another name now.
    #[error("{path}: {what}; nothing was restored, and the journal is now {renamed}", path = path.display(), renamed = renamed.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What is wrong, and what is known of the target.
        what: String,
        /// Where it is now.
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
        /// Why.
        source: OpenError,
    },
    /// The target cannot be compared or written.
    #[error("{target}: cannot restore {length} bytes at byte {offset}; the journal {path} is kept", path = path.display(), target = target.display())]
    PutBack {
        /// The journal.
        path: PathBuf,
        /// The target.
        target: PathBuf,
        /// From where.
        offset: u64,
        /// How many.
        length: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The target cannot be flushed.
    #[error("{target}: cannot flush; the journal {path} is kept", path = path.display(), target = target.display())]
    Flush {
        /// The journal.
        path: PathBuf,
        /// The target.
        target: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a journal says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(skip)]
    title: Title,
    #[serde(skip)]
    is_dirty: bool,
    target: PathBuf,
    size: u64,
    identity: FileId,
    /// When the target, if it is a file, came into being, where its file system says: an inode's number is used again.
    #[serde(default)]
    born: Option<Duration>,
    /// Which disk it is, if it is a device.
    #[serde(default)]
    disk: Disk,
    /// When the first write could begin, in seconds since 1970: not before the journal had its name.
    began_unix_s: u64,
    areas: Vec<Saved>,
}

/// An area. Every write to it writes what was saved, so the sum of what was saved is that of what was last written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    start: u64,
    length: u64,
    sha256: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Header {
    /// As it stands in the file; `None` when the target's name is too long, or not UTF-8.
    fn encode(&self) -> Option<Vec<u8>> {
        let mut text = self.title.line().into_bytes();
        text.extend(serde_json::to_vec(self).ok()?);
        let sum = hex(&Sha256::digest(&text));
        text.push(b'\n');
        text.extend(sum.as_bytes());
        text.push(b'\n');
        if text.len() > MARK || self.length().is_none() {
            return None;
        }
        text.resize(HEADER, b' ');
        Some(text)
    }

    /// Of a file's first bytes; `None` when they are anything else.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mark = bytes.get(MARK)?;
        let mut lines = bytes[..MARK].split(|byte| *byte == b'\n');
        let (line, text, sum, rest) = (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
        let found = Sha256::new().chain_update(line).chain_update(b"\n").chain_update(text).finalize();
        if sum != hex(&found).as_bytes() || rest.iter().any(|byte| *byte != b' ') {
            return None;
        }
        let mut header: Self = serde_json::from_slice(text).ok()?;
        header.title = Title::decode(line)?;
        header.is_dirty = *mark != b' ';
        let mut seen = BTreeSet::new();
        let is_of_target = |area: &Saved| {
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

    /// The length of the whole file; `None` where that is more than any has.
    fn length(&self) -> Option<u64> {
        let length = self.areas.iter().try_fold(HEADER as u64, |sum, area| sum.checked_add(area.length));
        length.filter(|length| *length <= LONGEST)
    }
}

impl Saved {
    /// Where it is. No two areas of a journal are the same.
    const fn place(&self) -> (u64, u64) {
        (self.start, self.length)
    }

    fn span(&self) -> Option<Span> {
        Span::new(ByteOffset::new(self.start), ByteCount::new(self.length))
    }
}

/// A journal, in as many files as it was added to; they stay until [`remove`](Self::remove) is called.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// What their names begin with: the first is called so, the others have their number behind it.
    stem: String,
    parts: Vec<PathBuf>,
    /// The file to be filled next, with its first line only. While it is there, it is known that none follows.
    next: Option<File>,
    /// The first, locked for as long as the measurement runs, so that no other process takes the journal for that of a dead run.
    lock: Option<Locked>,
}

/// So many areas are in a file; a header has room for them and for a long name.
const AREAS: usize = 64;

/// A locked file. Its lock is given up and not left to the end of the open file, which a program that is just being started has still.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        straddle_device::claim::unlock(&self.0);
    }
}

/// Marks a file of a journal as dirty, durably.
fn mark_dirty(path: &Path) -> io::Result<()> {
    let file = title::open_to_write(path)?;
    Header::read(&file)?.ok_or_else(|| io::Error::other("its beginning is damaged"))?;
    // One byte that is there already: it needs no room.
    file.write_all_at(b"!", MARK as u64)?;
    file.sync_all()
}

/// The file with this number of the journal that is called `stem`.
fn named(folder: &Path, stem: &str, number: u64, suffix: &str) -> PathBuf {
    let name = if number == 0 { stem.to_owned() } else { format!("{stem}.{number}") };
    folder.join(format!("{name}.{suffix}"))
}

/// Makes durable which files are in `folder`.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all())
}

impl Journal {
    /// One of `opened` in `folder`, with nothing in it.
    pub(crate) fn new(folder: &Path, opened: &Opened) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Io { path: folder.to_owned(), what: "make a folder for", source };
        fs::create_dir_all(folder).map_err(failed)?;
        let stem = format!("{PREFIX}{}-{}-{}", opened.id.number(), std::process::id(), now().as_nanos());
        Ok(Self { folder: folder.to_owned(), stem, parts: Vec::new(), next: None, lock: None })
    }

    /// Writes what these areas of `opened` hold to new files, durably.
    pub(crate) fn add(&mut self, opened: &Opened, areas: &[(Span, &[u8])]) -> Result<(), JournalError> {
        for areas in areas.chunks(AREAS) {
            self.add_part(opened, areas)?;
        }
        let failed = |source| JournalError::Io { path: self.folder.clone(), what: "write", source };
        sync_folder(&self.folder).map_err(failed)
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
                // Nothing of these areas has been written yet. The first goes; a later one stays to say that none follows.
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

    /// Writes the next file and gives it its name; the one after it.
    fn fill(&self, file: &File, text: &[u8], areas: &[(Span, &[u8])]) -> io::Result<File> {
        let number = self.parts.len();
        file.write_all_at(text, 0)?;
        let mut at = HEADER as u64;
        for (_, bytes) in areas {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        let next = Title::new(&self.stem, number as u64 + 1).make(&self.named(number + 1, NEW))?;
        // The name vouches for it.
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
        let saved = areas.iter().map(|(span, bytes)| Saved {
            start: span.start().get(),
            length: span.len().get(),
            sha256: hex(&Sha256::digest(bytes)),
        });
        let header = Header {
            title: title.clone(),
            is_dirty: false,
            target: opened.path.canonicalize().map_err(failed)?,
            size: opened.size,
            identity: opened.id,
            born: opened.file.metadata().ok().as_ref().and_then(born),
            disk: Disk::of(opened),
            began_unix_s: now().as_secs(),
            areas: saved.collect(),
        };
        header.encode().ok_or(JournalError::Name { path: header.target })
    }

    /// Where its first file is.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.parts.first().map(PathBuf::as_path)
    }

    /// What was written last may not have reached the medium.
    pub(crate) fn mark_dirty(&self) -> Result<(), JournalError> {
        let failed = |path: &PathBuf, source| JournalError::Io { path: path.clone(), what: "mark", source };
        // One that says so is enough, and the first is there the longest.
        let marked: Vec<_> =
            self.parts.iter().map(|path| mark_dirty(path).map_err(|source| failed(path, source))).collect();
        marked.into_iter().collect()
    }

    /// The target holds what it held.
    pub(crate) fn remove(self) -> Result<(), JournalError> {
        let Some(last) = self.parts.len().checked_sub(1) else { return Ok(()) };
        let end = self.next.is_some().then(|| self.named(last + 1, NEW));
        remove(&self.folder, &self.stem, end.as_deref(), &self.parts)
    }
}

/// Removes the files of the journal `stem`, of which another says that it is no longer needed; at first `end` does not yet.
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
            // Somebody has removed it.
            None => title.make(over).map(drop),
        }
        .map_err(failed(over))?;
    }
    sync_folder(folder).map_err(failed(over))?;
    // The first, which is locked, stays until the others are gone.
    for path in parts.iter().rev().map(PathBuf::as_path).chain([over.as_path()]) {
        title::remove(path, stem).map_err(failed(path))?;
    }
    Ok(())
}

/// When a file came into being, since 1970.
fn born(metadata: &Metadata) -> Option<Duration> {
    let created = metadata.created().ok().filter(|_| metadata.is_file())?;
    created.duration_since(UNIX_EPOCH).ok()
}

/// Whether this may be when the target of `header` came into being.
fn is_of_age(header: &Header, found: Option<Duration>) -> bool {
    header.born.zip(found).is_none_or(|(then, now)| then == now)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests;
