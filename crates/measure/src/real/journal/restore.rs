//! Restores the previous contents of a target whose run did not end.
//!
//! A target is written only after everything that the journal holds has been compared with it. Different bytes come
//! from another program, because a run writes only the previous contents, and are overwritten only if the owner says
//! so. (A sector that was torn by a power cut while the same bytes were written to it is either intact or
//! unreadable.) What is unreadable or equal is written and flushed: a write of the run may have failed, and a cache
//! below the target hides that. The target is written only while no other process has opened it, and reported as
//! restored only after all was read again.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::Advice;
use rustix::io::Errno;
use straddle_units::{Boundary, ByteCount, Span};

use super::{Area, CHUNK, HEADER, Header, JournalError, LINE, Locked, areas, decoded, is_end, read, remove};
use crate::real::memory::Memory;
use crate::real::moment::format_moment;
use crate::real::open::{Access, Io, OpenError, Opened};
use crate::real::others::{Lookout, Others, Seen};
use crate::real::target::{add, differing};

/// Attempts to read a unit: errors of drives and cables may be transient.
const TRIES: u32 = 2;

/// What happens to what another program has written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterWrites {
    /// It stays, and the journal with it.
    Keep,
    /// It is overwritten with what was there before.
    Overwrite,
}

/// The outcome of restoring from a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The target holds its previous contents, and the journal has been removed.
    Whole {
        /// The target.
        target: PathBuf,
        /// Bytes that differed or could not be read.
        bytes: u64,
    },
    /// Another program has written to the target since the run. That was left alone, and the journal is kept.
    Changed {
        /// The target.
        target: PathBuf,
        /// Where.
        spans: Vec<Span>,
        /// Unreadable spans in the same areas, which were left alone as well.
        unreadable: Vec<Span>,
        /// Bytes elsewhere that could not be read, and were written back.
        bytes: u64,
        /// The earliest time of the run's first write, as text.
        began: String,
    },
    /// The journal was never complete: nothing had been written to the target. It has been removed.
    Incomplete,
    /// The run to which the journal belongs is still running, or another process restores it.
    Running,
    /// The journal no longer exists: its run has ended, or another process has restored it.
    Gone,
}

/// Restores what the journal at `path` holds. Removes it if the target has its previous contents.
///
/// # Errors
///
/// The journal is kept. Part of the target may have been restored.
pub fn restore(path: &Path, later: LaterWrites) -> Result<Restored, JournalError> {
    let failed = |what| move |source| JournalError::Io { path: path.to_owned(), what, source };
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::Gone),
        file => file.map_err(failed("open"))?,
    };
    let Some(file) = Locked::of(file).map_err(failed("lock"))? else { return Ok(Restored::Running) };
    if file.is_gone().map_err(failed("read"))? {
        return Ok(Restored::Gone);
    }
    let file = &file.0;
    if is_end(&read(file, HEADER, LINE).map_err(failed("read"))?) {
        remove(path)?;
        return Ok(Restored::Incomplete);
    }
    let Some(header) = decoded::<Header>(&read(file, 0, HEADER).map_err(failed("read"))?) else {
        return Err(set_aside(
            path,
            "the header of the journal cannot be read, so its target is unknown".to_owned(),
        ));
    };
    let areas = areas(file, &header).map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => set_aside(path, format!("{source}, of {}", header.target.display())),
        _ => failed("read")(source),
    })?;
    let opened = open(&header).map_err(|source| JournalError::Open { path: path.to_owned(), source })?;
    if let Some(what) = header.difference(&opened) {
        return Err(JournalError::OtherTarget { path: path.to_owned(), target: header.target, what });
    }
    let lookout = Others::of(&opened, Access::Claim)
        .map_err(|(what, error)| {
            format!("cannot watch for other programs opening {}: {error}", what.display())
        })
        .and_then(|others| Lookout::over(&opened, others))
        .map_err(|by| in_use(&opened, path, by))?;
    let (header, areas, opened) = (&header, &areas[..], &opened);
    let restored = Restoring { path, file, header, areas, opened, later, lookout }.run()?;
    if matches!(restored, Restored::Whole { .. }) {
        remove(path)?;
    }
    Ok(restored)
}

/// Past the page cache, if possible: the cache fails a whole page for one bad sector, and keeps a page whose write
/// has failed as if it had been written.
fn open(header: &Header) -> Result<Opened, OpenError> {
    match Opened::open(&header.target, Access::Claim, Io::Direct) {
        Err(OpenError::NoDirect { path }) => Opened::open(&path, Access::Claim, Io::Buffered),
        opened => opened,
    }
}

fn set_aside(path: &Path, what: String) -> JournalError {
    let (path, renamed) = (path.to_owned(), path.with_extension("damaged"));
    match fs::rename(&path, &renamed) {
        Ok(()) => JournalError::Damaged { path, what, renamed },
        Err(source) => JournalError::Io { path, what: "rename", source },
    }
}

#[derive(Default)]
struct Found {
    foreign: Vec<Span>,
    /// Unreadable, in areas where nothing is foreign.
    unreadable: Vec<Span>,
    /// Unreadable, in the others: the journal may not hold the latest contents.
    beside: Vec<Span>,
}

struct Restoring<'a> {
    path: &'a Path,
    file: &'a File,
    header: &'a Header,
    areas: &'a [Area],
    opened: &'a Opened,
    later: LaterWrites,
    lookout: Lookout,
}

impl Restoring<'_> {
    fn run(mut self) -> Result<Restored, JournalError> {
        let mut before = self.compare()?;
        // The comparison no longer holds if another process writes from here on.
        self.nobody_came("compared", 0)?;
        let mut bytes: u64 = before.unreadable.iter().map(|span| span.len().get()).sum();
        if self.later == LaterWrites::Overwrite {
            let others = before.foreign.drain(..).chain(before.beside.drain(..));
            bytes += others.map(|span| span.len().get()).sum::<u64>();
        }
        for area in self.areas {
            let is_foreign = before.foreign.iter().any(|foreign| foreign.overlaps(area.span));
            for piece in area.span.pieces(CHUNK) {
                self.put_back(area, piece, is_foreign)?;
            }
        }
        self.opened.file.sync_all().map_err(|source| self.unflushed(source))?;
        let after = self.compare()?;
        // Written back, and still unreadable: the drive has not stored it.
        if let Some(span) = after.unreadable.first() {
            return Err(self.failed(*span)(Errno::IO.into()));
        }
        self.nobody_came("compared again", CHUNK.get())?;
        let target = self.header.target.clone();
        let left = if after.foreign.is_empty() { before } else { after };
        if left.foreign.is_empty() {
            return Ok(Restored::Whole { target, bytes });
        }
        let began = Duration::from_secs(self.header.began_unix_seconds);
        let began = format_moment(UNIX_EPOCH.checked_add(began).unwrap_or(UNIX_EPOCH));
        Ok(Restored::Changed { target, spans: left.foreign, unreadable: left.beside, bytes, began })
    }

    fn compare(&self) -> Result<Found, JournalError> {
        let mut found = Found::default();
        for area in self.areas {
            let (mut foreign, mut unreadable) = (Vec::new(), Vec::new());
            for piece in area.span.pieces(CHUNK) {
                let then = self.saved(area, piece).map_err(self.failed(piece))?;
                self.compare_piece(piece, then.bytes(), &mut foreign, &mut unreadable)
                    .map_err(self.failed(piece))?;
            }
            if foreign.is_empty() {
                found.unreadable.append(&mut unreadable);
            }
            found.beside.append(&mut unreadable);
            for span in foreign {
                add(&mut found.foreign, span.start().get(), span.len().get());
            }
        }
        Ok(found)
    }

    fn saved(&self, area: &Area, piece: Span) -> io::Result<Memory> {
        let mut memory = Memory::new(usize::try_from(piece.len().get()).unwrap_or(0));
        let at = area.at + (piece.start().get() - area.span.start().get());
        self.file.read_exact_at(memory.bytes_mut(), at)?;
        Ok(memory)
    }

    fn compare_piece(
        &self,
        piece: Span,
        then: &[u8],
        foreign: &mut Vec<Span>,
        unreadable: &mut Vec<Span>,
    ) -> io::Result<()> {
        let mut now = Memory::new(then.len());
        let start = piece.start().get();
        match self.read(now.bytes_mut(), start) {
            Ok(()) => {
                differing(start, now.bytes(), then, foreign);
                return Ok(());
            }
            Err(error) if is_unreadable(&error) => {}
            Err(error) => return Err(error),
        }
        let unit = usize::try_from(self.opened.sector).unwrap_or(512);
        for (at, (now, then)) in
            (start..).step_by(unit).zip(now.bytes_mut().chunks_mut(unit).zip(then.chunks(unit)))
        {
            let mut read = self.read(now, at);
            for _ in 1..TRIES {
                if read.as_ref().is_err_and(is_unreadable) {
                    read = self.read(now, at);
                }
            }
            match read {
                Ok(()) => differing(at, now, then, foreign),
                Err(error) if is_unreadable(&error) => add(unreadable, at, then.len() as u64),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        if self.opened.io == Io::Buffered {
            let length = NonZeroU64::new(bytes.len() as u64);
            let _ = rustix::fs::fadvise(&self.opened.file, at, length, Advice::DontNeed);
        }
        self.opened.file.read_exact_at(bytes, at)
    }

    /// Flushes the piece. Leaves out foreign data that is to stay and, in an area with such data, what cannot be
    /// read.
    fn put_back(&mut self, area: &Area, piece: Span, is_foreign: bool) -> Result<(), JournalError> {
        let then = self.saved(area, piece).map_err(self.failed(piece))?;
        let (mut foreign, mut unreadable) = (Vec::new(), Vec::new());
        if self.later == LaterWrites::Keep {
            self.compare_piece(piece, then.bytes(), &mut foreign, &mut unreadable)
                .map_err(self.failed(piece))?;
            if is_foreign || !foreign.is_empty() {
                foreign.append(&mut unreadable);
            }
        }
        let unit = Boundary::multiples_of(ByteCount::new(self.opened.sector));
        let whole = |span: Span| Span::between(unit?.floor(span.start())?, unit?.ceil(span.end())?);
        let kept = foreign.into_iter().filter_map(whole);
        for span in piece.gaps(kept) {
            self.nobody_came("restored", CHUNK.get())?;
            let at = |offset: u64| usize::try_from(offset - piece.start().get()).unwrap_or(usize::MAX);
            let bytes = &then.bytes()[at(span.start().get())..at(span.end().get())];
            self.opened.write_inside(bytes, span.start().get()).map_err(self.failed(span))?;
            // One piece at a time: after a disturbance, nothing is written any more.
            self.opened.file.sync_data().map_err(|source| self.unflushed(source))?;
        }
        Ok(())
    }

    /// Fails if another program has opened the target, with at most `under_way` bytes on their way.
    fn nobody_came(&mut self, done: &str, under_way: u64) -> Result<(), JournalError> {
        if self.lookout.look(&self.opened.file) == Seen::Nobody {
            return Ok(());
        }
        let lost = if self.lookout.has_made_wait() || under_way == 0 {
            String::new()
        } else {
            format!(
                "; at most {under_way} bytes that the program wrote in that time may have been overwritten"
            )
        };
        let tried = if self.lookout.is_kept() { ", or tried to," } else { "" };
        let by = format!("another program opened the target{tried} while it was being {done}{lost}");
        Err(in_use(self.opened, self.path, by))
    }

    fn unflushed(&self, source: io::Error) -> JournalError {
        JournalError::Flush { path: self.path.to_owned(), target: self.opened.path.clone(), source }
    }

    fn failed(&self, span: Span) -> impl Fn(io::Error) -> JournalError + use<> {
        let (path, target) = (self.path.to_owned(), self.header.target.clone());
        let (offset, length) = (span.start().get(), span.len().get());
        move |source| JournalError::PutBack {
            path: path.clone(),
            target: target.clone(),
            offset,
            length,
            source,
        }
    }
}

fn in_use(opened: &Opened, journal: &Path, by: String) -> JournalError {
    let source = OpenError::InUse { path: opened.path.clone(), by };
    JournalError::Open { path: journal.to_owned(), source }
}

fn is_unreadable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::ILSEQ | Errno::NODATA))
}
