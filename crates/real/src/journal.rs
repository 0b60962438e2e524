//! What a target held, on another file, until the measurement is over.
//!
//! The law of this module: nothing of the target is written before the journal of its areas is complete and durable, and a
//! journal goes only when the target has been seen to hold what it held. One that does not pass its checks is never used.
//!
//! The file: a line of JSON ([`Header`]), padded with blanks to 4096 bytes; then each area's bytes, one after the other; then
//! eight bytes: `STRADDLE`, which say that it is complete. Each area has its CRC-32 in the header.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use straddle_units::Span;

use crate::open::{Access, Io, OpenError, Opened};

const MAGIC: &str = "straddle-journal-1";
const HEADER: usize = 4096;
const COMPLETE: &[u8; 8] = b"STRADDLE";
const SUFFIX: &str = "journal";
/// So much is copied at a time.
const CHUNK: u64 = 1 << 20;

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
    /// It is no journal, or a damaged one.
    #[error("{path}: {what}", path = path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The target is no longer the one that was measured.
    #[error("{path}: the journal is of another {target}: {what}", path = path.display(), target = target.display())]
    OtherTarget {
        /// The journal.
        path: PathBuf,
        /// The target.
        target: PathBuf,
        /// What differs.
        what: String,
    },
    /// The target cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The target cannot be written.
    #[error("{target}: cannot put back {length} bytes at byte {offset}; the journal {path} is kept", path = path.display(), target = target.display())]
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
}

/// What a journal says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    magic: String,
    target: PathBuf,
    size: u64,
    /// Device and inode of a file, the device's own number of a block device: what `stat` said.
    identity: (u64, u64),
    areas: Vec<Saved>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    start: u64,
    length: u64,
    crc32: u32,
}

/// A complete journal; it stays until [`remove`](Self::remove) is called.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Locked for as long as the measurement runs, so that nobody takes the journal for a dead one's.
    _file: File,
}

impl Journal {
    /// Writes what the areas of `opened` hold to a new file in `folder`, durably.
    pub fn write(folder: &Path, opened: &Opened, areas: &[(Span, &[u8])]) -> Result<Self, JournalError> {
        let failed = |path: &Path, what| {
            let path = path.to_owned();
            move |source| JournalError::Io { path, what, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder, "make a folder for"))?;
        let target = opened.path.canonicalize().map_err(failed(&opened.path, "name"))?;
        let saved = areas.iter().map(|(span, bytes)| Saved {
            start: span.start().get(),
            length: span.len().get(),
            crc32: crc32fast::hash(bytes),
        });
        let identity = identity(&opened.file).map_err(failed(&target, "name"))?;
        let header =
            Header { magic: MAGIC.to_owned(), target, size: opened.size, identity, areas: saved.collect() };
        let mut text = serde_json::to_vec(&header).map_err(|error| failed(folder, "write")(error.into()))?;
        if text.len() > HEADER {
            let what = format!("{} areas are more than a journal holds", areas.len());
            return Err(JournalError::Damaged { path: folder.to_owned(), what });
        }
        text.resize(HEADER, b' ');
        let path = folder.join(format!("{}-{}.{SUFFIX}", identity.1, std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed(&path, "make"))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| failed(&path, "lock")(errno.into()))?;
        let mut write = || -> io::Result<()> {
            file.write_all(&text)?;
            for (_, bytes) in areas {
                file.write_all(bytes)?;
            }
            file.sync_all()?;
            // Only behind what it vouches for.
            file.write_all(COMPLETE)?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        };
        match write() {
            Ok(()) => Ok(Self { path, _file: file }),
            Err(source) => {
                // Nothing of the target has been written yet.
                let _ = fs::remove_file(&path);
                Err(JournalError::Io { path, what: "write", source })
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The target holds what it held.
    pub fn remove(self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(|source| JournalError::Io {
            path: self.path,
            what: "remove",
            source,
        })
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    let of_device = metadata.rdev();
    Ok(if of_device == 0 { (metadata.dev(), metadata.ino()) } else { (0, of_device) })
}

/// The target of the journal at `path`, if it can be told.
pub fn target_of(path: &Path) -> Option<PathBuf> {
    let mut file = File::open(path).ok()?;
    header(&mut file).ok().flatten().map(|header| header.target)
}

/// The journals in `folder`, in order of name; none where there is no such folder.
pub fn pending(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX)).collect();
    paths.sort();
    paths
}

/// What came of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The target holds what it held; so many bytes had to be put back.
    Whole {
        /// The target.
        target: PathBuf,
        /// Bytes that differed.
        bytes: u64,
    },
    /// The journal was not complete, so nothing had been written: it is gone.
    Incomplete,
    /// The measurement that the journal belongs to is still running.
    Running,
}

/// Puts back what the journal at `path` holds, and removes it.
pub fn restore(path: &Path) -> Result<Restored, JournalError> {
    let failed = |what| {
        let path = path.to_owned();
        move |source| JournalError::Io { path, what, source }
    };
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default())
        .open(path)
        .map_err(failed("open"))?;
    let damaged = |what: &str| JournalError::Damaged { path: path.to_owned(), what: what.to_owned() };
    if !file.metadata().map_err(failed("read"))?.is_file() {
        return Err(damaged("not a file"));
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Restored::Running),
        Err(errno) => return Err(failed("lock")(errno.into())),
    }
    let Some(header) = header(&mut file).map_err(failed("read"))? else {
        return given_up(path, damaged("not a journal of straddle"), &file);
    };
    let length = header.areas.iter().try_fold(HEADER as u64, |sum, area| sum.checked_add(area.length));
    let end = length.ok_or_else(|| damaged("its areas are larger than any file"))?;
    let mut mark = [0; COMPLETE.len()];
    if file.read_exact_at(&mut mark, end).is_err() || mark != *COMPLETE {
        fs::remove_file(path).map_err(failed("remove"))?;
        return Ok(Restored::Incomplete);
    }
    let opened = Opened::open(&header.target, Access::Claim, Io::Buffered)?;
    let other = |what: String| JournalError::OtherTarget {
        path: path.to_owned(),
        target: header.target.clone(),
        what,
    };
    if identity(&opened.file).map_err(failed("compare"))? != header.identity {
        return Err(other("it has been replaced".to_owned()));
    }
    if opened.size != header.size {
        return Err(other(format!("{} bytes, then {}", opened.size, header.size)));
    }
    check(&file, &header).map_err(failed("read"))?.map_or(Ok(()), |what| Err(damaged(&what)))?;
    let bytes = put_back(path, &file, &header, &opened)?;
    fs::remove_file(path).map_err(failed("remove"))?;
    Ok(Restored::Whole { target: header.target, bytes })
}

/// A file that has not even a header: an interrupted first write of ours, or somebody else's.
fn given_up(path: &Path, error: JournalError, file: &File) -> Result<Restored, JournalError> {
    let length = file.metadata().map_or(u64::MAX, |metadata| metadata.len());
    if length > HEADER as u64 {
        return Err(error);
    }
    fs::remove_file(path).map_err(|source| JournalError::Io {
        path: path.to_owned(),
        what: "remove",
        source,
    })?;
    Ok(Restored::Incomplete)
}

fn header(file: &mut File) -> io::Result<Option<Header>> {
    let mut text = Vec::with_capacity(HEADER);
    file.take(HEADER as u64).read_to_end(&mut text)?;
    let header: Option<Header> = serde_json::from_slice(&text).ok();
    Ok(header.filter(|header| header.magic == MAGIC))
}

/// What is wrong with the areas' bytes, all of them, before any is used.
fn check(file: &File, header: &Header) -> io::Result<Option<String>> {
    let mut at = HEADER as u64;
    for (index, area) in header.areas.iter().enumerate() {
        let mut crc = crc32fast::Hasher::new();
        pieces(area.length, |from, buffer| {
            file.read_exact_at(buffer, at + from)?;
            crc.update(buffer);
            Ok(())
        })?;
        if crc.finalize() != area.crc32 {
            return Ok(Some(format!("area {index} has another checksum: the journal is damaged")));
        }
        if area.start.checked_add(area.length).is_none_or(|end| end > header.size) {
            return Ok(Some(format!("area {index} is past the end of the target")));
        }
        at += area.length;
    }
    Ok(None)
}

fn put_back(path: &Path, file: &File, header: &Header, opened: &Opened) -> Result<u64, JournalError> {
    let (mut at, mut bytes) = (HEADER as u64, 0);
    for area in &header.areas {
        let result = pieces(area.length, |from, then| {
            file.read_exact_at(then, at + from)?;
            let mut now = vec![0; then.len()];
            opened.file.read_exact_at(&mut now, area.start + from)?;
            let differing = now.iter().zip(&*then).filter(|(now, then)| now != then).count();
            if differing > 0 {
                bytes += differing as u64;
                opened.file.write_all_at(then, area.start + from)?;
            }
            Ok(())
        });
        result.and_then(|()| opened.file.sync_all()).map_err(|source| JournalError::PutBack {
            path: path.to_owned(),
            target: header.target.clone(),
            offset: area.start,
            length: area.length,
            source,
        })?;
        at += area.length;
    }
    Ok(bytes)
}

/// Calls `of` for each part of `length` bytes, with where it begins and a buffer of its size.
fn pieces(length: u64, mut of: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(length.min(CHUNK)).unwrap_or(0)];
    let mut from = 0;
    while from < length {
        let part = usize::try_from((length - from).min(CHUNK)).unwrap_or(0);
        of(from, &mut buffer[..part])?;
        from += part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
