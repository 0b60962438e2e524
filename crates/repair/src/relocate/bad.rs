//! Bytes that cannot be read, and what is written for them.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Device, Disks, Job, Move, Result, SECTOR, SECTOR_LEN, Sequence, distance, hull, in_memory};

const IN_FLIGHT: u64 = 2;

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

    pub(crate) fn joined(self, next: Self) -> Option<Self> {
        let from = hull(self.from, next.from)?;
        let is_near = next.from.start() <= self.from.end() && self.from.start() <= next.from.start();
        (is_near && self.distance() == next.distance()).then_some(Self { from, to: self.to })
    }
}

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

/// Read at once after a longer read has failed.
const PIECE: usize = 1 << 16;

pub(crate) fn read_rest(disks: &mut Disks<'_>, span: Span, bytes: &mut [u8]) -> Vec<Span> {
    let disk = disks.get(Device::Data);
    let mut bad = Vec::new();
    if disk.read(span.start(), bytes).is_ok() {
        return bad;
    }
    for (at, piece) in (span.start().get()..).step_by(PIECE).zip(bytes.chunks_mut(PIECE)) {
        if disk.read(ByteOffset::new(at), piece).is_ok() {
            continue;
        }
        for (at, sector) in (at..).step_by(SECTOR_LEN).zip(piece.chunks_mut(SECTOR_LEN)) {
            let at = ByteOffset::new(at);
            if disk.read(at, sector).is_err() {
                sector.copy_from_slice(&filler(at)[..sector.len()]);
                bad.extend(Span::new(at, ByteCount::new(sector.len() as u64)));
            }
        }
    }
    bad
}

pub(crate) fn listed(bad: &[Span], from: Span, to: Span) -> Vec<Bad> {
    let of = |sector: &Span| {
        let offset = sector.start().checked_since(from.start()).filter(|_| from.contains(*sector));
        let at = offset.map_or(sector.start(), |offset| ByteOffset::new(to.start().get() + offset.get()));
        Bad { from: *sector, to: at }
    };
    normal(bad.iter().map(of).collect())
}

/// Physical sectors with unreadable bytes that neither the first `done` windows nor the two that may be in
/// flight have written, nor what wrote to `others`: they hold what they held before the moves.
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

/// The list when all `moves` are complete. A filler where a later move began may have moved with it: the
/// bytes in the new place show whether it had.
pub(crate) fn settled(disks: &mut Disks<'_>, moves: &[Move], list: &[Bad]) -> Vec<Bad> {
    let mut settled = Vec::new();
    for bad in list {
        let place = Span::new(bad.to, bad.from.len());
        if !moves.iter().any(|one| place.is_some_and(|place| one.from.overlaps(place))) {
            settled.push(*bad);
            continue;
        }
        let sectors = bad.from.pieces(ByteCount::new(SECTOR));
        for (from, to) in sectors.zip((bad.to.get()..).step_by(SECTOR_LEN)) {
            settled.push(Bad { from, to: taken_along(disks, moves, from.start(), ByteOffset::new(to)) });
        }
    }
    normal(settled)
}

fn taken_along(disks: &mut Disks<'_>, moves: &[Move], from: ByteOffset, at: ByteOffset) -> ByteOffset {
    let (filler, mut bytes) = (filler(from), [0; 512]);
    moves.iter().fold(at, |at, one| {
        let sector = Span::new(at, ByteCount::new(SECTOR));
        let is_source = sector.is_some_and(|sector| one.from.contains(sector));
        let offset = at.checked_since(one.from.start()).filter(|_| is_source);
        let next = offset.and_then(|offset| one.to.checked_add(offset));
        let mut holds =
            |next: &ByteOffset| disks.read(Device::Data, *next, &mut bytes).is_ok() && bytes == filler;
        next.filter(|next| holds(next)).unwrap_or(at)
    })
}

fn block_at(job: &Job, at: ByteOffset, end: ByteOffset) -> Option<Span> {
    let next = job.blocks.floor(at)?.checked_add(job.blocks.size())?.min(end);
    Span::between(at, next).filter(|block| !block.is_empty())
}

#[derive(Debug, Default)]
pub(crate) struct Skip {
    pub(crate) is_on: bool,
    pub(crate) list: Vec<Bad>,
    /// The journal's block for what is found next.
    pub(crate) next: u64,
}

impl Skip {
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

    pub(crate) fn read(&self, disks: &mut Disks<'_>, span: Span, bytes: &mut [u8]) -> Result<Vec<Span>> {
        if self.is_on {
            return Ok(read_rest(disks, span, bytes));
        }
        disks.read(Device::Data, span.start(), bytes).map(|()| Vec::new())
    }

    /// What is in `kept` is not written, and may be unreadable.
    pub(crate) fn read_without(
        &self,
        disks: &mut Disks<'_>,
        span: Span,
        kept: &[Span],
        bytes: &mut [u8],
    ) -> Result<Vec<Span>> {
        let parts = span.gaps(kept.iter().copied());
        if parts == [span] {
            return self.read(disks, span, bytes);
        }
        read_rest(disks, span, bytes);
        let mut bad = Vec::new();
        for part in parts {
            let from = distance(span.start(), part.start());
            if let Some(bytes) = bytes.get_mut(from..from + in_memory(part.len())) {
                bad.extend(self.read(disks, part, bytes)?);
            }
        }
        Ok(bad)
    }
}
