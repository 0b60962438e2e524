//! Puts back what a run that did not end has left.
//!
//! The law of this module: a target is written only where its drive gives no bytes at all, or where its owner says that what
//! is there now may go. A run writes nothing but what was there, so what reads otherwise was written by somebody else: a
//! sector that a power cut tore while the same bytes were written to it is whole, or it cannot be read.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use straddle_units::Span;

use super::left::{self, Left};
use super::{DAMAGED, HEADER, Header, JournalError, NEW, OVER, SUFFIX, hex, remove};
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
        /// Where, rising within each of the journal's files.
        spans: Vec<Span>,
        /// Bytes that could not be read, and were put back.
        bytes: u64,
        /// When the run could begin to write, in words.
        began: String,
    },
    /// What the journal still has is as in `Whole`; it is kept, but for what is damaged.
    Part {
        /// The target, where any file says it.
        target: Option<PathBuf>,
        /// Bytes that had to be put back.
        bytes: u64,
        /// Whether the journal is kept: files of it may turn up.
        is_kept: bool,
    },
    /// The journal was never complete, so nothing had been written: it is gone.
    Incomplete,
    /// The run had ended, and its target held what it held: what was left of the journal is gone.
    Ended,
    /// The measurement that the journal belongs to is still running.
    Running,
}

/// What a journal had, and has no longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Files: the first and, where it is another, the last of each gap.
    pub missing: Vec<(PathBuf, Option<PathBuf>)>,
    /// Files that were found damaged, now and before.
    pub damaged: Vec<PathBuf>,
    /// Whether it is known that no file followed.
    pub has_end: bool,
}

impl Lacks {
    /// Whether every file is there.
    pub fn is_nothing(&self) -> bool {
        self.missing.is_empty() && self.damaged.is_empty() && self.has_end
    }
}

/// No more files than this are named.
const MOST_NAMED: usize = 4;

impl Display for Lacks {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let gap = |(first, last): &(PathBuf, Option<PathBuf>)| match last {
            Some(last) => format!("{} to {} are missing", first.display(), last.display()),
            None => format!("{} is missing", first.display()),
        };
        let missing = self.missing.iter().map(gap);
        let mut told: Vec<String> =
            missing.chain(self.damaged.iter().map(|path| format!("{} is damaged", path.display()))).collect();
        let more = told.len().saturating_sub(MOST_NAMED);
        told.truncate(MOST_NAMED);
        if more > 0 {
            told.push(format!("{more} more places are missing or damaged"));
        }
        if !self.has_end {
            told.push("whether files followed is not known".to_owned());
        }
        out.write_str(&told.join(", "))
    }
}

/// What came of a journal, and why not more.
#[derive(Debug)]
pub struct Settled {
    /// What came of it.
    pub restored: Restored,
    /// What it had, and has no longer.
    pub lacks: Lacks,
    /// What went wrong; then the journal is kept.
    pub errors: Vec<JournalError>,
}

impl From<Restored> for Settled {
    fn from(restored: Restored) -> Self {
        Self { restored, lacks: Lacks::default(), errors: Vec::new() }
    }
}

/// Puts back what a journal holds, and removes it when all of it is there and the target holds that. With `force` also where
/// somebody has written since.
pub fn restore(journal: &Left, force: bool) -> Settled {
    // It is the first that a run keeps locked.
    let first = [(&journal.files, SUFFIX), (&journal.new, NEW)]
        .into_iter()
        .find_map(|(files, suffix)| files.contains(&0).then(|| journal.path(0, suffix)));
    let held = match first.as_deref().map(locked).transpose() {
        Ok(Some(None)) => return Restored::Running.into(),
        Ok(held) => held.flatten(),
        Err(error) => return failed(error, journal.lacks()),
    };
    if journal.is_over || journal.is_beginning() {
        return match remove_rest(journal) {
            Ok(()) if journal.is_over => Restored::Ended.into(),
            Ok(()) => Restored::Incomplete.into(),
            Err(error) => failed(error, journal.lacks()),
        };
    }
    let settled = put_back(journal, held.as_ref().filter(|_| journal.files.contains(&0)), force);
    if !matches!(settled.restored, Restored::Whole { .. } | Restored::Part { is_kept: false, .. }) {
        return settled;
    }
    let end = journal.new.first().map(|number| journal.path(*number, NEW));
    let there = journal.paths().into_iter().filter(|path| path.exists()).collect::<Vec<_>>();
    match remove(&journal.path(0, OVER), end.as_deref(), &there).and_then(|()| remove_rest(journal)) {
        Ok(()) => settled,
        Err(error) => Settled { errors: vec![error], ..settled },
    }
}

fn failed(error: JournalError, lacks: Lacks) -> Settled {
    let restored = Restored::Part { target: None, bytes: 0, is_kept: true };
    Settled { restored, lacks, errors: vec![error] }
}

/// Opens and locks a file of a journal; `None` where somebody else has it locked, or has just removed or renamed it.
fn locked(path: &Path) -> Result<Option<File>, JournalError> {
    let failed = |what| move |source| JournalError::Io { path: path.to_owned(), what, source };
    let file = match left::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed("open"))?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(failed("lock")(errno.into())),
    }
    let metadata = file.metadata().map_err(failed("read"))?;
    let is_same = |now: fs::Metadata| (now.dev(), now.ino()) == (metadata.dev(), metadata.ino());
    Ok(fs::metadata(path).is_ok_and(is_same).then_some(file))
}

/// Removes what there is of a journal that is not needed. The first says longest what it is.
fn remove_rest(journal: &Left) -> Result<(), JournalError> {
    let files = journal.files.iter().map(|number| journal.path(*number, SUFFIX));
    let new = journal.new.iter().rev().map(|number| journal.path(*number, NEW));
    for path in files.rev().chain(new).chain([journal.path(0, OVER)]) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|source| JournalError::Io { path, what: "remove", source })?,
        }
    }
    Ok(())
}

/// Puts back what the files of a journal hold. The first may be open already.
fn put_back(journal: &Left, mut held: Option<&File>, force: bool) -> Settled {
    let mut lacks = journal.lacks();
    let (mut errors, mut all, mut opened) = (Vec::new(), None::<Put>, None);
    for path in journal.paths() {
        let own;
        let file = match held.take() {
            Some(file) => file,
            None => match locked(&path) {
                Ok(Some(file)) => {
                    own = file;
                    &own
                }
                Ok(None) => return Restored::Running.into(),
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            },
        };
        match put_back_file(&path, file, &mut opened, force) {
            Ok(put) => match &mut all {
                Some(all) => all.join(put),
                None => all = Some(put),
            },
            Err(error) => {
                if let JournalError::Damaged { renamed, .. } = &error {
                    lacks.damaged.push(renamed.clone());
                }
                let is_of_target =
                    matches!(error, JournalError::Open { .. } | JournalError::OtherTarget { .. });
                errors.push(error);
                if is_of_target {
                    break;
                }
            }
        }
    }
    let are_damaged = errors.iter().all(|error| matches!(error, JournalError::Damaged { .. }));
    let is_kept = !are_damaged || !lacks.missing.is_empty() || !lacks.has_end;
    let restored = match all {
        Some(Put { target, foreign, bytes, began }) if !foreign.is_empty() => {
            Restored::Changed { target, spans: foreign, bytes, began }
        }
        Some(Put { target, bytes, .. }) if lacks.is_nothing() && errors.is_empty() => {
            Restored::Whole { target, bytes }
        }
        put => {
            let (target, bytes) = put.map_or((None, 0), |put| (Some(put.target), put.bytes));
            Restored::Part { target, bytes, is_kept }
        }
    };
    Settled { restored, lacks, errors }
}

/// What was done by a journal.
struct Put {
    target: PathBuf,
    /// Where somebody has written since, which was left alone.
    foreign: Vec<Span>,
    /// How many were put back.
    bytes: u64,
    began: String,
}

impl Put {
    fn join(&mut self, mut other: Self) {
        self.foreign.append(&mut other.foreign);
        self.bytes += other.bytes;
    }
}

/// Puts back what a file of a journal holds. The target stays `opened` for the next.
fn put_back_file(
    path: &Path,
    file: &File,
    opened: &mut Option<Opened>,
    force: bool,
) -> Result<Put, JournalError> {
    let failed = |source| JournalError::Io { path: path.to_owned(), what: "read", source };
    let Some(header) = Header::read(file).map_err(failed)? else {
        return Err(set_aside(path, "its beginning is damaged, so its target is not known".to_owned()));
    };
    let length = file.metadata().map_err(failed)?.len();
    if let Some(what) = damage(file, &header, length).map_err(failed)? {
        let told = format!("{what}; {}", state_of_target(&header));
        return Err(set_aside(path, told));
    }
    let open = |source| JournalError::Open { path: path.to_owned(), source };
    let opened = match opened.take().filter(|opened| opened.path == header.target) {
        Some(same) => opened.insert(same),
        None => opened.insert(Opened::open(&header.target, Access::Claim, Io::Buffered).map_err(open)?),
    };
    if let Some(what) = difference(opened, &header) {
        return Err(JournalError::OtherTarget { path: path.to_owned(), target: header.target, what });
    }
    let put = Saved { path, file, header: &header, opened };
    let mut found = put.compare()?;
    let foreign = if force { Vec::new() } else { std::mem::take(&mut found.foreign) };
    let bytes = put.back(&found)?;
    let began =
        told_moment(UNIX_EPOCH.checked_add(Duration::from_secs(header.began_unix_s)).unwrap_or(UNIX_EPOCH));
    Ok(Put { target: header.target, foreign, bytes, began })
}

/// Gives a damaged journal another name, so that it is in nobody's way and still there.
fn set_aside(path: &Path, what: String) -> JournalError {
    let mut renamed = path.with_extension(DAMAGED);
    for count in 1.. {
        if !renamed.exists() {
            break;
        }
        renamed = path.with_extension(format!("{DAMAGED}-{count}"));
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

/// A file of a journal, and what it is of.
struct Saved<'a> {
    path: &'a Path,
    file: &'a File,
    header: &'a Header,
    opened: &'a Opened,
}

impl Saved<'_> {
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
