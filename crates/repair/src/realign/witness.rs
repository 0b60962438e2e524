//! A few sectors of the data that move, as they were before. They distinguish the disk of a journal from
//! another one, and the latest copy of a journal from an older one. What a window in flight may have left in
//! two places is not compared here: the engine does that.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::Medium;
use straddle_device::hex::encode as hex;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Realign, guard};
use crate::relocate::{Move, Whereabouts};

/// The number of witnesses between the ends of moves: each costs a read when the move begins.
const SPREAD: u64 = 64;
/// How far one is searched for, and the last one of a move. Btrfs begins 64 KiB after its start.
const REACH: u64 = 128 << 10;
const LAST: u64 = 4 << 20;
/// A sector is written as a whole or not at all.
const SECTOR: usize = 512;
/// The bytes of SHA-256 that are kept.
const KEPT: usize = 8;
/// The bytes of a witness as JSON, at most.
const LONGEST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Witness {
    /// Where it is before the moves.
    at: u64,
    /// The first bytes of its hash, in hexadecimal.
    hash: String,
}

/// The most bytes that the witnesses of this number of moves take in the journal.
pub(super) fn most_bytes(moves: usize) -> usize {
    LONGEST.saturating_mul(usize::try_from(SPREAD).unwrap_or(0).saturating_add(3 * moves))
}

/// Takes the first and the last sector of each move that hold more than one value, as its first window
/// changes one of the two, and some between, as far as they can be read. None is in `besides`, where the move
/// writes something else.
pub(super) fn take(disk: &dyn Medium, realign: &Realign, besides: &[Span]) -> Vec<Witness> {
    let fields = guard::fields(realign);
    let moves = &realign.moves;
    let is_data = |at: u64| {
        let places =
            std::iter::once(ByteOffset::new(at)).chain(moves.iter().filter_map(|one| moved(one, at)));
        let sectors = places.filter_map(|at| Span::new(at, ByteCount::new(SECTOR as u64)));
        !sectors.into_iter().any(|sector| besides.iter().any(|other| other.overlaps(sector)))
    };
    let telling = |at: ByteOffset, len: u64, is_last: bool| {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        disk.read_at(at, &mut bytes).ok()?;
        let sectors = (at.get()..).step_by(SECTOR).zip(bytes.chunks_exact(SECTOR));
        let is_telling =
            |(at, sector): &(u64, &[u8])| sector.windows(2).any(|pair| pair[0] != pair[1]) && is_data(*at);
        let mut sectors = sectors.filter(is_telling);
        let (at, sector) = if is_last { sectors.last() } else { sectors.next() }?;
        Some(Witness { at, hash: hash(sector, at, &fields) })
    };
    let total = moves.iter().fold(0, |sum: u64, one| sum.saturating_add(one.from.len().get()));
    let step = (total / SPREAD).next_multiple_of(SECTOR as u64).max(SECTOR as u64);
    let mut found: Vec<Witness> = Vec::new();
    for one in moves {
        let (mut at, end) = (one.from.start().get(), one.from.end().get());
        while at < end {
            found.extend(telling(ByteOffset::new(at), step.min(REACH).min(end - at), false));
            at = at.saturating_add(step);
        }
        let len = one.from.len().get().min(LAST);
        found.extend(telling(ByteOffset::new(end - len), len, true));
    }
    found.dedup();
    found
}

/// Where a move brings the byte at `at`, if it is one of its own.
fn moved(one: &Move, at: u64) -> Option<ByteOffset> {
    let skipped = at.checked_sub(one.from.start().get()).filter(|skipped| *skipped < one.from.len().get())?;
    one.to.checked_add(ByteCount::new(skipped))
}

/// The hash of a sector that is at byte `at` before the moves, without `fields`, which a move changes.
fn hash(sector: &[u8], at: u64, fields: &[Span]) -> String {
    let mut sector = sector.to_vec();
    for field in fields {
        let within = |byte: ByteOffset| usize::try_from(byte.get().saturating_sub(at)).unwrap_or(usize::MAX);
        let range = within(field.start()).min(sector.len())..within(field.end()).min(sector.len());
        sector.get_mut(range).into_iter().for_each(|bytes| bytes.fill(0));
    }
    hex(&Sha256::digest(&sector)[..KEPT])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Testimony {
    /// All that can be read are there, or none can be read.
    There,
    /// Some of them are.
    Changed,
    /// None of them is there.
    Absent,
}

pub(super) fn testimony(
    disk: &dyn Medium,
    (realign, witnesses): (&Realign, &[Witness]),
    whereabouts: &Whereabouts,
) -> Testimony {
    let fields = guard::fields(realign);
    let (mut there, mut changed) = (0, 0);
    for witness in witnesses {
        let mut bytes = [0; SECTOR];
        let at = whereabouts.of(ByteOffset::new(witness.at));
        let Some(_) = at.filter(|at| disk.read_at(*at, &mut bytes).is_ok()) else { continue };
        let is_there = hash(&bytes, witness.at, &fields) == witness.hash;
        *if is_there { &mut there } else { &mut changed } += 1;
    }
    match (there, changed) {
        (_, 0) => Testimony::There,
        (0, _) => Testimony::Absent,
        _ => Testimony::Changed,
    }
}
