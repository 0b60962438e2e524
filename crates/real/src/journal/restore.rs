//! Puts back what a run that did not end has left.
//!
//! The law of this module: a target is written only where its drive gives no bytes at all, or where its owner says that what
//! is there now may go. A run writes nothing but what was there, so what reads otherwise was written by somebody else: a
//! sector that a power cut tore while the same bytes were written to it is whole, or it cannot be read.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use straddle_units::Span;

use super::{DAMAGED, HEADER, Header, JournalError, NEW, first_of, hex};
use crate::moment::told_moment;
use crate::open::{Access, Io, OpenError, Opened};
use crate::target::{add, differing};

/// So much is read at a time.
const CHUNK: u64 = 1 << 20;
/// Where that fails, pieces of this size are tried: no physical sector of a disk is larger.
const PIECE: usize = 4096;

/// What came of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The target holds what it held, and the journal is gone.
    Whole {
        /// The target.
        target: PathBuf,
        /// Bytes that had to be put back.
        bytes: u64,
    },
    /// Somebody has written to the target since. That was left alone; the journal is kept.
    Changed {
        /// The target.
        target: PathBuf,
        /// Where, rising.
        spans: Vec<Span>,
        /// Bytes that could not be read, and were put back.
        bytes: u64,
        /// When the run could begin to write, in words.
        began: String,
    },
    /// The journal was never complete, so nothing had been written: it is gone.
    Incomplete,
    /// The measurement that the journal belongs to is still running.
    Running,
}

/// Puts back what the journal at `path` holds, and removes it. With `force` also where somebody has written since.
pub fn restore(path: &Path, force: bool) -> Result<Restored, JournalError> {
    let failed = |what| {
        let path = path.to_owned();
        move |source| JournalError::Io { path, what, source }
    };
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed("open"))?;
    let metadata = file.metadata().map_err(failed("read"))?;
    if !metadata.is_file() {
        return Err(failed("read")(io::Error::other("not a file")));
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Restored::Running),
        Err(errno) => return Err(failed("lock")(errno.into())),
    }
    if is_running(path) {
        return Ok(Restored::Running);
    }
    // Whoever had it locked may have removed or renamed it.
    if fs::metadata(path).ok().is_none_or(|now| (now.dev(), now.ino()) != (metadata.dev(), metadata.ino())) {
        return Ok(Restored::Running);
    }
    if path.extension().is_some_and(|end| end == NEW) {
        fs::remove_file(path).map_err(failed("remove"))?;
        return Ok(Restored::Incomplete);
    }
    let Some(header) = Header::read(&file).map_err(failed("read"))? else {
        return Err(set_aside(path, "its beginning is damaged, so its target is not known".to_owned()));
    };
    if let Some(what) = damage(&file, &header, metadata.len()).map_err(failed("read"))? {
        let told = format!("{what}; {}", state_of_target(&header));
        return Err(set_aside(path, told));
    }
    let open = |source| JournalError::Open { path: path.to_owned(), source };
    let opened = Opened::open(&header.target, Access::Claim, Io::Buffered).map_err(open)?;
    if let Some(what) = difference(&opened, &header) {
        return Err(JournalError::OtherTarget { path: path.to_owned(), target: header.target, what });
    }
    let put = Put { path, file: &file, header: &header, opened: &opened };
    let mut found = put.compare()?;
    let foreign = if force { Vec::new() } else { std::mem::take(&mut found.foreign) };
    let bytes = put.back(&found)?;
    let target = header.target.clone();
    if foreign.is_empty() {
        fs::remove_file(path).map_err(failed("remove"))?;
        return Ok(Restored::Whole { target, bytes });
    }
    let began =
        told_moment(UNIX_EPOCH.checked_add(Duration::from_secs(header.began_unix_s)).unwrap_or(UNIX_EPOCH));
    Ok(Restored::Changed { target, spans: foreign, bytes, began })
}

/// Whether the run that a later file of a journal belongs to has the first one locked.
fn is_running(path: &Path) -> bool {
    let Some(first) = first_of(path).filter(|first| first != path) else { return false };
    let Ok(file) = File::open(first) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Gives a damaged journal another name, so that it is in nobody's way and still there.
fn set_aside(path: &Path, what: String) -> JournalError {
    let mut renamed = path.with_extension(DAMAGED);
    for count in 1.. {
        if !renamed.exists() {
            break;
        }
        renamed = path.with_extension(format!("{count}.{DAMAGED}"));
    }
    match fs::rename(path, &renamed) {
        Ok(()) => JournalError::Damaged { path: path.to_owned(), what, renamed },
        Err(source) => JournalError::Io { path: path.to_owned(), what: "rename", source },
    }
}

/// What is wrong with the journal, all of it, before any is used.
fn damage(file: &File, header: &Header, length: u64) -> io::Result<Option<String>> {
    let wanted = header.length().unwrap_or(u64::MAX);
    if length != wanted {
        return Ok(Some(format!("it is damaged: {length} bytes long, and was {wanted}")));
    }
    let mut at = HEADER as u64;
    for area in &header.areas {
        if sum(file, at, area.length)? != area.sha256 {
            return Ok(Some(format!(
                "it is damaged: what it holds of bytes {} to {} has another sum",
                area.start,
                area.start + area.length - 1
            )));
        }
        at += area.length;
    }
    Ok(None)
}

/// What is known of the target of a damaged journal, by the sums of what was last written.
fn state_of_target(header: &Header) -> String {
    let name = header.target.display();
    let opened = match Opened::open(&header.target, Access::Read, Io::Buffered) {
        Ok(opened) => opened,
        Err(error) => return format!("whether its target holds what it held is not known ({error})"),
    };
    if let Some(what) = difference(&opened, header) {
        return format!("{name} is another one now ({what})");
    }
    let is_same = |area: &&super::Saved| {
        sum(&opened.file, area.start, area.length).is_ok_and(|found| found == area.sha256)
    };
    match header.areas.iter().find(|area| !is_same(area)) {
        None => format!("{name} holds what it held"),
        Some(area) => {
            let (start, end) = (area.start, area.start + area.length - 1);
            format!("{name} does not hold what it held: compare bytes {start} to {end}")
        }
    }
}

/// Why what is open is not what was measured.
fn difference(opened: &Opened, header: &Header) -> Option<String> {
    let born = opened.file.metadata().ok().as_ref().and_then(super::born);
    let is_other_disk = header.disk.differs(&super::Disk::of(opened));
    if opened.id != header.identity || !super::is_of_age(header, born) || is_other_disk {
        return Some("it has been replaced".to_owned());
    }
    (opened.size != header.size).then(|| format!("{} bytes, then {}", opened.size, header.size))
}

fn sum(file: &File, start: u64, length: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    pieces(length, |from, buffer| {
        file.read_exact_at(buffer, start + from)?;
        hash.update(buffer);
        Ok(())
    })?;
    Ok(hex(&hash.finalize()))
}

/// Where the target is not as it was.
#[derive(Default)]
struct Found {
    /// Its drive does not give the bytes.
    unreadable: Vec<Span>,
    /// They read otherwise.
    foreign: Vec<Span>,
}

struct Put<'a> {
    path: &'a Path,
    file: &'a File,
    header: &'a Header,
    opened: &'a Opened,
}

impl Put<'_> {
    /// Compares every area, and writes nothing.
    fn compare(&self) -> Result<Found, JournalError> {
        let mut found = Found::default();
        let mut at = HEADER as u64;
        for area in &self.header.areas {
            pieces(area.length, |from, then| {
                self.file.read_exact_at(then, at + from)?;
                self.compare_piece(area.start + from, then, &mut found)
            })
            .map_err(|source| self.failed(area.start, area.length, source))?;
            at += area.length;
        }
        Ok(found)
    }

    fn compare_piece(&self, start: u64, then: &[u8], found: &mut Found) -> io::Result<()> {
        let mut now = vec![0; then.len()];
        match self.opened.file.read_exact_at(&mut now, start) {
            Ok(()) => {
                differing(start, &now, then, &mut found.foreign);
                return Ok(());
            }
            Err(error) if is_unreadable(&error) => {}
            Err(error) => return Err(error),
        }
        let mut at = start;
        for (now, then) in now.chunks_mut(PIECE).zip(then.chunks(PIECE)) {
            match self.opened.file.read_exact_at(now, at) {
                Ok(()) => differing(at, now, then, &mut found.foreign),
                Err(error) if is_unreadable(&error) => add(&mut found.unreadable, at, then.len() as u64),
                Err(error) => return Err(error),
            }
            at += then.len() as u64;
        }
        Ok(())
    }

    /// Writes what was there to all that was found; the number of bytes.
    fn back(&self, found: &Found) -> Result<u64, JournalError> {
        let mut bytes = 0;
        for span in found.unreadable.iter().chain(&found.foreign) {
            let (start, length) = (span.start().get(), span.len().get());
            // A span may reach from one area into the next, whose bytes follow in the journal as well only if it follows here.
            pieces(length, |from, then| {
                self.saved(start + from, then)?;
                self.opened.write_inside(then, start + from)
            })
            .map_err(|source| self.failed(start, length, source))?;
            bytes += length;
        }
        self.opened.file.sync_all().map_err(|source| self.failed(0, self.header.size, source))?;
        Ok(bytes)
    }

    /// What the journal holds of the target from byte `start` on.
    fn saved(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = start + done as u64;
            let mut from = HEADER as u64;
            let area = self.header.areas.iter().find(|area| {
                let is_here = (area.start..area.start + area.length).contains(&at);
                from += if is_here { at - area.start } else { area.length };
                is_here
            });
            let area = area.ok_or_else(|| io::Error::other("not in the journal"))?;
            let rest = usize::try_from(area.start + area.length - at).unwrap_or(usize::MAX);
            let end = bytes.len().min(done.saturating_add(rest));
            self.file.read_exact_at(&mut bytes[done..end], from)?;
            done = end;
        }
        Ok(())
    }

    fn failed(&self, offset: u64, length: u64, source: io::Error) -> JournalError {
        let (path, target) = (self.path.to_owned(), self.header.target.clone());
        JournalError::PutBack { path, target, offset, length, source }
    }
}

/// Whether a drive answered that it cannot give the bytes.
fn is_unreadable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::ILSEQ | Errno::NODATA))
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

impl JournalError {
    /// Whether somebody uses the target: refused, and not failed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Open { source: OpenError::InUse { .. }, .. })
    }
}
