//! Bytes that cannot be read, and what is written for them.

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::disk::{Disks, SECTOR};
use crate::error::{Device, RelocateError};

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
    fn joined(self, next: Self) -> Option<Self> {
        let from = crate::sequence::hull(self.from, next.from)?;
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

    /// The number of bytes.
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
}
