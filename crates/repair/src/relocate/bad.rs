//! Bytes that cannot be read, and what is written for them.

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::relocate::disk::{Disks, SECTOR};
use crate::relocate::error::{Device, RelocateError};
use crate::relocate::job::{Job, Move};
use crate::relocate::journal::in_memory;
use crate::relocate::sequence::Sequence;

/// The windows that may be in flight.
pub(crate) const IN_FLIGHT: u64 = 2;

/// Bytes that could not be read. Where they were to go there is [`filler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Where they could not be read.
    pub from: Span,
    /// Where they were to go. The same place, if they only share a physical sector with what was moved, or
    /// were to be overwritten.
    pub to: ByteOffset,
}

impl Bad {
    fn distance(self) -> i128 {
        i128::from(self.to.get()) - i128::from(self.from.start().get())
    }

    /// This and `next` as one, if they are adjacent or overlap and go the same way.
    pub(crate) fn joined(self, next: Self) -> Option<Self> {
        let from = crate::relocate::sequence::hull(self.from, next.from)?;
        let is_near = next.from.start() <= self.from.end() && self.from.start() <= next.from.start();
        (is_near && self.distance() == next.distance()).then_some(Self { from, to: self.to })
    }
}

/// In the order of where they were to go, and each byte once.
pub(crate) fn normal(mut list: Vec<Bad>) -> Vec<Bad> {
    list.sort_unstable_by_key(|bad| (bad.to, bad.from.start(), bad.from.len()));
    let mut joined: Vec<Bad> = Vec::with_capacity(list.len());
    for bad in list {
        match joined.last_mut().and_then(|last| Some((last.joined(bad)?, last))) {
            Some((both, last)) => *last = both,
            None => joined.push(bad),
        }
    }
    joined
}

/// What is written instead of the sector at byte `at` if that cannot be read: this text, again and again.
pub fn filler(at: ByteOffset) -> [u8; 512] {
    let text = format!("straddle: unreadable sector at byte {:019};\n", at.get());
    let mut sector = [0; 512];
    for (byte, letter) in sector.iter_mut().zip(text.bytes().cycle()) {
        *byte = letter;
    }
    sector
}

/// The sectors of a read that failed.
const PIECE: usize = 1 << 16;

/// Reads what can be read, and has the [`filler`] for the rest, which it returns.
pub(crate) fn read_rest(disks: &mut Disks<'_>, span: Span, bytes: &mut [u8]) -> Vec<Span> {
    let disk = disks.get(Device::Data);
    if disk.read(span.start(), bytes).is_ok() {
        return Vec::new();
    }
    let mut bad = Vec::new();
    let mut at = span.start().get();
    for piece in bytes.chunks_mut(PIECE) {
        if disk.read(ByteOffset::new(at), piece).is_ok() {
            at += piece.len() as u64;
            continue;
        }
        for sector in piece.chunks_mut(usize::try_from(SECTOR).unwrap_or(usize::MAX)) {
            let place = ByteOffset::new(at);
            if disk.read(place, sector).is_err() {
                sector.copy_from_slice(&filler(place)[..sector.len()]);
                bad.extend(Span::new(place, ByteCount::new(sector.len() as u64)));
            }
            at += sector.len() as u64;
        }
    }
    bad
}

/// Bad sectors as they are listed, when those of `from` go to `to`.
pub(crate) fn listed(bad: &[Span], from: Span, to: Span) -> Vec<Bad> {
    let of = |sector: &Span| {
        let offset = sector.start().checked_since(from.start()).filter(|_| from.contains(*sector));
        let at = offset.map_or(sector.start(), |offset| ByteOffset::new(to.start().get() + offset.get()));
        Bad { from: *sector, to: at }
    };
    normal(bad.iter().map(of).collect())
}

/// The physical sectors at which something could not be read, and which none of the first `done` windows of
/// `job` has written, nor the two that may be in flight, nor anything that wrote to `others`. They hold what
/// they held before the moves, whether that can be read by now or not.
pub(crate) fn untouched(job: &Job, done: u64, list: &[Bad], others: &[Span]) -> Vec<Span> {
    let forward = Sequence::forward(job);
    let (sources, written) = (forward.sources(done), forward.written(done.saturating_add(IN_FLIGHT)));
    let is_moved = |bad: &&Bad| {
        let is_own = |(from, to): &(Span, ByteOffset)| {
            let way = Bad { from: *from, to: *to };
            from.overlaps(bad.from) && way.distance() == bad.distance()
        };
        bad.distance() != 0 && sources.iter().any(is_own)
    };
    let mut spans: Vec<Span> = Vec::new();
    for bad in list.iter().filter(is_moved) {
        let all = job.round_out(bad.from);
        let mut at = all.start();
        while let Some(block) = block_at(job, at, all.end()) {
            at = block.end();
            if !written.iter().chain(others).any(|span| span.overlaps(block)) {
                spans.push(block);
            }
        }
    }
    spans.sort_unstable_by_key(|span| span.start());
    spans.dedup();
    spans
}

/// The list when all `moves` are complete. A filler that was written where a later move began has moved with it:
/// whether it was there already is seen by what is in the new place.
pub(crate) fn settled(disks: &mut Disks<'_>, moves: &[Move], list: &[Bad]) -> Vec<Bad> {
    let mut settled = Vec::new();
    for bad in list {
        let place = Span::new(bad.to, bad.from.len());
        if !moves.iter().any(|one| place.is_some_and(|place| one.from.overlaps(place))) {
            settled.push(*bad);
            continue;
        }
        for offset in (0..bad.from.len().get()).step_by(in_memory(ByteCount::new(SECTOR))) {
            let offset = ByteCount::new(offset);
            let (at, to) = (bad.from.start().checked_add(offset), bad.to.checked_add(offset));
            let Some((at, to, from)) = at.zip(to).and_then(|(at, to)| Some((at, to, sector_at(at)?))) else {
                break;
            };
            settled.push(Bad { from, to: taken_along(disks, moves, at, to) });
        }
    }
    normal(settled)
}

/// Where the filler for the sector at byte `from` is, which was written at byte `at`.
fn taken_along(disks: &mut Disks<'_>, moves: &[Move], from: ByteOffset, at: ByteOffset) -> ByteOffset {
    let (filler, mut bytes) = (filler(from), [0; 512]);
    moves.iter().fold(at, |at, one| {
        let is_source = sector_at(at).is_some_and(|sector| one.from.contains(sector));
        let offset = at.checked_since(one.from.start()).filter(|_| is_source);
        let next = offset.and_then(|offset| one.to.checked_add(offset));
        let mut holds =
            |next: &ByteOffset| disks.read(Device::Data, *next, &mut bytes).is_ok() && bytes == filler;
        next.filter(|next| holds(next)).unwrap_or(at)
    })
}

fn sector_at(at: ByteOffset) -> Option<Span> {
    Span::new(at, ByteCount::new(SECTOR))
}

/// The physical sector that begins at `at`, up to `end`.
fn block_at(job: &Job, at: ByteOffset, end: ByteOffset) -> Option<Span> {
    let next = job.blocks.floor(at)?.checked_add(job.blocks.size())?.min(end);
    Span::between(at, next).filter(|block| !block.is_empty())
}

/// What was found to be unreadable, and whether that stops a run.
#[derive(Debug, Default)]
pub(crate) struct Skip {
    pub(crate) is_on: bool,
    pub(crate) list: Vec<Bad>,
    /// The block of the journal for what is found next.
    pub(crate) next: u64,
}

impl Skip {
    /// Whether something in `span` could not be read.
    pub(crate) fn touches(&self, span: Span) -> bool {
        self.list.iter().any(|bad| bad.from.overlaps(span))
    }

    /// Whether it is listed already, with the same way or any.
    pub(crate) fn has(&self, bad: Bad, is_same_way: bool) -> bool {
        let is_there = |other: &&Bad| other.from.contains(bad.from);
        self.list.iter().filter(is_there).any(|other| !is_same_way || other.distance() == bad.distance())
    }

    pub(crate) fn len(&self) -> ByteCount {
        ByteCount::new(self.list.iter().map(|bad| bad.from.len().get()).sum())
    }

    /// Reads `span`; the sectors that cannot be read are returned, or are an error.
    pub(crate) fn read(
        &self,
        disks: &mut Disks<'_>,
        span: Span,
        bytes: &mut [u8],
    ) -> Result<Vec<Span>, RelocateError> {
        if self.is_on {
            return Ok(read_rest(disks, span, bytes));
        }
        disks.read(Device::Data, span.start(), bytes).map(|()| Vec::new())
    }

    /// The same; what is in `kept` is not written, and may be unreadable.
    pub(crate) fn read_without(
        &self,
        disks: &mut Disks<'_>,
        span: Span,
        kept: &[Span],
        bytes: &mut [u8],
    ) -> Result<Vec<Span>, RelocateError> {
        let parts = span.gaps(kept.iter().copied());
        if parts == [span] {
            return self.read(disks, span, bytes);
        }
        read_rest(disks, span, bytes);
        let mut bad = Vec::new();
        for part in parts {
            let from = part.start().checked_since(span.start()).map_or(0, in_memory);
            if let Some(bytes) = bytes.get_mut(from..from + in_memory(part.len())) {
                bad.extend(self.read(disks, part, bytes)?);
            }
        }
        Ok(bad)
    }
}
