//! Compares what a journal holds with its target, and puts it back.
//!
//! The law of this module: it writes only while nobody else has come, which is asked before each write, and says that the target
//! holds what it held only where that was read after the last one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use straddle_device::FileId;
use straddle_units::Span;

use super::check::Check;
use super::{CHUNK, Restored, Settled, pieces};
use crate::journal::left::Left;
use crate::journal::sectors::{Ways, is_unreadable};
use crate::journal::{HEADER, Header, JournalError, title};
use crate::lookout::{Lookout, Readers};
use crate::moment::told_moment;
use crate::open::{Access, OpenError, Opened};
use crate::others::{Others, Seen};
use crate::target::{add, differing};

/// Puts back what the files of a journal hold: when all of them have been checked, and all has been compared.
pub(super) fn put_back(journal: &Left, force: bool) -> Settled {
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

/// Compares what the files of a journal hold with the target; when that is done, puts it back, and compares again. `None` where there
/// are no files, or anything went wrong before the first write.
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
    let ways = Ways::to(opened);
    let mut guard = Guard::over(opened, &first.path).map_err(|error| errors.push(error)).ok()?;
    let compare = |force| files.iter().map(|file| file.compare(&ways, force)).collect::<Result<Vec<_>, _>>();
    let compared = compare(force).and_then(|compared| {
        // What they write from here on is theirs, and what has been compared is no longer what is there.
        guard.nobody_came("compared", 0)?;
        Ok(compared)
    });
    let compared = compared.map_err(|error| errors.push(error)).ok()?;
    for (file, mut found) in files.iter().zip(compared) {
        if !force {
            put.foreign.append(&mut found.foreign);
        }
        put.unreadable.append(&mut found.beside);
        if let Err(error) = file.back(&ways, &found, &mut guard, &mut put.bytes) {
            errors.push(error);
            return Some(put);
        }
    }
    if put.bytes > 0 {
        settle(&mut put, compare(force), &mut guard).unwrap_or_else(|error| errors.push(error));
    }
    Some(put)
}

/// Takes what is read when all has been put back for what came of it: others may have come in between.
fn settle(
    put: &mut Put,
    compared: Result<Vec<Found>, JournalError>,
    guard: &mut Guard<'_>,
) -> Result<(), JournalError> {
    let (mut foreign, mut unreadable) = (Vec::new(), Vec::new());
    for found in compared? {
        foreign.extend(found.foreign);
        unreadable.extend(found.beside.into_iter().chain(found.unreadable));
    }
    // What was put back there cannot be read again: the drive has not taken it.
    if foreign.is_empty()
        && let Some(span) = unreadable.first()
    {
        return Err(guard.failed(*span, io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())));
    }
    (put.foreign, put.unreadable) = (foreign, unreadable);
    guard.nobody_came("compared again", CHUNK)
}

/// Keeps others from losing what they write to the target meanwhile.
struct Guard<'a> {
    opened: &'a Opened,
    lookout: Lookout,
    /// A file of the journal, for messages.
    journal: &'a Path,
}

impl<'a> Guard<'a> {
    fn over(opened: &'a Opened, journal: &'a Path) -> Result<Self, JournalError> {
        let in_use = |by| in_use(opened, journal, by);
        let blind = |(what, error): (PathBuf, io::Error)| {
            in_use(format!("others who open {} cannot be noticed: {error}", what.display()))
        };
        let others = Others::of(opened, Access::Claim).map_err(blind)?;
        let lookout = Lookout::over(opened, others, Readers::Allowed).map_err(in_use)?;
        Ok(Self { opened, lookout, journal })
    }

    /// An error where another program has opened the target while it was `done`; bytes on their way then are at most `under_way`.
    fn nobody_came(&mut self, done: &str, under_way: u64) -> Result<(), JournalError> {
        if self.lookout.look(&self.opened.file) == Seen::Nobody {
            return Ok(());
        }
        let lost = match self.lookout {
            Lookout::Watched(_) if under_way > 0 => {
                format!("; of what it writes at the same time, at most {under_way} bytes may be written over")
            }
            // It waits.
            _ => String::new(),
        };
        let by = format!("another program opened it while it was {done}{lost}");
        Err(in_use(self.opened, self.journal, by))
    }

    fn failed(&self, span: Span, source: io::Error) -> JournalError {
        let (path, target) = (self.journal.to_owned(), self.opened.path.clone());
        JournalError::PutBack { path, target, offset: span.start().get(), length: span.len().get(), source }
    }
}

fn in_use(opened: &Opened, journal: &Path, by: String) -> JournalError {
    let source = OpenError::InUse { path: opened.path.clone(), by };
    JournalError::Open { path: journal.to_owned(), source }
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
pub(super) struct Checked {
    pub(super) path: PathBuf,
    /// By which it is known again.
    pub(super) id: FileId,
    pub(super) header: Header,
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

    /// Writes what was there to what cannot be read, and, with `force`, then to all else that was found; adds their number to
    /// `bytes`.
    fn back(
        &self,
        ways: &Ways<'_>,
        found: &Found,
        guard: &mut Guard<'_>,
        bytes: &mut u64,
    ) -> Result<(), JournalError> {
        let Some(first) = found.unreadable.first().or(found.foreign.first()) else { return Ok(()) };
        let file =
            self.open().map_err(|source| self.failed(first.start().get(), first.len().get(), source))?;
        let sectors = found.unreadable.first().map(|span| ways.sectors(span.start().get()));
        let unreadable = found.unreadable.iter().map(|span| (span, sectors.as_ref()));
        for (span, sectors) in unreadable.chain(found.foreign.iter().map(|span| (span, None))) {
            let (start, length) = (span.start().get(), span.len().get());
            // A span may reach from one area into the next, whose bytes follow in the journal as well only if it follows here.
            pieces(length, |from, then| {
                let at = start + from;
                let length = then.len() as u64;
                let failed = |source| self.failed(at, length, source);
                self.saved(&file, at, then).map_err(failed)?;
                guard.nobody_came("put back", CHUNK)?;
                let written = match sectors {
                    Some(sectors) => sectors.write(then, at),
                    None => ways.opened.write_inside(then, at),
                };
                written.map_err(failed)?;
                *bytes += length;
                Ok(())
            })?;
        }
        ways.opened.file.sync_all().map_err(|source| self.failed(first.start().get(), *bytes, source))
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
