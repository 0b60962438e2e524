//! The windows of one direction, written one after the other; and those in flight, after a crash.
//!
//! [The crate's page](crate) has the argument for the order of the writes.

use std::ops::ControlFlow;

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::disk::Disks;
use crate::error::{Device, RelocateError};
use crate::fault::{self, Fault};
use crate::journal::{Direction, Entry, Hash, Journal, Kind, Record, Saved, hash, hash_both, in_memory};
use crate::sequence::{Sequence, Window, hull};

/// How what was written is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// It is read again after the flush, past the cache where the disk can do that.
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
}

/// Receives the progress after each window, and may stop the run there.
pub type Watch<'w> = &'w mut dyn FnMut(Progress) -> ControlFlow<()>;

/// What the journal has of a window that is copied: the bytes of the window and those that it overwrites, as
/// one span if they are adjacent or overlap, else one behind the other.
struct Shape {
    window: Window,
    hull: Option<Span>,
}

impl Shape {
    fn new(window: Window) -> Self {
        let (from, written) = (window.from, window.written);
        let is_near = from.start() <= written.end() && written.start() <= from.end();
        Self { window, hull: if is_near { hull(from, written) } else { None } }
    }

    fn spans(&self) -> Vec<Span> {
        self.hull.map_or_else(|| vec![self.window.from, self.window.written], |hull| vec![hull])
    }

    fn len(&self) -> usize {
        self.spans().iter().map(|span| in_memory(span.len())).sum()
    }

    /// Where in the copy the bytes of the window begin.
    fn moved_at(&self) -> usize {
        self.hull.map_or(0, |hull| distance(hull.start(), self.window.from.start()))
    }

    fn moved<'b>(&self, copy: &'b [u8]) -> &'b [u8] {
        &copy[self.moved_at()..][..in_memory(self.window.from.len())]
    }

    /// What the window overwrites.
    fn overwritten<'b>(&self, copy: &'b [u8]) -> &'b [u8] {
        let at = self.hull.map_or(in_memory(self.window.from.len()), |hull| {
            distance(hull.start(), self.window.written.start())
        });
        &copy[at..][..in_memory(self.window.written.len())]
    }

    /// What is to be written: the bytes of the window, and the rest of its first and last physical sector.
    fn content(&self, copy: &[u8]) -> Vec<u8> {
        let mut content = self.overwritten(copy).to_vec();
        let at = distance(self.window.written.start(), self.window.to.start());
        let moved = self.moved(copy);
        content[at..at + moved.len()].copy_from_slice(moved);
        content
    }

    /// Whether a record describes this window.
    fn fits(&self, record: &Record) -> bool {
        record.saved().is_none_or(|saved| {
            saved.len == self.len() as u64
                && saved.at == self.moved_at() as u64
                && saved.moved == self.window.from.len().get()
        })
    }

    fn kind(&self, copy: &[u8]) -> Kind {
        let (at, moved) = (self.moved_at(), self.moved(copy));
        let rest = hash_both(&copy[..at], &copy[at + moved.len()..]);
        let (len, at, count) = (copy.len() as u64, at as u64, moved.len() as u64);
        Kind::Copied { moved: hash(moved), saved: Saved { len, at, moved: count, rest } }
    }
}

fn distance(from: ByteOffset, to: ByteOffset) -> usize {
    to.checked_since(from).map_or(usize::MAX, in_memory)
}

fn read(disks: &mut Disks<'_>, span: Span) -> Result<Vec<u8>, RelocateError> {
    let mut bytes = vec![0; in_memory(span.len())];
    disks.read(Device::Data, span.start(), &mut bytes)?;
    Ok(bytes)
}

fn write(disks: &mut Disks<'_>, span: Span, bytes: &[u8]) -> Result<(), RelocateError> {
    disks.write(Device::Data, span.start(), bytes)
}

/// Compares what the medium has at `span`.
fn holds(disks: &mut Disks<'_>, span: Span, moved: Hash) -> Result<bool, RelocateError> {
    disks.get(Device::Data).drop_cache(span);
    Ok(hash(&read(disks, span)?) == moved)
}

/// The windows that may have been written in part when the journal was left.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// They, the last one first: two at most.
    windows: Vec<Entry>,
    /// A record whose bytes were never completely written: its window was not begun.
    unused: Option<Record>,
    /// A record whose bytes are partly overwritten by the next one's: its window is durable.
    outdated: Option<Record>,
    /// Windows of which no byte at the destination is missing, in flight or not.
    pub(crate) done: u64,
    /// Windows that are durable at their destination.
    pub(crate) durable: u64,
    pub(crate) is_end: bool,
}

impl Flight {
    pub(crate) fn has_begun(&self) -> bool {
        self.done > 0
    }

    /// Finds them in the records, of which the last one comes first.
    pub(crate) fn of(entries: Vec<Entry>, sequence: &Sequence) -> Result<Self, RelocateError> {
        let damaged = |what: &str| Err(RelocateError::Damaged(what.to_owned()));
        let mut flight = Self::default();
        let mut entries = entries.into_iter();
        let Some(last) = entries.next() else { return Ok(flight) };
        let (number, count) = (last.record.number, sequence.count());
        if last.record.kind == Kind::End {
            if number != count {
                return damaged("the end is recorded too early");
            }
            return Ok(Self { done: count, durable: count, is_end: true, ..flight });
        }
        if number >= count {
            return damaged("a record has no window");
        }
        // Of a record that was written in part before a crash, one copy may be that of an older one in its
        // slot. It comes to light when the next write to the slot is torn: then the window before is durable.
        let before = entries.next().filter(|before| before.record.number + 1 == number);
        for entry in [Some(&last), before.as_ref()].into_iter().flatten() {
            if entry.record.kind == Kind::End
                || !Shape::new(sequence.window(entry.record.number)).fits(&entry.record)
            {
                return damaged("a record does not describe its window");
            }
        }
        let is_whole = |entry: &Entry| entry.saved.is_some() || entry.record.saved().is_none();
        flight.done = number;
        flight.durable = number;
        if is_whole(&last) {
            flight.done = number + 1;
            flight.windows.push(last);
        } else {
            flight.unused = Some(last.record);
            if number > 0 && !before.as_ref().is_some_and(is_whole) {
                return damaged("two records have lost their bytes");
            }
        }
        match before {
            Some(before) if is_whole(&before) => {
                flight.durable = before.record.number;
                flight.windows.push(before);
            }
            Some(before) => flight.outdated = Some(before.record),
            None => {}
        }
        if fault::on(Fault::NoPrevious) {
            flight.windows.truncate(1);
        }
        Ok(flight)
    }

    /// Writes what is in flight again, and makes it durable.
    pub(crate) fn redo(&self, disks: &mut Disks<'_>, sequence: &Sequence) -> Result<(), RelocateError> {
        for Entry { record, saved } in self.windows.iter().rev() {
            let shape = Shape::new(sequence.window(record.number));
            let Some(copy) = saved else {
                let bytes = read(disks, shape.window.from)?;
                if record.moved() != Some(hash(&bytes)) {
                    return Err(changed(shape.window.from));
                }
                write(disks, shape.window.to, &bytes)?;
                continue;
            };
            write(disks, shape.window.written, &shape.content(copy))?;
        }
        disks.flush()?;
        if fault::on(Fault::NoCheck) {
            return Ok(());
        }
        let latest = self.windows.first().map(|entry| sequence.window(entry.record.number));
        let records = self.windows.iter().map(|entry| entry.record).chain(self.outdated);
        for record in records {
            let window = sequence.window(record.number);
            // A later window may move the same bytes on.
            let is_last = latest.is_none_or(|latest| latest == window || !latest.written.overlaps(window.to));
            if let Some(moved) = record.moved().filter(|_| is_last)
                && !holds(disks, window.to, moved)?
            {
                return Err(changed(window.to));
            }
        }
        self.check_unused(disks, sequence)
    }

    /// The bytes of a window that was not begun are where they were.
    fn check_unused(&self, disks: &mut Disks<'_>, sequence: &Sequence) -> Result<(), RelocateError> {
        let Some(record) = self.unused else { return Ok(()) };
        let from = sequence.window(record.number).from;
        match record.moved() {
            Some(moved) if !holds(disks, from, moved)? => Err(changed(from)),
            _ => Ok(()),
        }
    }

    /// Brings back what was there before the windows in flight, and makes it durable.
    ///
    /// Only what is needed is written: a sector that cannot be written may be the reason for the rollback.
    pub(crate) fn undo(
        &self,
        disks: &mut Disks<'_>,
        sequence: &Sequence,
        block: usize,
    ) -> Result<(), RelocateError> {
        let sources: Vec<Span> =
            self.windows.iter().map(|entry| sequence.window(entry.record.number).from).collect();
        for Entry { record, saved } in &self.windows {
            let Some(copy) = saved else { continue };
            let shape = Shape::new(sequence.window(record.number));
            let Window { to, written, .. } = shape.window;
            let mut at = written.start();
            for bytes in shape.overwritten(copy).chunks(block) {
                let len = ByteCount::new(bytes.len() as u64);
                let Some(span) = Span::new(at, len) else { break };
                at = span.end();
                let is_needed = !to.contains(span) || sources.iter().any(|source| source.overlaps(span));
                let is_there = |disks: &mut Disks<'_>| read(disks, span).is_ok_and(|there| there == bytes);
                if is_needed && !is_there(disks) {
                    write(disks, span, bytes)?;
                }
            }
        }
        disks.flush()?;
        if fault::on(Fault::NoCheck) {
            return Ok(());
        }
        let written: Vec<Span> =
            self.windows.iter().map(|entry| sequence.window(entry.record.number).written).collect();
        for record in self.windows.iter().map(|entry| entry.record).chain(self.unused) {
            let window = sequence.window(record.number);
            // What an earlier window in flight was to bring there is not there now.
            let is_own = !written.iter().any(|span| *span != window.written && span.overlaps(window.from));
            let is_first = self.durable == record.number;
            if let Some(moved) = record.moved().filter(|_| is_own || is_first)
                && !holds(disks, window.from, moved)?
            {
                return Err(changed(window.from));
            }
        }
        Ok(())
    }
}

fn changed(span: Span) -> RelocateError {
    let (start, len) = (span.start(), span.len().get());
    RelocateError::Damaged(format!("the {len} bytes at byte {start} are not what the journal says"))
}

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
}

impl Run<'_> {
    /// Writes the windows from `first` on. Those before are durable.
    pub(crate) fn go(
        &self,
        disks: &mut Disks<'_>,
        first: u64,
        watch: Watch<'_>,
    ) -> Result<Stop, RelocateError> {
        let (count, is_back) = (self.sequence.count(), self.direction == Direction::Back);
        let total = ByteCount::new(self.sequence.bytes(count));
        let mut done = self.sequence.bytes(first);
        let mut buffer = Vec::new();
        let mut before = None;
        for index in first..count {
            let shape = Shape::new(self.sequence.window(index));
            let moved = self.step(disks, &shape, index, &mut buffer, before)?;
            before = Some((shape.window, moved));
            done += shape.window.from.len().get();
            if watch(Progress { done: ByteCount::new(done), total, is_back }).is_break() && index + 1 < count
            {
                disks.flush()?;
                self.check(disks, before)?;
                return Ok(Stop::Paused);
            }
        }
        if !fault::on(Fault::EarlyEnd) {
            disks.flush()?;
        }
        self.check(disks, before)?;
        let record = Record { direction: self.direction, number: count, kind: Kind::End };
        let mut block = vec![0; self.journal.lead()];
        self.journal.append(disks, &record, &mut block)?;
        disks.flush()?;
        Ok(Stop::End)
    }

    /// Moves one window; returns the hash of its bytes.
    fn step(
        &self,
        disks: &mut Disks<'_>,
        shape: &Shape,
        index: u64,
        buffer: &mut Vec<u8>,
        before: Option<(Window, Hash)>,
    ) -> Result<Hash, RelocateError> {
        let (window, lead) = (shape.window, self.journal.lead());
        let spans = if window.is_direct { vec![window.from] } else { shape.spans() };
        let len: usize = spans.iter().map(|span| in_memory(span.len())).sum();
        buffer.resize(lead + len, 0);
        let mut at = lead;
        for span in spans {
            let end = at + in_memory(span.len());
            disks.read(Device::Data, span.start(), &mut buffer[at..end])?;
            at = end;
        }
        let copy = &buffer[lead..];
        let kind = if window.is_direct { Kind::Direct { moved: hash(copy) } } else { shape.kind(copy) };
        let record = Record { direction: self.direction, number: index, kind };
        let moved = record.moved().unwrap_or_default();
        if fault::on(Fault::DataFirst) {
            write(disks, window.written, &shape.content(copy))?;
            disks.flush()?;
        }
        let recorded = if window.is_direct { lead } else { lead + len };
        self.journal.append(disks, &record, &mut buffer[..recorded])?;
        if !fault::on(Fault::NoFlush) {
            disks.flush()?;
        }
        // That made the window before durable, too.
        self.check(disks, before)?;
        let copy = &buffer[lead..];
        if window.is_direct {
            write(disks, window.to, copy)?;
        } else if window.written == window.to {
            write(disks, window.to, shape.moved(copy))?;
        } else {
            write(disks, window.written, &shape.content(copy))?;
        }
        Ok(moved)
    }

    /// Reads back a window that is durable.
    fn check(&self, disks: &mut Disks<'_>, before: Option<(Window, Hash)>) -> Result<(), RelocateError> {
        let Some((window, moved)) = before.filter(|_| self.verify == Verify::Read) else { return Ok(()) };
        if holds(disks, window.to, moved)? {
            return Ok(());
        }
        Err(RelocateError::Changed { at: window.to.start(), len: window.to.len() })
    }
}
