//! The windows in flight after a crash. [`relocate`](crate::relocate) explains what is rewritten and undone.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::{
    Device, Disks, Entry, Fault, Journal, Kind, Record, RelocateError, Result, SECTOR, SECTOR_LEN, Sequence,
    Skip, Window, changed, distance, hash, holds, holes, in_memory, listed, read, write_without,
};

#[derive(Default)]
pub(crate) struct Flight {
    /// At most two, the last one first.
    windows: Vec<Flying>,
    /// A record whose bytes were not completely written: its window was not begun.
    unused: Option<(Window, Record)>,
    /// A record whose bytes the next one's partly overwrite: its window is durable.
    outdated: Option<(Window, Record)>,
    /// Windows of which no byte at the destination is missing, in flight or not.
    pub(crate) done: u64,
    pub(crate) durable: u64,
    pub(crate) is_end: bool,
}

struct Flying {
    window: Window,
    record: Record,
    copy: Option<Vec<u8>>,
}

type Possible = Vec<(Span, Vec<u8>)>;

impl Flight {
    pub(crate) fn find(disks: &mut Disks<'_>, journal: &Journal, sequence: &Sequence) -> Result<Self> {
        let damaged = |what: &str| Err(RelocateError::damaged(what));
        let mut flight = Self::default();
        let mut entries = journal.records(disks, sequence.direction)?.into_iter();
        let Some(last) = entries.next() else { return Ok(flight) };
        let (number, count) = (last.record.number, sequence.count);
        if last.record.kind == Kind::End {
            if number != count {
                return damaged("the end is recorded too early");
            }
            return Ok(Self { done: count, durable: count, is_end: true, ..flight });
        }
        if number >= count {
            return damaged("a record belongs to no window");
        }
        // Of a record that was written in part before a crash, one copy may be that of an older one in its
        // slot. It comes to light when the next write to the slot is torn: then the window before is durable.
        let before = entries.next().filter(|before| before.record.number + 1 == number);
        for Entry { record, .. } in [Some(&last), before.as_ref()].into_iter().flatten() {
            if record.kind == Kind::End || !sequence.window(record.number).fits(record) {
                return damaged("a record does not describe its window");
            }
        }
        let is_whole = |entry: &Entry| entry.saved.is_some() || entry.record.saved().is_none();
        let window = |entry: &Entry| sequence.window(entry.record.number);
        let flying =
            |entry: Entry| Flying { window: window(&entry), record: entry.record, copy: entry.saved };
        flight.done = number;
        flight.durable = number;
        if is_whole(&last) {
            flight.done = number + 1;
            flight.windows.push(flying(last));
        } else {
            flight.unused = Some((window(&last), last.record));
            if number > 0 && !before.as_ref().is_some_and(is_whole) {
                return damaged("two records lack their data");
            }
        }
        match before {
            Some(before) if is_whole(&before) => {
                flight.durable = before.record.number;
                flight.windows.push(flying(before));
            }
            Some(before) => flight.outdated = Some((window(&before), before.record)),
            None => {}
        }
        if Fault::NoPrevious.is_planted() {
            flight.windows.truncate(1);
        }
        Ok(flight)
    }

    /// Whether what windows in flight read, and do not write, is unchanged. Unreadable sectors do not count.
    pub(crate) fn is_read_intact(&self, disks: &mut Disks<'_>, skip: &Skip) -> bool {
        let (written, sources) = self.copied();
        let is_written = |span: Span| written.iter().any(|(written, _)| written.overlaps(span));
        let direct = self.windows.iter().filter(|one| one.copy.is_none()).map(|one| (one.window, one.record));
        for (Window { from, .. }, record) in direct.chain(self.unused) {
            let is_other = record.moved().is_some_and(|moved| holds(disks, from, moved).is_ok_and(|it| !it));
            // What is in flight before it may overwrite it.
            if is_other && !skip.touches(from) && !is_written(from) {
                return false;
            }
        }
        let sectors = sources.iter().flat_map(|(span, _)| sectors(*span));
        let mut kept = sectors.filter(|sector| !is_written(*sector) && !skip.touches(*sector));
        kept.all(|sector| is_one_of(disks, sector, &sources))
    }

    pub(crate) fn written(&self) -> Vec<Span> {
        self.windows.iter().map(|one| one.window.written).collect()
    }

    fn copied(&self) -> (Possible, Possible) {
        let (mut written, mut sources) = (Vec::new(), Vec::new());
        for Flying { window, copy, .. } in &self.windows {
            let Some(copy) = copy else { continue };
            written.push((window.written, window.content(copy)));
            written.push((window.written, window.overwritten(copy).to_vec()));
            sources.push((window.from, window.moved(copy).to_vec()));
        }
        (written, sources)
    }

    pub(crate) fn redo(
        &self,
        disks: &mut Disks<'_>,
        journal: &Journal,
        skip: &mut Skip,
        kept: &[Span],
    ) -> Result<()> {
        let blocks = journal.job.blocks;
        for Flying { window, record, copy } in self.windows.iter().rev() {
            let Window { from, to, written, .. } = *window;
            let Some(copy) = copy else {
                let bytes = again(disks, *window, record, journal, skip)?;
                let holes = holes(disks, from, to, blocks);
                write_without(disks, to, &bytes, &holes, kept)?;
                continue;
            };
            // Those that the first write has made; the source may have none any more.
            let holes = holes(disks, written, written, blocks);
            let mut content = window.content(copy);
            self.keep_beside(disks, journal, *window, &mut content);
            write_without(disks, written, &content, &holes, kept)?;
        }
        disks.flush()?;
        if Fault::NoCheck.is_planted() {
            return Ok(());
        }
        let latest = self.windows.first().map(|one| one.window);
        for (window, record) in self.windows.iter().map(|one| (one.window, one.record)).chain(self.outdated) {
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
        self.unused.map_or(Ok(()), |(window, record)| check_intact(disks, window.from, &record, skip))
    }

    /// Puts what is on the disk now, beside the destination in its first and last physical sector, into
    /// `bytes`: others' data, which may be newer. If the window's own part of the sector is neither old nor
    /// new, a power cut has torn the sector, and the journal's copy is all there is.
    fn keep_beside(&self, disks: &mut Disks<'_>, journal: &Journal, window: Window, bytes: &mut [u8]) {
        let Window { to, written, .. } = window;
        if to == written {
            return;
        }
        let (known, _) = self.copied();
        for block in written.pieces(journal.job.blocks.size()).filter(|block| !to.contains(*block)) {
            let (own, others): (Vec<_>, Vec<_>) = sectors(block).partition(|sector| to.contains(*sector));
            let is_torn = own
                .into_iter()
                .any(|sector| read(disks, sector).is_err() || !is_one_of(disks, sector, &known));
            for sector in others.into_iter().filter(|_| !is_torn) {
                if let Ok(there) = read(disks, sector)
                    && let Some(part) = bytes.get_mut(distance(written.start(), sector.start())..)
                    && let Some(part) = part.get_mut(..there.len())
                {
                    part.copy_from_slice(&there);
                }
            }
        }
    }

    /// Restores what was there before the windows in flight, durably. Only what is needed is written: a
    /// failing sector may be the reason for the rollback.
    pub(crate) fn undo(&self, disks: &mut Disks<'_>, journal: &Journal, skip: &Skip) -> Result<()> {
        let is_source = |span: Span| self.windows.iter().any(|one| one.window.from.overlaps(span));
        for Flying { window, record, copy } in &self.windows {
            let Some(copy) = copy else {
                self.write_back(disks, *window, record, skip)?;
                continue;
            };
            let mut overwritten = window.overwritten(copy).to_vec();
            self.keep_beside(disks, journal, *window, &mut overwritten);
            let blocks = window.written.pieces(journal.job.blocks.size());
            for (span, bytes) in blocks.zip(overwritten.chunks(journal.block())) {
                let is_needed = !window.to.contains(span) || is_source(span);
                if is_needed && !read(disks, span).is_ok_and(|there| there == bytes) {
                    disks.write(Device::Data, span.start(), bytes)?;
                }
            }
        }
        disks.flush()?;
        if Fault::NoCheck.is_planted() {
            return Ok(());
        }
        let written = self.written();
        for (window, record) in self.windows.iter().map(|one| (one.window, one.record)).chain(self.unused) {
            // What an earlier window in flight was to bring there is missing now.
            let is_own = !written.iter().any(|span| *span != window.written && span.overlaps(window.from));
            if is_own || self.durable == record.number {
                check_intact(disks, window.from, &record, skip)?;
            }
        }
        Ok(())
    }

    /// If a direct window's source has become unreadable, the only copy of a sector may be at its destination.
    fn write_back(&self, disks: &mut Disks<'_>, window: Window, record: &Record, skip: &Skip) -> Result<()> {
        let Window { from, to, .. } = window;
        let is_written = self.written().iter().any(|span| span.overlaps(from));
        if skip.touches(from) || is_written || read(disks, from).is_ok() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(in_memory(from.len()));
        for (old, new) in sectors(from).zip(sectors(to)) {
            match read(disks, old).or_else(|_| read(disks, new)) {
                Ok(sector) => bytes.extend(sector),
                Err(_) => return Ok(()),
            }
        }
        match record.moved() == Some(hash(&bytes)) {
            true => disks.write(Device::Data, from.start(), &bytes),
            false => Ok(()),
        }
    }
}

fn sectors(span: Span) -> impl Iterator<Item = Span> {
    let starts = (span.start().get()..span.end().get()).step_by(SECTOR_LEN);
    starts.filter_map(|at| Span::new(ByteOffset::new(at), ByteCount::new(SECTOR)))
}

/// Whether a readable sector is what one of the spans that it is in may hold.
fn is_one_of(disks: &mut Disks<'_>, sector: Span, possible: &Possible) -> bool {
    let Ok(there) = read(disks, sector) else { return true };
    possible.iter().any(|(span, bytes)| {
        let bytes = bytes.get(distance(span.start(), sector.start())..);
        bytes.is_some_and(|bytes| bytes.starts_with(&there))
    })
}

/// Checks a window's bytes at its source against its record. Bytes that were ever unreadable may be anything.
fn check_intact(disks: &mut Disks<'_>, from: Span, record: &Record, skip: &Skip) -> Result<()> {
    match record.moved().filter(|_| !skip.touches(from)).map(|moved| holds(disks, from, moved)) {
        Some(Ok(false)) => Err(changed(from)),
        Some(Err(error)) if !matches!(error, RelocateError::Read { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// What cannot be read any more may be at its destination already.
fn again(
    disks: &mut Disks<'_>,
    window: Window,
    record: &Record,
    journal: &Journal,
    skip: &mut Skip,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; in_memory(window.from.len())];
    let bad = skip.read(disks, window.from, &mut bytes)?;
    if record.moved() == Some(hash(&bytes)) {
        return Ok(bytes);
    }
    if !bad.is_empty() {
        if let Ok(there) = read(disks, window.to)
            && record.moved() == Some(hash(&there))
        {
            return Ok(there);
        }
        if journal.list(disks, skip, &listed(&bad, window.from, window.to))? {
            return Ok(bytes);
        }
    }
    Err(changed(window.from))
}
