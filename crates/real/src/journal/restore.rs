//! Puts back what a run that did not end has left.
//!
//! The law of this module: a target is written only where its drive gives no bytes at all, or where its owner says that what
//! is there now may go, and not before all that the journal holds has been compared with it. A run writes nothing but what was
//! there, so what reads otherwise was written by somebody else: a sector that a power cut tore while the same bytes were written to
//! it is whole, or it cannot be read.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use straddle_device::FileId;
use straddle_units::Span;

use super::left::Left;
use super::sectors::{Ways, is_unreadable};
use super::{DAMAGED, HEADER, Header, JournalError, Locked, NEW, hex, remove, title};
use crate::moment::told_moment;
use crate::open::{Access, Io, OpenError, Opened};
use crate::others::{Others, Seen};
use crate::target::{add, differing};

/// So much is read at a time.
const CHUNK: u64 = 1 << 20;
/// How often a journal is looked at that others remove or add to meanwhile.
const LOOKS: u32 = 16;

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
        /// Beside these, what cannot be read: left alone as well.
        unreadable: Vec<Span>,
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
    /// The measurement that the journal belongs to is still running, or somebody else restores it.
    Running,
    /// It was there, and is no longer: its run has ended, or somebody else has restored it.
    Gone,
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
            None if fs::symlink_metadata(first).is_ok() => {
                format!("{} is not the file that it was", first.display())
            }
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
    for _ in 0..LOOKS {
        let unknown = |source| {
            failed(JournalError::Io { path: journal.stem(), what: "look for", source }, journal.lacks())
        };
        let seen = match journal.again() {
            Ok(Some(seen)) => seen,
            Ok(None) => return Restored::Gone.into(),
            Err(error) => return unknown(error),
        };
        let first = seen.first();
        let held = match first.as_deref().map(locked).transpose() {
            Ok(Some(Lock::Busy)) => return Restored::Running.into(),
            Ok(Some(Lock::Gone)) => continue,
            Ok(Some(Lock::Held(file))) => Some(file),
            Ok(None) => None,
            Err(error) => return failed(error, seen.lacks()),
        };
        // Until it was locked, its run may have added to it.
        let now = match journal.again() {
            Ok(now) => now.filter(|now| now.first() == first),
            Err(error) => return unknown(error),
        };
        if let Some(now) = now {
            let settled = settle(&now, force);
            drop(held);
            return settled;
        }
    }
    Restored::Running.into()
}

/// What comes of a journal that is locked.
fn settle(journal: &Left, force: bool) -> Settled {
    if journal.is_over || journal.is_beginning() {
        return match remove_rest(journal) {
            Ok(()) if journal.is_over => Restored::Ended.into(),
            Ok(()) => Restored::Incomplete.into(),
            Err(error) => failed(error, journal.lacks()),
        };
    }
    let settled = put_back(journal, force);
    if !matches!(settled.restored, Restored::Whole { .. } | Restored::Part { is_kept: false, .. }) {
        return settled;
    }
    let end = journal.new.first().map(|number| journal.path(*number, NEW));
    let (folder, stem) = journal.names();
    match remove(folder, stem, end.as_deref(), &journal.paths()).and_then(|()| remove_rest(journal)) {
        Ok(()) => settled,
        Err(error) => Settled { errors: vec![error], ..settled },
    }
}

fn failed(error: JournalError, lacks: Lacks) -> Settled {
    let restored = Restored::Part { target: None, bytes: 0, is_kept: true };
    Settled { restored, lacks, errors: vec![error] }
}

/// What came of locking.
enum Lock {
    Held(Locked),
    /// Somebody else has it locked.
    Busy,
    /// It was removed or renamed meanwhile.
    Gone,
}

/// Opens and locks a file of a journal.
fn locked(path: &Path) -> Result<Lock, JournalError> {
    let failed = |what| move |source| JournalError::Io { path: path.to_owned(), what, source };
    let file = match title::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lock::Gone),
        file => file.map_err(failed("open"))?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Lock::Busy),
        Err(errno) => return Err(failed("lock")(errno.into())),
    }
    let id = FileId::of_open(&file).map_err(failed("read"))?;
    let is_same = fs::symlink_metadata(path).is_ok_and(|now| FileId::of(&now) == id);
    Ok(if is_same { Lock::Held(Locked(file)) } else { Lock::Gone })
}

/// Removes what there is of a journal that is not needed.
fn remove_rest(journal: &Left) -> Result<(), JournalError> {
    for path in journal.everything() {
        title::remove(&path, journal.names().1).map_err(|source| JournalError::Io {
            path,
            what: "remove",
            source,
        })?;
    }
    Ok(())
}

/// Puts back what the files of a journal hold: when all of them have been checked, and all has been compared.
fn put_back(journal: &Left, force: bool) -> Settled {
    let mut lacks = journal.lacks();
    let (mut errors, mut files) = (Vec::new(), Vec::new());
    let mut check = Check::default();
    for path in journal.paths() {
        match check.file(path) {
            Ok(file) => files.push(file),
            Err(error) => {
                if let JournalError::Damaged { renamed, .. } = &error {
                    lacks.damaged.push(renamed.clone());
                }
                let is_of_target =
                    matches!(error, JournalError::Open { .. } | JournalError::OtherTarget { .. });
                errors.push(error);
                if is_of_target {
                    files.clear();
                    break;
                }
            }
        }
    }
    let put = check.opened.as_ref().and_then(|opened| put_back_files(opened, &files, force, &mut errors));
    let are_damaged = errors.iter().all(|error| matches!(error, JournalError::Damaged { .. }));
    let is_kept = !are_damaged || !lacks.missing.is_empty() || !lacks.has_end;
    let restored = match put {
        Some(Put { target, foreign, unreadable, bytes, began }) if !foreign.is_empty() => {
            Restored::Changed { target, spans: foreign, unreadable, bytes, began }
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
    /// What cannot be read beside that, which was left alone as well.
    unreadable: Vec<Span>,
    /// How many were put back.
    bytes: u64,
    began: String,
}

/// Compares what the files of a journal hold with the target; when that is done, puts it back. `None` where there are no files, or
/// anything went wrong before that.
fn put_back_files(
    opened: &Opened,
    files: &[Checked],
    force: bool,
    errors: &mut Vec<JournalError>,
) -> Option<Put> {
    let first = files.first()?;
    let began = UNIX_EPOCH.checked_add(Duration::from_secs(first.header.began_unix_s)).unwrap_or(UNIX_EPOCH);
    let target = first.header.target.clone();
    let mut put =
        Put { target, foreign: Vec::new(), unreadable: Vec::new(), bytes: 0, began: told_moment(began) };
    let came = |by: String| JournalError::Open {
        path: first.path.clone(),
        source: OpenError::InUse { path: opened.path.clone(), by },
    };
    let blind = |(what, error): (PathBuf, io::Error)| {
        came(format!("others who open {} cannot be noticed: {error}", what.display()))
    };
    let ways = Ways::to(opened);
    let compared = Others::of(opened, Access::Claim).map_err(blind).and_then(|mut others| {
        let compared = files.iter().map(|file| file.compare(&ways, force)).collect::<Result<Vec<_>, _>>()?;
        // What they write from here on is theirs, and what has been compared is no longer what is there.
        match others.users().into_iter().next() {
            Some(by) => Err(came(by)),
            None if others.look() != Seen::Nobody => {
                Err(came("another program opened it while it was compared".to_owned()))
            }
            None => Ok(compared),
        }
    });
    let compared = compared.map_err(|error| errors.push(error)).ok()?;
    for (file, mut found) in files.iter().zip(compared) {
        if !force {
            put.foreign.append(&mut found.foreign);
        }
        put.unreadable.append(&mut found.beside);
        match file.back(&ways, &found) {
            Ok(bytes) => put.bytes += bytes,
            Err(error) => {
                errors.push(error);
                break;
            }
        }
    }
    Some(put)
}

/// What the files of a journal are checked with, one after the other.
#[derive(Default)]
struct Check {
    /// The target, which is that of all.
    opened: Option<Opened>,
    /// The areas so far.
    areas: BTreeSet<(u64, u64)>,
}

impl Check {
    /// A file of a journal, if it is whole, and of the target. What is in it is read last: anybody can write that it is long.
    fn file(&mut self, path: PathBuf) -> Result<Checked, JournalError> {
        let failed = |source| JournalError::Io { path: path.clone(), what: "read", source };
        let file = title::open(&path).map_err(failed)?;
        let Some(header) = Header::read(&file).map_err(failed)? else {
            return Err(set_aside(&path, "its beginning is damaged, so its target is not known".to_owned()));
        };
        let length = file.metadata().map_err(failed)?.len();
        let wanted = header.length().unwrap_or(u64::MAX);
        let damaged = |what: String| Err(set_aside(&path, format!("{what}; {}", state_of_target(&header))));
        if length != wanted {
            return damaged(format!("it is damaged: {length} bytes long, and was {wanted}"));
        }
        let opened = match self.opened.take() {
            Some(opened) => self.opened.insert(opened),
            None => {
                let open = |source| JournalError::Open { path: path.clone(), source };
                self.opened.insert(Opened::open(&header.target, Access::Claim, Io::Buffered).map_err(open)?)
            }
        };
        if let Some(what) = difference(opened, &header) {
            return Err(JournalError::OtherTarget { path, target: header.target, what });
        }
        for area in &header.areas {
            if !self.areas.insert(area.place()) {
                return damaged(format!(
                    "it is damaged: {} are in another file of the journal as well",
                    told(area)
                ));
            }
        }
        if let Some(what) = damage(&file, &header).map_err(failed)? {
            return damaged(what);
        }
        let id = FileId::of_open(&file).map_err(failed)?;
        Ok(Checked { path, id, header })
    }
}

/// Gives a damaged journal another name, so that it is in nobody's way and still there.
fn set_aside(path: &Path, what: String) -> JournalError {
    let mut renamed = path.with_extension(DAMAGED);
    for count in 1.. {
        if fs::symlink_metadata(&renamed).is_err() {
            break;
        }
        renamed = path.with_extension(format!("{DAMAGED}-{count}"));
    }
    match fs::rename(path, &renamed) {
        Ok(()) => JournalError::Damaged { path: path.to_owned(), what, renamed },
        Err(source) => JournalError::Io { path: path.to_owned(), what: "rename", source },
    }
}

/// An area in words.
fn told(area: &super::Saved) -> String {
    format!("bytes {} to {}", area.start, area.start + area.length - 1)
}

/// What is wrong with what the journal holds, all of it, before any is used.
fn damage(file: &File, header: &Header) -> io::Result<Option<String>> {
    let mut at = HEADER as u64;
    for area in &header.areas {
        if sum(file, at, area.length)? != area.sha256 {
            return Ok(Some(format!("it is damaged: what it holds of {} has another sum", told(area))));
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
        Some(area) => format!("{name} does not hold what it held: compare {}", told(area)),
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
        Ok::<(), io::Error>(())
    })?;
    Ok(hex(&hash.finalize()))
}

/// Where the target is not as it was.
#[derive(Default)]
struct Found {
    /// Its drive does not give the bytes.
    unreadable: Vec<Span>,
    /// The same, in an area where others have written: whether that is theirs is not known.
    beside: Vec<Span>,
    /// They read otherwise.
    foreign: Vec<Span>,
}

/// A file of a journal that is whole, and of the target.
struct Checked {
    path: PathBuf,
    /// By which it is known again.
    id: FileId,
    header: Header,
}

impl Checked {
    /// Opens the file again: of a journal in very many files not all can be open.
    fn open(&self) -> io::Result<File> {
        let file = title::open(&self.path)?;
        if FileId::of_open(&file)? != self.id {
            return Err(io::Error::other("the journal has been replaced"));
        }
        Ok(file)
    }

    /// Compares every area, and writes nothing.
    fn compare(&self, ways: &Ways<'_>, force: bool) -> Result<Found, JournalError> {
        let file = self.open().map_err(|source| self.failed(0, 0, source))?;
        let mut found = Found::default();
        let mut at = HEADER as u64;
        for area in &self.header.areas {
            let (mut unreadable, mut foreign) = (Vec::new(), Vec::new());
            pieces(area.length, |from, then| {
                let start = area.start + from;
                file.read_exact_at(then, at + from)
                    .and_then(|()| compare_piece(ways, start, then, &mut unreadable, &mut foreign))
                    .map_err(|source| self.failed(start, then.len() as u64, source))
            })?;
            let is_beside = !foreign.is_empty() && !force;
            let into = if is_beside { &mut found.beside } else { &mut found.unreadable };
            for (spans, into) in [(unreadable, into), (foreign, &mut found.foreign)] {
                for span in spans {
                    add(into, span.start().get(), span.len().get());
                }
            }
            at += area.length;
        }
        Ok(found)
    }

    /// Writes what was there to what cannot be read, and then to all else that was found; the number of bytes.
    fn back(&self, ways: &Ways<'_>, found: &Found) -> Result<u64, JournalError> {
        let Some(first) = found.unreadable.first().or(found.foreign.first()) else { return Ok(0) };
        let file =
            self.open().map_err(|source| self.failed(first.start().get(), first.len().get(), source))?;
        let sectors = found.unreadable.first().map(|span| ways.sectors(span.start().get()));
        let mut bytes = 0;
        let unreadable = found.unreadable.iter().map(|span| (span, sectors.as_ref()));
        for (span, sectors) in unreadable.chain(found.foreign.iter().map(|span| (span, None))) {
            let (start, length) = (span.start().get(), span.len().get());
            // A span may reach from one area into the next, whose bytes follow in the journal as well only if it follows here.
            pieces(length, |from, then| {
                let at = start + from;
                self.saved(&file, at, then)
                    .and_then(|()| match sectors {
                        Some(sectors) => sectors.write(then, at),
                        None => ways.opened.write_inside(then, at),
                    })
                    .map_err(|source| self.failed(at, then.len() as u64, source))
            })?;
            bytes += length;
        }
        ways.opened.file.sync_all().map_err(|source| self.failed(first.start().get(), bytes, source))?;
        Ok(bytes)
    }

    /// What the journal holds of the target from byte `start` on.
    fn saved(&self, file: &File, start: u64, bytes: &mut [u8]) -> io::Result<()> {
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
            file.read_exact_at(&mut bytes[done..end], from)?;
            done = end;
        }
        Ok(())
    }

    fn failed(&self, offset: u64, length: u64, source: io::Error) -> JournalError {
        let (path, target) = (self.path.clone(), self.header.target.clone());
        JournalError::PutBack { path, target, offset, length, source }
    }
}

/// Adds where the target at byte `start` cannot be read, or holds anything else than `then`.
fn compare_piece(
    ways: &Ways<'_>,
    start: u64,
    then: &[u8],
    unreadable: &mut Vec<Span>,
    foreign: &mut Vec<Span>,
) -> io::Result<()> {
    let mut now = vec![0; then.len()];
    match ways.opened.file.read_exact_at(&mut now, start) {
        Ok(()) => {
            differing(start, &now, then, foreign);
            return Ok(());
        }
        Err(error) if is_unreadable(&error) => {}
        Err(error) => return Err(error),
    }
    ways.sectors(start).read(start, then.len(), |at, found| {
        let from = usize::try_from(at - start).unwrap_or(usize::MAX);
        match found {
            Ok(now) => differing(at, now, &then[from..from + now.len()], foreign),
            Err(length) => add(unreadable, at, length as u64),
        }
    })
}

/// Calls `of` for each part of `length` bytes, with where it begins and a buffer of its size.
fn pieces<E>(length: u64, mut of: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
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
