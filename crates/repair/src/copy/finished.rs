//! Copies that were cut off after their table was written.
//!
//! The law of this module: it never writes to a disk that has the table of the plan. Such a disk is the finished
//! copy only if every byte that was copied reads as the source has it; otherwise it has been used since.

use std::io;

use straddle_device::ioctl::IoctlError;
use straddle_device::{Medium, ReadError};
use straddle_layout::read_stack;
use straddle_relocate::{Bad, Move, filler};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::gap::Lead;
use super::work::{SECTOR, Work, windows};
use super::{Copy, CopyError, Source};
use crate::apply::differing;
use crate::fingerprint::bytes_of;
use crate::foresee::{difference, lay_over};
use crate::realign::{Which, record};
use crate::target::{Disk, Identity};

impl Copy {
    /// Whether `disk` has the table of this plan, and what boot loaders keep before the first partition.
    pub(super) fn has_table(&self, disk: &dyn Disk, lead: &Lead) -> Result<bool, CopyError> {
        let stack = read_stack(disk, Some(self.plan.block()), None)?;
        if difference(&stack, self.plan.table()).is_some() {
            return Ok(false);
        }
        for (at, core) in lead.core() {
            let mut found = vec![0; core.len()];
            disk.read_at(at, &mut found)?;
            if found != core {
                return Ok(false);
            }
        }
        Ok(differing(disk, &self.steps(disk, lead)?)?.is_none())
    }

    /// Compares all that was copied with the source; `None` if that was stopped, else what had to be skipped.
    pub(super) fn compare(&self, work: &mut Work<'_, '_>) -> Result<Option<Vec<Bad>>, CopyError> {
        let mut expected = Expected::of(work.source, &self.extents);
        for (number, reference) in &self.references {
            let entry = self.plan.table().partitions.iter().find(|entry| entry.number == *number);
            let Some(place) = entry.and_then(|entry| self.plan.span(entry)) else { continue };
            record(&mut expected, place, reference, Which::New)?;
        }
        let changes = expected.changes;
        let mut buffer = Vec::new();
        for (from, to) in self.extents.iter().copied().flat_map(windows) {
            work.read(from, to, &mut buffer)?;
            for (at, bytes) in &changes {
                lay_over(&mut buffer, to.get(), bytes, at.get());
            }
            let span = Span::new(to, from.len()).ok_or(CopyError::TooLarge)?;
            work.disk.drop_cache(span);
            let found = bytes_of(work.disk, span)?;
            if found != buffer {
                compare_sectors(work, (from, to), &buffer, &found)?;
            }
            if work.advance(from.len()) {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut work.bad)))
    }
}

/// What differs may only be the filler of a sector that could not be read then.
fn compare_sectors(
    work: &mut Work<'_, '_>,
    (from, to): (Span, ByteOffset),
    expected: &[u8],
    found: &[u8],
) -> Result<(), CopyError> {
    let mut offset = ByteCount::ZERO;
    for (expected, found) in expected.chunks(SECTOR).zip(found.chunks(SECTOR)) {
        let len = ByteCount::new(found.len() as u64);
        let at = from.start().checked_add(offset).ok_or(CopyError::TooLarge)?;
        let place = to.checked_add(offset).ok_or(CopyError::TooLarge)?;
        if expected != found {
            if found != &filler(at)[..found.len()] {
                return Err(CopyError::Used { at: place });
            }
            work.list(Bad { from: Span::new(at, len).ok_or(CopyError::TooLarge)?, to: place });
        }
        offset = offset.checked_add(len).ok_or(CopyError::TooLarge)?;
    }
    Ok(())
}

/// The bytes of the source in their new places, with a list of what is written over them.
struct Expected<'s> {
    source: &'s Source<'s>,
    extents: &'s [Move],
    changes: Vec<(ByteOffset, Vec<u8>)>,
    identity: Identity,
}

impl<'s> Expected<'s> {
    fn of(source: &'s Source<'s>, extents: &'s [Move]) -> Self {
        Self { source, extents, changes: Vec::new(), identity: Identity::default() }
    }
}

impl Medium for Expected<'_> {
    fn len(&self) -> ByteCount {
        let end = self.extents.iter().filter_map(|one| one.destination()).map(|span| span.end().get()).max();
        ByteCount::new(end.unwrap_or_default())
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let past_end = ReadError::PastEnd { at, want: buf.len(), len: self.len().get() };
        let wanted = Span::new(at, ByteCount::new(buf.len() as u64));
        let whole =
            |one: &&Move| wanted.is_some_and(|it| one.destination().is_some_and(|to| to.contains(it)));
        let Some(one) = self.extents.iter().find(whole) else { return Err(past_end) };
        let from = at.checked_since(one.to).and_then(|offset| one.from.start().checked_add(offset));
        self.source.medium().read_at(from.ok_or(past_end)?, buf)?;
        for (start, bytes) in &self.changes {
            lay_over(buf, at.get(), bytes, start.get());
        }
        Ok(())
    }
}

impl Disk for Expected<'_> {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.changes.push((at, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        None
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn drop_cache(&self, _: Span) {}

    fn prefetch(&self, _: Span) {}

    fn holes(&self, _: Span) -> Vec<Span> {
        Vec::new()
    }

    fn punch(&mut self, _: Span) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
