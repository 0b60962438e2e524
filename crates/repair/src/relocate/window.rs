//! The windows that moves are cut into, in the order of writing, and what of each is read, saved and written.
//!
//! The grid that cuts them lies on the physical sectors, counted at the destination, so a write covers whole ones,
//! except at the two ends of a move: there the rest of the sector is read first and written with it.

use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use super::{
    Device, Direction, Disks, Fault, Hash, Hasher, Job, Kind, Record, RelocateError, Result, Saved, hash,
    hash_both, in_memory, round_out,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Span,
    pub(crate) to: Span,
    /// With the rest of the physical sectors at the ends of `to`.
    pub(crate) written: Span,
    /// The bytes at `from` stay intact while the window may have to be written again: no copy is needed.
    pub(crate) is_direct: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) direction: Direction,
    size: ByteCount,
    pub(crate) blocks: Boundary,
    window: u64,
    /// Added to an offset, it lets the grid begin at zero.
    offset: u64,
    parts: Vec<Part>,
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    from: Span,
    to: Span,
    /// The numbers of its first and of its last window.
    windows: (u64, u64),
    /// Those that the destination touches, from the lowest to the highest.
    cells: (u64, u64),
}

impl Sequence {
    pub(crate) fn forward(job: &Job) -> Self {
        let shifts = job.moves.iter().filter_map(|one| Some((one.from, one.destination()?)));
        Self::of(job, Direction::Forward, shifts)
    }

    pub(crate) fn back(job: &Job, done: u64) -> Self {
        let forward = Self::forward(job);
        let ends = forward.ends(done).rev();
        let shifts = ends.filter_map(|(one, other)| hull(one.to, other.to).zip(hull(one.from, other.from)));
        Self::of(job, Direction::Back, shifts)
    }

    fn of(job: &Job, direction: Direction, shifts: impl Iterator<Item = (Span, Span)>) -> Self {
        let (window, phase) = (job.window.get(), job.blocks.phase().get());
        let offset = if phase == 0 { 0 } else { window - phase };
        let (mut parts, mut count) = (Vec::new(), 0);
        for (from, to) in shifts {
            let cell = |byte: u64| (byte + offset) / window;
            let cells = (cell(to.start().get()), cell(to.end().get() - 1));
            let windows = (count, count + cells.1 - cells.0);
            parts.push(Part { from, to, windows, cells });
            count = windows.1 + 1;
        }
        Self { direction, size: job.size, blocks: job.blocks, window, offset, parts, count }
    }

    pub(crate) fn sources(&self, done: u64) -> Vec<(Span, ByteOffset)> {
        let ends =
            self.ends(done).filter_map(|(one, other)| hull(one.from, other.from).zip(hull(one.to, other.to)));
        ends.map(|(from, to)| (from, to.start())).collect()
    }

    pub(crate) fn written(&self, done: u64) -> Vec<Span> {
        self.ends(done).filter_map(|(one, other)| hull(one.written, other.written)).collect()
    }

    /// In each move. Those between are adjacent.
    fn ends(&self, done: u64) -> impl DoubleEndedIterator<Item = (Window, Window)> {
        self.parts.iter().filter(move |part| part.windows.0 < done).map(move |part| {
            let (first, last) = part.windows;
            (self.bare(first), self.bare(last.min(done - 1)))
        })
    }

    pub(crate) fn bytes(&self, done: u64) -> u64 {
        self.sources(done).iter().map(|(from, _)| from.len().get()).sum()
    }

    pub(crate) fn window(&self, index: u64) -> Window {
        let mut window = self.bare(index);
        let intact = |from: Span, written: Span| !from.overlaps(written);
        let mut is_direct = window.written == window.to && intact(window.from, window.written);
        if !Fault::ShortDirect.is_planted() {
            if index + 1 < self.count {
                is_direct &= intact(window.from, self.bare(index + 1).written);
            }
            if index > 0 {
                is_direct &= intact(self.bare(index - 1).from, window.written);
            }
        }
        window.is_direct = is_direct;
        window
    }

    fn bare(&self, index: u64) -> Window {
        let part = self.parts.partition_point(|part| part.windows.0 <= index).saturating_sub(1);
        let Part { from, to, windows, cells } = self.parts[part];
        // Upwards from the end, downwards from the start: only sources of this or earlier windows are overwritten.
        let within = index - windows.0;
        let cell = if to.start() > from.start() { cells.1 - within } else { cells.0 + within };
        let start = (cell * self.window).saturating_sub(self.offset).max(to.start().get());
        let end = ((cell + 1) * self.window - self.offset).min(to.end().get());
        let len = ByteCount::new(end - start);
        let at = from.start().get() + (start - to.start().get());
        let span = |at| Span::new(ByteOffset::new(at), len).unwrap_or(to);
        let (from, to) = (span(at), span(start));
        let written = if Fault::NoEdges.is_planted() { to } else { round_out(self.blocks, self.size, to) };
        Window { from, to, written, is_direct: false }
    }
}

/// From the first start to the last end.
pub(crate) fn hull(one: Span, other: Span) -> Option<Span> {
    let (start, end) = (one.start().min(other.start()), one.end().max(other.end()));
    Span::between(start, end)
}

const PIECE: usize = 1 << 20;

/// A copy in the journal has the bytes at `from` and those at `written`: as one span if they are adjacent or
/// overlap, else one after the other.
impl Window {
    fn hull(&self) -> Option<Span> {
        let (from, written) = (self.from, self.written);
        let is_near = from.start() <= written.end() && written.start() <= from.end();
        if is_near { hull(from, written) } else { None }
    }

    pub(crate) fn copied(&self) -> Vec<Span> {
        self.hull().map_or_else(|| vec![self.from, self.written], |hull| vec![hull])
    }

    pub(crate) fn read_first(&self) -> Vec<Span> {
        if self.is_direct { vec![self.from] } else { self.copied() }
    }

    fn moved_at(&self) -> usize {
        self.hull().map_or(0, |hull| distance(hull.start(), self.from.start()))
    }

    pub(crate) fn moved<'b>(&self, copy: &'b [u8]) -> &'b [u8] {
        &copy[self.moved_at()..][..in_memory(self.from.len())]
    }

    pub(crate) fn overwritten<'b>(&self, copy: &'b [u8]) -> &'b [u8] {
        let behind = in_memory(self.from.len());
        let at = self.hull().map_or(behind, |hull| distance(hull.start(), self.written.start()));
        &copy[at..][..in_memory(self.written.len())]
    }

    pub(crate) fn content(&self, copy: &[u8]) -> Vec<u8> {
        let mut content = self.overwritten(copy).to_vec();
        let at = distance(self.written.start(), self.to.start());
        let moved = self.moved(copy);
        content[at..at + moved.len()].copy_from_slice(moved);
        content
    }

    pub(crate) fn fits(&self, record: &Record) -> bool {
        let len: u64 = self.copied().iter().map(|span| span.len().get()).sum();
        record.saved().is_none_or(|saved| {
            (saved.len, saved.at, saved.moved) == (len, self.moved_at() as u64, self.from.len().get())
        })
    }

    pub(crate) fn kind(&self, copy: &[u8]) -> Kind {
        let (at, moved) = (self.moved_at(), self.moved(copy));
        let rest = hash_both(&copy[..at], &copy[at + moved.len()..]);
        let (len, at, count) = (copy.len() as u64, at as u64, moved.len() as u64);
        Kind::Copied { moved: hash(moved), saved: Saved { len, at, moved: count, rest } }
    }
}

pub(crate) fn distance(from: ByteOffset, to: ByteOffset) -> usize {
    to.checked_since(from).map_or(usize::MAX, in_memory)
}

pub(crate) fn read(disks: &mut Disks<'_>, span: Span) -> Result<Vec<u8>> {
    let mut bytes = vec![0; in_memory(span.len())];
    disks.read(Device::Data, span.start(), &mut bytes)?;
    Ok(bytes)
}

/// Where they are if `from` is moved to `to`: whole physical sectors.
pub(crate) fn holes(disks: &mut Disks<'_>, from: Span, to: Span, blocks: Boundary) -> Vec<Span> {
    let shifted = |hole: Span| {
        let hole = hole.common(from)?;
        let at = |byte: ByteOffset| to.start().checked_add(byte.checked_since(from.start())?);
        let (start, end) = (blocks.ceil(at(hole.start())?)?, blocks.floor(at(hole.end())?)?);
        Span::between(start, end).filter(|hole| !hole.is_empty())
    };
    disks.get(Device::Data).holes(from).into_iter().filter_map(shifted).collect()
}

fn write_sparse(disks: &mut Disks<'_>, span: Span, bytes: &[u8], holes: &[Span]) -> Result<()> {
    let write = |disks: &mut Disks<'_>, at: usize, bytes: &[u8]| match bytes {
        [] => Ok(()),
        _ => disks.write(Device::Data, ByteOffset::new(span.start().get() + at as u64), bytes),
    };
    let mut at = 0;
    for hole in holes {
        let (start, len) = (distance(span.start(), hole.start()), in_memory(hole.len()));
        // The disk may be wrong, and the bytes are what the journal promises.
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let zeros = bytes.get(start..start.saturating_add(len)).filter(|zeros| is_zero(zeros));
        let Some(zeros) = zeros.filter(|_| start >= at) else { continue };
        write(disks, at, &bytes[at..start])?;
        if disks.get(Device::Data).punch(*hole).is_err() {
            write(disks, start, zeros)?;
        }
        at = start + len;
    }
    write(disks, at, &bytes[at..])
}

pub(crate) fn write_without(
    disks: &mut Disks<'_>,
    span: Span,
    bytes: &[u8],
    holes: &[Span],
    kept: &[Span],
) -> Result<()> {
    let parts = span.gaps(kept.iter().copied());
    if parts == [span] {
        return write_sparse(disks, span, bytes, holes);
    }
    for part in parts {
        let from = distance(span.start(), part.start());
        disks.write(Device::Data, part.start(), &bytes[from..from + in_memory(part.len())])?;
    }
    Ok(())
}

pub(crate) fn holds(disks: &mut Disks<'_>, span: Span, moved: Hash) -> Result<bool> {
    disks.get(Device::Data).drop_cache(span);
    is_cached(disks, &[span], moved)
}

/// The cache must have been dropped before.
pub(crate) fn is_cached(disks: &mut Disks<'_>, spans: &[Span], moved: Hash) -> Result<bool> {
    let mut hasher = Hasher::default();
    let longest = spans.iter().map(|span| in_memory(span.len())).max().unwrap_or(0);
    let mut bytes = vec![0; PIECE.min(longest)];
    for piece in spans.iter().flat_map(|span| span.pieces(ByteCount::new(PIECE as u64))) {
        let bytes = &mut bytes[..in_memory(piece.len())];
        disks.read(Device::Data, piece.start(), bytes)?;
        hasher.add(bytes);
    }
    Ok(hasher.finish() == moved)
}

pub(crate) fn changed(span: Span) -> RelocateError {
    let (start, len) = (span.start(), span.len().get());
    RelocateError::Damaged(format!("the {len} bytes at byte {start} differ from the journal"))
}
