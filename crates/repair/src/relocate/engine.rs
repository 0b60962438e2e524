//! The windows of one direction, written one after the other.
//!
//! [The crate's page](crate) has the argument for the order of the writes.

use std::ops::ControlFlow;

use straddle_units::{ByteCount, Span};

use crate::relocate::bad::{Bad, Skip, listed};
use crate::relocate::disk::Disks;
use crate::relocate::error::{Device, RelocateError};
use crate::relocate::fault::{self, Fault};
use crate::relocate::journal::{Direction, Hash, Hasher, Journal, Kind, Record, hash, in_memory};
use crate::relocate::sequence::{Sequence, Window};
use crate::relocate::shape::{Shape, holes, is_cached, write, write_without};

/// How what was written is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// It is read again from the medium after the flush, and compared with what was read at its source.
    ///
    /// That relies on [`Disk::drop_cache`](crate::relocate::Disk::drop_cache). [`FileAccess`](crate::relocate::FileAccess) drops
    /// the page cache with posix_fadvise(2), not with `O_DIRECT`; the cache of a drive stays.
    #[default]
    Read,
    /// It is not.
    None,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes moved, or moved back.
    pub done: ByteCount,
    /// Bytes that are to be moved in this direction.
    pub total: ByteCount,
    /// Whether it is a rollback.
    pub is_back: bool,
    /// Bytes that could not be read, since the job began.
    pub skipped: ByteCount,
}

/// Receives the progress after each window, and may stop the run there.
pub type Watch<'w> = &'w mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Where a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All windows are durable, and the journal says so.
    End,
    /// The caller stopped it; what was done is durable.
    Paused,
}

/// A run over the windows of one direction.
pub(crate) struct Run<'r> {
    pub(crate) journal: &'r Journal,
    pub(crate) sequence: &'r Sequence,
    pub(crate) direction: Direction,
    pub(crate) verify: Verify,
    /// What is not written, in ascending order: it holds what the windows would bring there.
    pub(crate) kept: &'r [Span],
}

/// What was written for a window: its span, the parts of it that were, and the hash of their bytes.
struct Written {
    span: Span,
    parts: Vec<Span>,
    hash: Hash,
}

/// The last two windows that were written, as far as they are not compared yet.
#[derive(Default)]
struct Behind {
    /// Durable, and its cache is dropped.
    durable: Option<Written>,
    latest: Option<Written>,
}

impl Run<'_> {
    /// Writes the windows from `first` on. Those before are durable.
    pub(crate) fn go(
        &self,
        disks: &mut Disks<'_>,
        skip: &mut Skip,
        first: u64,
        watch: Watch<'_>,
    ) -> Result<Stop, RelocateError> {
        let (count, is_back) = (self.sequence.count(), self.direction == Direction::Back);
        let total = ByteCount::new(self.sequence.bytes(count));
        let mut done = self.sequence.bytes(first);
        let mut buffer = Vec::new();
        let mut behind = Behind::default();
        for index in first..count {
            let shape = Shape::new(self.sequence.window(index));
            self.step(disks, &shape, index, &mut buffer, &mut behind, skip)?;
            done += shape.window.from.len().get();
            let progress = Progress { done: ByteCount::new(done), total, is_back, skipped: skip.len() };
            if watch(progress).is_break() && index + 1 < count {
                disks.flush()?;
                self.check_all(disks, &mut behind)?;
                return Ok(Stop::Paused);
            }
        }
        if !fault::on(Fault::EarlyEnd) {
            disks.flush()?;
        }
        self.check_all(disks, &mut behind)?;
        self.journal.end(disks, self.direction, count)?;
        Ok(Stop::End)
    }

    fn step(
        &self,
        disks: &mut Disks<'_>,
        shape: &Shape,
        index: u64,
        buffer: &mut Vec<u8>,
        behind: &mut Behind,
        skip: &mut Skip,
    ) -> Result<(), RelocateError> {
        let (window, lead) = (shape.window, self.journal.lead());
        let is_direct = self.read(disks, shape, index, buffer, skip)?;
        let len = buffer.len() - lead;
        let holes = holes(disks, window.from, window.to, self.journal.job.blocks);
        let copy = &buffer[lead..];
        let kind = if is_direct { Kind::Direct { moved: hash(copy) } } else { shape.kind(copy) };
        let record = Record { direction: self.direction, number: index, kind };
        let moved = record.moved().unwrap_or_default();
        if fault::on(Fault::DataFirst) {
            write(disks, window.written, &shape.content(copy))?;
            disks.flush()?;
        }
        // Its copy in the journal is overwritten now.
        if !fault::on(Fault::LateCheck) {
            self.check(disks, behind.durable.take())?;
        }
        self.prefetch(disks, index + 1);
        let recorded = if is_direct { lead } else { lead + len };
        self.journal.append(disks, &record, &mut buffer[..recorded])?;
        if !fault::on(Fault::NoFlush) {
            disks.flush()?;
        }
        // That made the window before durable, too.
        self.check(disks, behind.durable.take())?;
        behind.durable = behind.latest.take();
        self.begin_check(disks, behind, window)?;
        let copy = &buffer[lead..];
        let span = window.written;
        let parts = span.gaps(self.kept.iter().copied());
        let hash = if span == window.to {
            let bytes = if is_direct { copy } else { shape.moved(copy) };
            write_without(disks, span, bytes, &holes, self.kept)?;
            if parts == [span] { moved } else { hash_parts(span, &parts, bytes) }
        } else {
            let content = shape.content(copy);
            write_without(disks, span, &content, &holes, self.kept)?;
            hash_parts(span, &parts, &content)
        };
        behind.latest = Some(Written { span, parts, hash });
        Ok(())
    }

    /// Reads what is needed to move a window, behind the room for its record; returns whether that are its
    /// bytes only. If some of them cannot be read, the journal gets a copy: reading them again might do.
    fn read(
        &self,
        disks: &mut Disks<'_>,
        shape: &Shape,
        index: u64,
        buffer: &mut Vec<u8>,
        skip: &mut Skip,
    ) -> Result<bool, RelocateError> {
        let lead = self.journal.lead();
        let mut read = |spans: Vec<Span>, skip: &Skip| {
            buffer.resize(lead + spans.iter().map(|span| in_memory(span.len())).sum::<usize>(), 0);
            let (mut at, mut bad) = (lead, Vec::new());
            for span in spans {
                let end = at + in_memory(span.len());
                bad.extend(skip.read_without(disks, span, self.kept, &mut buffer[at..end])?);
                at = end;
            }
            Ok::<_, RelocateError>(bad)
        };
        let mut bad = read(shape.read_first(), skip)?;
        if bad.is_empty() {
            return Ok(shape.window.is_direct);
        }
        if shape.window.is_direct {
            bad = read(shape.spans(), skip)?;
        }
        let Window { from, to, .. } = shape.window;
        let before = index.checked_sub(1).map(|before| self.sequence.window(before).from);
        // Of what is overwritten, only the rest of a physical sector and what a way back restores is data.
        let is_data = |bad: &Bad| {
            let is_kept = !to.contains(bad.from) || before.is_some_and(|span| span.overlaps(bad.from));
            let is_own = from.overlaps(bad.from);
            (is_own || is_kept) && !skip.has(*bad, is_own)
        };
        let list: Vec<Bad> = listed(&bad, from, to).into_iter().filter(is_data).collect();
        if !self.journal.list(disks, skip, &list)? {
            let at = list.first().map_or(from.start(), |bad| bad.from.start());
            let source = std::io::Error::other("and the journal has no room to list more");
            return Err(RelocateError::Read { device: Device::Data, at, source });
        }
        Ok(false)
    }

    /// Has the disk read what the next window needs, while this one is written.
    fn prefetch(&self, disks: &mut Disks<'_>, next: u64) {
        if next < self.sequence.count() {
            for span in Shape::new(self.sequence.window(next)).read_first() {
                disks.get(Device::Data).prefetch(span);
            }
        }
    }

    /// Begins to read back the window that has become durable; at once, if the next one overwrites it.
    fn begin_check(
        &self,
        disks: &mut Disks<'_>,
        behind: &mut Behind,
        next: Window,
    ) -> Result<(), RelocateError> {
        let Some(span) = behind.durable.as_ref().map(|written| written.span) else { return Ok(()) };
        if self.verify != Verify::Read {
            return Ok(());
        }
        disks.get(Device::Data).drop_cache(span);
        if next.written.overlaps(span) {
            return self.check(disks, behind.durable.take());
        }
        disks.get(Device::Data).prefetch(span);
        Ok(())
    }

    /// Compares what is read back of a window that is durable and whose cache was dropped.
    fn check(&self, disks: &mut Disks<'_>, written: Option<Written>) -> Result<(), RelocateError> {
        let Some(Written { span, parts, hash }) = written.filter(|_| self.verify == Verify::Read) else {
            return Ok(());
        };
        if is_cached(disks, &parts, hash)? {
            return Ok(());
        }
        Err(RelocateError::Changed { at: span.start(), len: span.len() })
    }

    /// Compares what is left, which is durable.
    fn check_all(&self, disks: &mut Disks<'_>, behind: &mut Behind) -> Result<(), RelocateError> {
        self.check(disks, behind.durable.take())?;
        if let Some(Written { span, .. }) = &behind.latest {
            disks.get(Device::Data).drop_cache(*span);
        }
        self.check(disks, behind.latest.take())
    }
}

/// The hash of parts of `span`, whose bytes are `bytes`.
fn hash_parts(span: Span, parts: &[Span], bytes: &[u8]) -> Hash {
    let mut hasher = Hasher::default();
    for part in parts {
        let from = part.start().checked_since(span.start()).map_or(0, in_memory);
        hasher.add(&bytes[from..from + in_memory(part.len())]);
    }
    hasher.finish()
}
