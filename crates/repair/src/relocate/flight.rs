//! The windows in flight, after a crash.
//!
//! [The crate's page](crate) has the argument for what is written again, and what is undone.

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::relocate::bad::{Skip, listed};
use crate::relocate::disk::{Disks, SECTOR};
use crate::relocate::error::RelocateError;
use crate::relocate::fault::{self, Fault};
use crate::relocate::journal::{Entry, Journal, Kind, Record, hash, in_memory};
use crate::relocate::sequence::{Sequence, Window};
use crate::relocate::shape::{Shape, changed, holds, holes, read, write, write_without};

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
                return damaged("two records lack their data");
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

    /// Whether each sector that the windows in flight read, and do not write, is what was read. What cannot be read, or
    /// could not be once, may be anything.
    pub(crate) fn is_read_intact(&self, disks: &mut Disks<'_>, sequence: &Sequence, skip: &Skip) -> bool {
        let Copied { written, read } = self.copied(sequence);
        let is_written = |span: Span| written.iter().any(|(written, _)| written.overlaps(span));
        let direct = self.windows.iter().filter(|entry| entry.saved.is_none()).map(|entry| entry.record);
        for record in direct.chain(self.unused) {
            let from = sequence.window(record.number).from;
            let is_other = record.moved().is_some_and(|moved| holds(disks, from, moved).is_ok_and(|it| !it));
            // What is in flight before it may overwrite it.
            if is_other && !skip.touches(from) && !is_written(from) {
                return false;
            }
        }
        let sectors = read.iter().map(|(span, _)| *span).flat_map(sectors);
        let mut kept = sectors.filter(|sector| !is_written(*sector) && !skip.touches(*sector));
        kept.all(|sector| is_one_of(disks, sector, &read))
    }

    pub(crate) fn written(&self, sequence: &Sequence) -> Vec<Span> {
        self.windows.iter().map(|entry| sequence.window(entry.record.number).written).collect()
    }

    /// What the copies in the journal say of windows in flight.
    fn copied(&self, sequence: &Sequence) -> Copied {
        let copied = self.windows.iter().filter_map(|entry| {
            let shape = Shape::new(sequence.window(entry.record.number));
            let copy = entry.saved.as_ref()?;
            let (content, overwritten) = (shape.content(copy), shape.overwritten(copy).to_vec());
            let written = [content, overwritten].map(|bytes| (shape.window.written, bytes));
            Some((written, (shape.window.from, shape.moved(copy).to_vec())))
        });
        let (written, read): (Vec<_>, Vec<_>) = copied.unzip();
        Copied { written: written.into_iter().flatten().collect(), read }
    }

    /// Writes what is in flight again, and makes it durable.
    pub(crate) fn redo(
        &self,
        disks: &mut Disks<'_>,
        sequence: &Sequence,
        journal: &Journal,
        skip: &mut Skip,
        kept: &[Span],
    ) -> Result<(), RelocateError> {
        let blocks = sequence.blocks();
        for Entry { record, saved } in self.windows.iter().rev() {
            let shape = Shape::new(sequence.window(record.number));
            let Some(copy) = saved else {
                let bytes = again(disks, shape.window, record, journal, skip)?;
                let holes = holes(disks, shape.window.from, shape.window.to, blocks);
                write_without(disks, shape.window.to, &bytes, &holes, kept)?;
                continue;
            };
            // Those that the first write has made; the source may have none any more.
            let written = shape.window.written;
            let holes = holes(disks, written, written, blocks);
            let mut content = shape.content(copy);
            self.keep_beside(disks, sequence, shape.window, &mut content);
            write_without(disks, written, &content, &holes, kept)?;
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
            // What was read for it in vain was listed just now.
            let is_same = record.saved().is_some() || !skip.touches(window.from);
            let is_same = is_same && !kept.iter().any(|kept| kept.overlaps(window.to));
            if let Some(moved) = record.moved().filter(|_| is_last && is_same)
                && !holds(disks, window.to, moved)?
            {
                return Err(changed(window.to));
            }
        }
        let Some(record) = self.unused else { return Ok(()) };
        is_intact(disks, sequence.window(record.number).from, &record, skip)
    }

    /// Puts what is on the disk now, beside the destination in its first and last physical sector, into the `bytes` to be
    /// written there: others' data, which their owners may have written since. Where the window's own part of the
    /// sector is neither what was there before nor what was written, a power cut has torn the sector, and the journal's
    /// copy is all there is.
    fn keep_beside(&self, disks: &mut Disks<'_>, sequence: &Sequence, window: Window, bytes: &mut [u8]) {
        let Window { to, written, .. } = window;
        if to == written {
            return;
        }
        let known = self.copied(sequence).written;
        let ends = written.pieces(sequence.blocks().size()).filter(|block| !to.contains(*block));
        for block in ends {
            let (own, others): (Vec<_>, Vec<_>) = sectors(block).partition(|sector| to.contains(*sector));
            let is_torn = own
                .into_iter()
                .any(|sector| read(disks, sector).is_err() || !is_one_of(disks, sector, &known));
            for sector in others.into_iter().filter(|_| !is_torn) {
                let at = sector.start().checked_since(written.start()).map(in_memory);
                if let Ok(there) = read(disks, sector)
                    && let Some(part) = at.and_then(|at| bytes.get_mut(at..at.checked_add(there.len())?))
                {
                    part.copy_from_slice(&there);
                }
            }
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
        skip: &Skip,
    ) -> Result<(), RelocateError> {
        let sources: Vec<Span> =
            self.windows.iter().map(|entry| sequence.window(entry.record.number).from).collect();
        for Entry { record, saved } in &self.windows {
            let Some(copy) = saved else { continue };
            let shape = Shape::new(sequence.window(record.number));
            let Window { to, written, .. } = shape.window;
            let mut at = written.start();
            let mut overwritten = shape.overwritten(copy).to_vec();
            self.keep_beside(disks, sequence, shape.window, &mut overwritten);
            for bytes in overwritten.chunks(block) {
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
            // What an earlier window in flight was to bring there is missing now.
            let is_own = !written.iter().any(|span| *span != window.written && span.overlaps(window.from));
            let is_first = self.durable == record.number;
            if is_own || is_first {
                is_intact(disks, window.from, &record, skip)?;
            }
        }
        Ok(())
    }
}

/// Spans with what they may hold.
struct Copied {
    /// What is written: before it, and after.
    written: Vec<(Span, Vec<u8>)>,
    read: Vec<(Span, Vec<u8>)>,
}

fn sectors(span: Span) -> impl Iterator<Item = Span> {
    let starts = (span.start().get()..span.end().get()).step_by(in_memory(ByteCount::new(SECTOR)));
    starts.filter_map(|at| Span::new(ByteOffset::new(at), ByteCount::new(SECTOR)))
}

/// Whether a sector that can be read is what one of those that have it in their span says.
fn is_one_of(disks: &mut Disks<'_>, sector: Span, possible: &[(Span, Vec<u8>)]) -> bool {
    let Ok(there) = read(disks, sector) else { return true };
    possible.iter().any(|(span, bytes)| {
        let at = sector.start().checked_since(span.start()).map(in_memory);
        at.and_then(|at| bytes.get(at..at.checked_add(there.len())?)) == Some(&there[..])
    })
}

/// The bytes of a window at its source are what its record says. Those that cannot be read, now or before, may
/// be anything.
fn is_intact(disks: &mut Disks<'_>, from: Span, record: &Record, skip: &Skip) -> Result<(), RelocateError> {
    match record.moved().filter(|_| !skip.touches(from)).map(|moved| holds(disks, from, moved)) {
        Some(Ok(false)) => Err(changed(from)),
        Some(Err(error)) if !matches!(error, RelocateError::Read { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Reads a direct window again. What cannot be read any more may be at its destination already.
fn again(
    disks: &mut Disks<'_>,
    window: Window,
    record: &Record,
    journal: &Journal,
    skip: &mut Skip,
) -> Result<Vec<u8>, RelocateError> {
    let mut bytes = vec![0; in_memory(window.from.len())];
    let bad = skip.read(disks, window.from, &mut bytes)?;
    if record.moved() == Some(hash(&bytes)) {
        return Ok(bytes);
    }
    if bad.is_empty() {
        return Err(changed(window.from));
    }
    if let Ok(there) = read(disks, window.to)
        && record.moved() == Some(hash(&there))
    {
        return Ok(there);
    }
    let list = listed(&bad, window.from, window.to);
    if !journal.list(disks, skip, &list)? {
        return Err(changed(window.from));
    }
    Ok(bytes)
}
