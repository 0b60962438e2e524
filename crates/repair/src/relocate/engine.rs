//! Writes the windows of one direction. [`relocate`](crate::relocate) explains the order of the writes.

use std::ops::ControlFlow;

use straddle_units::{ByteCount, Span};

use super::{
    Bad, Device, Direction, Disks, Fault, Hash, Hasher, Journal, Kind, Record, RelocateError, Result,
    Sequence, Skip, Window, distance, hash, holes, in_memory, is_cached, listed, write_without,
};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes moved, or moved back.
    pub done: ByteCount,
    /// Bytes to be moved in this direction.
    pub total: ByteCount,
    /// Whether it is a rollback.
    pub is_back: bool,
    /// Bytes that could not be read, since the job began.
    pub skipped: ByteCount,
}

/// Receives the progress after each window, and may stop the run there.
pub type Watch<'w> = &'w mut dyn FnMut(Progress) -> ControlFlow<()>;

pub(crate) struct Run<'r, 'd> {
    pub(crate) disks: &'r mut Disks<'d>,
    pub(crate) journal: &'r Journal,
    pub(crate) skip: &'r mut Skip,
    pub(crate) sequence: &'r Sequence,
    /// Not written, in ascending order: it holds what the windows would bring there.
    pub(crate) kept: &'r [Span],
    pub(crate) behind: Behind,
}

#[derive(Default)]
pub(crate) struct Behind {
    /// Durable, and its cache is dropped.
    durable: Option<Written>,
    latest: Option<Written>,
}

/// Span, the parts of it that were written, and the hash of their bytes.
struct Written {
    span: Span,
    parts: Vec<Span>,
    hash: Hash,
}

impl Run<'_, '_> {
    /// Writes the windows from `first` on; those before are durable. True if all are written, and the journal
    /// says so; otherwise `watch` stopped it, and what was done is durable.
    pub(crate) fn go(mut self, first: u64, watch: Watch<'_>) -> Result<bool> {
        let (count, direction) = (self.sequence.count, self.sequence.direction);
        let (is_back, total) = (direction == Direction::Back, ByteCount::new(self.sequence.bytes(count)));
        let mut done = self.sequence.bytes(first);
        let mut buffer = Vec::new();
        for index in first..count {
            let window = self.sequence.window(index);
            self.step(window, index, &mut buffer)?;
            done += window.from.len().get();
            let progress = Progress { done: ByteCount::new(done), total, is_back, skipped: self.skip.len() };
            if watch(progress).is_break() && index + 1 < count {
                self.disks.flush()?;
                self.check_all()?;
                return Ok(false);
            }
        }
        if !Fault::EarlyEnd.is_planted() {
            self.disks.flush()?;
        }
        self.check_all()?;
        self.journal.end(self.disks, direction, count)?;
        Ok(true)
    }

    fn step(&mut self, window: Window, index: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let lead = self.journal.lead();
        let is_direct = self.read(window, index, buffer)?;
        let len = buffer.len() - lead;
        let holes = holes(self.disks, window.from, window.to, self.sequence.blocks);
        let copy = &buffer[lead..];
        let kind = if is_direct { Kind::Direct { moved: hash(copy) } } else { window.kind(copy) };
        let record = Record { direction: self.sequence.direction, number: index, kind };
        let moved = record.moved().unwrap_or_default();
        if Fault::DataFirst.is_planted() {
            self.disks.write(Device::Data, window.written.start(), &window.content(copy))?;
            self.disks.flush()?;
        }
        // Its copy in the journal is overwritten now.
        if !Fault::LateCheck.is_planted() {
            self.check_durable()?;
        }
        self.prefetch(index + 1);
        let recorded = if is_direct { lead } else { lead + len };
        self.journal.append(self.disks, &record, &mut buffer[..recorded])?;
        if !Fault::NoFlush.is_planted() {
            self.disks.flush()?;
        }
        // That made the window before durable, too.
        self.check_durable()?;
        self.behind.durable = self.behind.latest.take();
        self.begin_check(window)?;
        let copy = &buffer[lead..];
        let span = window.written;
        let parts = span.gaps(self.kept.iter().copied());
        let hash = if span == window.to {
            let bytes = if is_direct { copy } else { window.moved(copy) };
            write_without(self.disks, span, bytes, &holes, self.kept)?;
            if parts == [span] { moved } else { hash_parts(span, &parts, bytes) }
        } else {
            let content = window.content(copy);
            write_without(self.disks, span, &content, &holes, self.kept)?;
            hash_parts(span, &parts, &content)
        };
        self.behind.latest = Some(Written { span, parts, hash });
        Ok(())
    }

    /// Reads what a window needs to `buffer`, after the room for its record; true if that is its source only.
    /// If some of it cannot be read, the journal gets a copy: the next read might succeed.
    fn read(&mut self, window: Window, index: u64, buffer: &mut Vec<u8>) -> Result<bool> {
        let lead = self.journal.lead();
        let mut read = |spans: Vec<Span>| {
            buffer.resize(lead + spans.iter().map(|span| in_memory(span.len())).sum::<usize>(), 0);
            let (mut at, mut bad) = (lead, Vec::new());
            for span in spans {
                let end = at + in_memory(span.len());
                bad.extend(self.skip.read_without(self.disks, span, self.kept, &mut buffer[at..end])?);
                at = end;
            }
            Ok::<_, RelocateError>(bad)
        };
        let mut bad = read(window.read_first())?;
        if bad.is_empty() {
            return Ok(window.is_direct);
        }
        if window.is_direct {
            bad = read(window.copied())?;
        }
        let Window { from, to, .. } = window;
        let before = index.checked_sub(1).map(|before| self.sequence.window(before).from);
        // Of what is overwritten, only the rest of a physical sector and what a way back restores is data.
        let is_data = |bad: &Bad| {
            let is_kept = !to.contains(bad.from) || before.is_some_and(|span| span.overlaps(bad.from));
            let is_own = from.overlaps(bad.from);
            (is_own || is_kept) && !self.skip.has(*bad, is_own)
        };
        let list: Vec<Bad> = listed(&bad, from, to).into_iter().filter(is_data).collect();
        if !self.journal.list(self.disks, self.skip, &list)? {
            let at = list.first().map_or(from.start(), |bad| bad.from.start());
            let source = std::io::Error::other("the journal has no room to list more unreadable areas");
            return Err(RelocateError::Read { device: Device::Data, at, source });
        }
        Ok(false)
    }

    fn prefetch(&mut self, next: u64) {
        if next < self.sequence.count {
            for span in self.sequence.window(next).read_first() {
                self.disks.get(Device::Data).prefetch(span);
            }
        }
    }

    /// At once, if `next` overwrites it.
    fn begin_check(&mut self, next: Window) -> Result<()> {
        let Some(span) = self.behind.durable.as_ref().map(|written| written.span) else { return Ok(()) };
        let disk = self.disks.get(Device::Data);
        disk.drop_cache(span);
        if next.written.overlaps(span) {
            return self.check_durable();
        }
        disk.prefetch(span);
        Ok(())
    }

    fn check_durable(&mut self) -> Result<()> {
        let written = self.behind.durable.take();
        let Some(Written { span, parts, hash }) = written else { return Ok(()) };
        if is_cached(self.disks, &parts, hash)? {
            return Ok(());
        }
        Err(RelocateError::Changed { at: span.start(), len: span.len() })
    }

    fn check_all(&mut self) -> Result<()> {
        self.check_durable()?;
        self.behind.durable = self.behind.latest.take();
        if let Some(Written { span, .. }) = &self.behind.durable {
            self.disks.get(Device::Data).drop_cache(*span);
        }
        self.check_durable()
    }
}

fn hash_parts(span: Span, parts: &[Span], bytes: &[u8]) -> Hash {
    let mut hasher = Hasher::default();
    for part in parts {
        let from = distance(span.start(), part.start());
        hasher.add(&bytes[from..from + in_memory(part.len())]);
    }
    hasher.finish()
}
