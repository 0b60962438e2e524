//! Writes the windows of one direction. [`relocate`](crate::relocate) explains the order of the writes.

use std::ops::ControlFlow;

use straddle_units::{ByteCount, Span};

use super::{
    Device, Disks, Fault, Hash, Journal, Kind, Record, RelocateError, Result, Sequence, Window, hash, holes,
    in_memory, is_cached, write_sparse,
};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes moved, or moved back.
    pub done: ByteCount,
    /// Bytes to be moved in this direction.
    pub total: ByteCount,
}

/// Receives the progress after each window, and may stop the run there.
pub type Watch<'w> = &'w mut dyn FnMut(Progress) -> ControlFlow<()>;

pub(crate) struct Run<'r, 'd> {
    pub(crate) disks: &'r mut Disks<'d>,
    pub(crate) journal: &'r Journal,
    pub(crate) sequence: &'r Sequence,
    pub(crate) behind: Behind,
}

#[derive(Default)]
pub(crate) struct Behind {
    /// Durable, and its cache is dropped.
    durable: Option<Written>,
    latest: Option<Written>,
}

struct Written {
    span: Span,
    hash: Hash,
}

impl Run<'_, '_> {
    /// Writes the windows from `first` on; those before are durable. True if all are written, and the journal
    /// says so; otherwise `watch` stopped it, and what was done is durable.
    pub(crate) fn go(mut self, first: u64, watch: Watch<'_>) -> Result<bool> {
        let (count, direction) = (self.sequence.count, self.sequence.direction);
        let total = ByteCount::new(self.sequence.bytes(count));
        let mut done = self.sequence.bytes(first);
        let mut buffer = Vec::new();
        for index in first..count {
            let window = self.sequence.window(index);
            self.step(window, index, &mut buffer)?;
            done += window.from.len().get();
            let progress = Progress { done: ByteCount::new(done), total };
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
        let is_direct = window.is_direct;
        self.read(window, buffer)?;
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
        let recorded = if is_direct { lead } else { buffer.len() };
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
        let hash = if span == window.to {
            let bytes = if is_direct { copy } else { window.moved(copy) };
            write_sparse(self.disks, span, bytes, &holes)?;
            moved
        } else {
            let content = window.content(copy);
            write_sparse(self.disks, span, &content, &holes)?;
            hash(&content)
        };
        self.behind.latest = Some(Written { span, hash });
        Ok(())
    }

    /// Reads what a window needs to `buffer`, after the room for its record.
    fn read(&mut self, window: Window, buffer: &mut Vec<u8>) -> Result<()> {
        let spans = window.read_first();
        let mut at = self.journal.lead();
        buffer.resize(at + spans.iter().map(|span| in_memory(span.len())).sum::<usize>(), 0);
        for span in spans {
            let end = at + in_memory(span.len());
            self.disks.read(Device::Data, span.start(), &mut buffer[at..end])?;
            at = end;
        }
        Ok(())
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
        let Some(Written { span, hash }) = written else { return Ok(()) };
        if is_cached(self.disks, span, hash)? {
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
