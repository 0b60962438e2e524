//! The windows that moves are cut into, in the order in which they are written.
//!
//! The grid that cuts them lies on the physical sectors of the disk, counted at the destination. So a write
//! covers whole physical sectors, but for the two ends of a move: there the rest of the sector is read first
//! and written with it.

use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use super::{Direction, Fault, Job, round_out};
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Span,
    pub(crate) to: Span,
    /// `to`, and the rest of the physical sectors at its ends.
    pub(crate) written: Span,
    /// Whether the bytes at `from` stay intact for as long as the window may have to be written again, so
    /// that the journal needs no copy.
    pub(crate) is_direct: bool,
}

/// The windows of several moves, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) direction: Direction,
    size: ByteCount,
    pub(crate) blocks: Boundary,
    window: u64,
    /// What is added to an offset so that the grid begins at zero.
    offset: u64,
    parts: Vec<Part>,
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    from: Span,
    to: Span,
    /// The number of its first window, and of its last one.
    windows: (u64, u64),
    /// The cells of the grid that the destination touches, from the lowest to the highest.
    cells: (u64, u64),
}

impl Sequence {
    pub(crate) fn forward(job: &Job) -> Self {
        let shifts = job.moves.iter().filter_map(|one| Some((one.from, one.destination()?)));
        Self::of(job, Direction::Forward, shifts)
    }

    /// The way back when the first `done` windows of the job have been moved.
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

    /// What the first `done` windows move, as one span for each move, and where to.
    pub(crate) fn sources(&self, done: u64) -> Vec<(Span, ByteOffset)> {
        let ends =
            self.ends(done).filter_map(|(one, other)| hull(one.from, other.from).zip(hull(one.to, other.to)));
        ends.map(|(from, to)| (from, to.start())).collect()
    }

    /// What the first `done` windows write, as one span for each move.
    pub(crate) fn written(&self, done: u64) -> Vec<Span> {
        self.ends(done).filter_map(|(one, other)| hull(one.written, other.written)).collect()
    }

    /// The first and the last one of the first `done` windows in each move. Those between are adjacent.
    fn ends(&self, done: u64) -> impl DoubleEndedIterator<Item = (Window, Window)> {
        self.parts.iter().filter(move |part| part.windows.0 < done).map(move |part| {
            let (first, last) = part.windows;
            (self.bare(first), self.bare(last.min(done - 1)))
        })
    }

    /// The number of bytes that the first `done` windows move.
    pub(crate) fn bytes(&self, done: u64) -> u64 {
        self.sources(done).iter().map(|(from, _)| from.len().get()).sum()
    }

    /// The window with this number, which is below the count.
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

    /// The window without what its neighbours decide.
    fn bare(&self, index: u64) -> Window {
        let part = self.parts.partition_point(|part| part.windows.0 <= index).saturating_sub(1);
        let Part { from, to, windows, cells } = self.parts[part];
        // Upwards from the end and downwards from the start: the destination reaches only sources of this
        // window and of those before.
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

/// The span from the start of the one to the end of the other, whichever comes first.
pub(crate) fn hull(one: Span, other: Span) -> Option<Span> {
    let (start, end) = (one.start().min(other.start()), one.end().max(other.end()));
    Span::between(start, end)
}
