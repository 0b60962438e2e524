//! Compares a journal file with its target, and writes its contents back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use straddle_device::FileId;
use straddle_units::Span;

use super::LaterWrites;
use super::put::Guard;
use crate::real::journal::sectors::{Ways, is_unreadable};
use crate::real::journal::{HEADER, Header, JournalError, title};
use crate::real::memory::Memory;
use crate::real::target::{add, differing};

/// Bytes that are read or written at a time.
pub(super) const CHUNK: u64 = 1 << 20;

/// Where the target differs from the journal, or may.
#[derive(Default)]
pub(super) struct Found {
    /// The drive cannot read these.
    pub(super) unreadable: Vec<Span>,
    /// Unreadable as well, but in an area where other programs have written, so the journal may not hold the
    /// latest contents.
    pub(super) beside: Vec<Span>,
    /// These have other contents.
    pub(super) foreign: Vec<Span>,
    /// These are equal, perhaps only in a cache below the target: the run may have died of a write that failed.
    pub(super) equal: Vec<Span>,
}

impl Found {
    /// The spans to write, in this order.
    pub(super) fn to_write(&self) -> impl Iterator<Item = &Span> {
        self.unreadable.iter().chain(&self.foreign).chain(&self.equal)
    }
}

/// A file of a journal that has passed its checks.
pub(super) struct Checked {
    pub(super) path: PathBuf,
    /// Identifies the file when it is opened again.
    pub(super) id: FileId,
    pub(super) header: Header,
}

impl Checked {
    /// Opens the file again: a journal may have more files than a process can have open.
    fn open(&self) -> io::Result<File> {
        let file = title::open(&self.path)?;
        if FileId::of_open(&file)? != self.id {
            return Err(io::Error::other("the journal has been replaced"));
        }
        Ok(file)
    }

    /// Compares every area, and writes nothing.
    pub(super) fn compare(&self, ways: &Ways<'_>, later: LaterWrites) -> Result<Found, JournalError> {
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
            let is_beside = !foreign.is_empty() && later == LaterWrites::Keep;
            if !is_beside {
                let taken = unreadable.iter().chain(&foreign).copied();
                found.equal.extend(area.span().map(|area| area.gaps(taken)).unwrap_or_default());
            }
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

    /// Writes the journal's contents to the spans in `found`, and adds the number of bytes that differed to
    /// `bytes`.
    pub(super) fn back(
        &self,
        ways: &Ways<'_>,
        found: &Found,
        guard: &mut Guard<'_>,
        bytes: &mut u64,
    ) -> Result<(), JournalError> {
        let Some(first) = found.to_write().next() else { return Ok(()) };
        let file =
            self.open().map_err(|source| self.failed(first.start().get(), first.len().get(), source))?;
        let sectors = ways.sectors(first.start().get());
        let differing = found.unreadable.iter().chain(&found.foreign).map(|span| (span, false));
        let equal = found.equal.iter().map(|span| (span, true));
        for (span, is_equal) in differing.chain(equal) {
            let (start, length) = (span.start().get(), span.len().get());
            // A span may continue into an adjacent area of the target, which may be elsewhere in the journal.
            pieces(length, |from, then| {
                let at = start + from;
                let length = then.len() as u64;
                let failed = |source| self.failed(at, length, source);
                self.saved(&file, at, then).map_err(failed)?;
                guard.nobody_came("restored", CHUNK)?;
                // If it has changed since it was compared, the second comparison reports it.
                if is_equal && !is_still(ways, at, then).map_err(failed)? {
                    return Ok(());
                }
                sectors.write(then, at).map_err(failed)?;
                // One piece at a time: after a disturbance, nothing is written any more.
                ways.opened.file.sync_data().map_err(|source| guard.unflushed(source))
            })?;
        }
        *bytes += found.unreadable.iter().chain(&found.foreign).map(|span| span.len().get()).sum::<u64>();
        Ok(())
    }

    /// Reads the journal's contents for the target from byte `start` on.
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

/// Whether the target, from byte `start` on, holds `then`, or cannot be read.
fn is_still(ways: &Ways<'_>, start: u64, then: &[u8]) -> io::Result<bool> {
    let mut now = Memory::new(then.len());
    match ways.read(now.bytes_mut(), start) {
        Ok(()) => Ok(now.bytes() == then),
        Err(error) if is_unreadable(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Adds where the target, from byte `start` on, cannot be read or differs from `then`.
fn compare_piece(
    ways: &Ways<'_>,
    start: u64,
    then: &[u8],
    unreadable: &mut Vec<Span>,
    foreign: &mut Vec<Span>,
) -> io::Result<()> {
    let mut now = Memory::new(then.len());
    match ways.read(now.bytes_mut(), start) {
        Ok(()) => {
            differing(start, now.bytes(), then, foreign);
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

/// Calls `of` for each chunk of `length` bytes, with its offset and a buffer of its size.
pub(super) fn pieces<E>(length: u64, mut of: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
    let mut buffer = vec![0; usize::try_from(length.min(CHUNK)).unwrap_or(0)];
    let mut from = 0;
    while from < length {
        let part = usize::try_from((length - from).min(CHUNK)).unwrap_or(0);
        of(from, &mut buffer[..part])?;
        from += part as u64;
    }
    Ok(())
}
