//! Samples of the data that move. They tell a journal of the data on the disk from one that is left over from
//! earlier data, and from an older copy of the same journal.
//!
//! The law of this module: it only reads. A journal counts only if the samples are where it says that they are; that
//! of a disk with the marker only if each of them is.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::Medium;
use straddle_device::hex::encode as hex;
use straddle_relocate::{Found, Move, Whereabouts};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Realign, guard};

/// How many samples are taken of all that moves: each costs a read when the move begins.
const SAMPLES: u64 = 64;
/// The bytes of a sample: a sector is written as a whole or not at all.
const SECTOR: u64 = 512;
/// How far a sample is looked for.
///
/// Btrfs and ReiserFS begin 64 KiB behind the start.
const REACH: u64 = 128 << 10;
/// How far from the end of what moves the last sample is looked for: a move that goes up begins there.
const LAST: u64 = 4 << 20;
/// The bytes of SHA-256 that are kept.
const KEPT: usize = 8;
/// The bytes of a sample as JSON, at most.
const LONGEST: usize = 64;

/// A sector that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    /// Where it is before the moves.
    at: u64,
    /// The first bytes of its hash, in hexadecimal.
    hash: String,
}

/// The most bytes that the samples of this number of moves take in the journal.
pub(super) fn most_bytes(moves: usize) -> usize {
    // Each move has one that is begun, and the last one.
    LONGEST.saturating_mul(usize::try_from(SAMPLES).unwrap_or(0).saturating_add(2 * moves))
}

/// Takes samples of what moves: sectors that hold more than one value, as far as they can be read. The first and the
/// last one of each move are among them: the first window of a move changes one of these.
pub(super) fn take(disk: &dyn Medium, realign: &Realign) -> Vec<Sample> {
    let (moves, fields) = (realign.moves(), guard::fields(realign));
    let total = moves.iter().fold(0, |sum: u64, one| sum.saturating_add(one.from.len().get()));
    let step = (total / SAMPLES).next_multiple_of(SECTOR).max(SECTOR);
    let mut samples: Vec<Sample> = Vec::new();
    for (index, one) in moves.iter().enumerate() {
        // What a partition leaves again is not there yet.
        let is_second = |earlier: &Move| earlier.destination().is_some_and(|place| place.overlaps(one.from));
        if moves[..index].iter().any(is_second) {
            continue;
        }
        let telling = |at: u64, len: u64, is_last: bool| {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
            disk.read_at(ByteOffset::new(at), &mut bytes).ok()?;
            let mut found =
                (at..).step_by(512).zip(bytes.chunks(512)).filter(|(_, sector)| is_telling(sector));
            let (at, sector) = if is_last { found.last() } else { found.next() }?;
            Some(Sample { at, hash: hash(sector, at, &fields) })
        };
        let (mut at, end) = (one.from.start().get(), one.from.end().get() / SECTOR * SECTOR);
        let first = at;
        while at < end {
            samples.extend(telling(at, step.min(REACH).min(end - at) / SECTOR * SECTOR, false));
            at = at.saturating_add(step);
        }
        let pieces = (1..=LAST / REACH).map(|piece| end.saturating_sub(piece * REACH).max(first));
        let last = pieces.scan(end, |end, at| Some((at, std::mem::replace(end, at) - at)));
        let last = last.take_while(|(_, len)| *len > 0).find_map(|(at, len)| telling(at, len, true));
        samples.extend(last.filter(|last| samples.last() != Some(last)));
    }
    samples
}

/// Whether a sector has more than one value in it.
fn is_telling(sector: &[u8]) -> bool {
    sector.windows(2).any(|pair| pair[0] != pair[1])
}

/// Returns the hash of a sector that is at byte `at` before the moves, without those of the `fields` that are in it:
/// a move changes what records where its partition begins.
pub(super) fn hash(sector: &[u8], at: u64, fields: &[Span]) -> String {
    let mut sector = sector.to_vec();
    for field in fields {
        let within = |byte: ByteOffset| usize::try_from(byte.get().saturating_sub(at)).unwrap_or(usize::MAX);
        let range = within(field.start()).min(sector.len())..within(field.end()).min(sector.len());
        sector.get_mut(range).into_iter().for_each(|bytes| bytes.fill(0));
    }
    hex(&Sha256::digest(&sector)[..KEPT])
}

/// How sure it must be that a journal is that of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing else tells so: none of the data may have been written since, nor be on their way.
    Whole,
    /// The user asks for it: none of the data may have been written since.
    Exact,
    /// Nothing is to be written: some of the data may have been written since.
    Most,
}

/// Whether the data are where they are said to be. Of what is on its way, a power cut may have left half: the journal
/// has the rest.
pub(super) fn are_there(
    disk: &dyn Medium,
    (realign, samples): (&Realign, &[&Sample]),
    (whereabouts, proof): (&Whereabouts, Proof),
) -> bool {
    let fields = guard::fields(realign);
    let (mut settled, mut on_its_way) = (Tally::default(), Tally::default());
    for sample in samples {
        match whereabouts.of(ByteOffset::new(sample.at)) {
            Found::At(at) => settled.add([sample.is_at(disk, at, &fields), None]),
            Found::Either(old, new) => {
                on_its_way.add([old, new].map(|at| sample.is_at(disk, at, &fields)));
            }
        }
    }
    let (share, of) = if proof == Proof::Most { (3, 4) } else { (1, 1) };
    // A window in flight may have overwritten its source and not be at its destination: the journal has it, and
    // tells whether anything else is there.
    let is_in_journal = proof == Proof::Exact || settled.read > 0;
    let (on_way, of_way) = if is_in_journal { (0, 1) } else { (1, 2) };
    // Data of one value everywhere have no samples.
    let is_known = settled.read + on_its_way.read > 0 || (proof == Proof::Exact && samples.is_empty());
    is_known && settled.is_share(share, of) && on_its_way.is_share(on_way, of_way)
}

/// Where something else is than the data that are said to be there. What could not be read once may be anything, and
/// so may what is in one of the spans `besides`: that is restored from the journal.
pub(super) fn mismatch(
    disk: &dyn Medium,
    (realign, samples): (&Realign, &[Sample]),
    (whereabouts, besides): (&Whereabouts, &[Span]),
) -> Option<ByteOffset> {
    let is_free = |at: ByteOffset| {
        let sector = Span::new(at, ByteCount::new(SECTOR));
        sector.is_none_or(|sector| besides.iter().any(|span| span.overlaps(sector)))
    };
    let fields = guard::fields(realign);
    let kept = samples.iter().filter(|sample| !whereabouts.is_bad(ByteOffset::new(sample.at)));
    kept.into_iter().find_map(|sample| match whereabouts.of(ByteOffset::new(sample.at)) {
        Found::At(at) if !is_free(at) && sample.is_at(disk, at, &fields) == Some(false) => Some(at),
        _ => None,
    })
}

impl Sample {
    /// Where it is before the moves; `None` beyond what can be addressed.
    pub(super) fn span(&self) -> Option<Span> {
        Span::new(ByteOffset::new(self.at), ByteCount::new(SECTOR))
    }

    /// Whether this is at byte `at`; `None` if that cannot be read.
    fn is_at(&self, disk: &dyn Medium, at: ByteOffset, fields: &[Span]) -> Option<bool> {
        let mut bytes = [0; 512];
        disk.read_at(at, &mut bytes).ok()?;
        Some(hash(&bytes, self.at, fields) == self.hash)
    }
}

/// How many of the samples that could be read are there.
#[derive(Default)]
struct Tally {
    read: usize,
    there: usize,
}

impl Tally {
    /// Counts a sample that may be in two places.
    fn add(&mut self, found: [Option<bool>; 2]) {
        self.read += usize::from(found.iter().any(Option::is_some));
        self.there += usize::from(found.contains(&Some(true)));
    }

    /// Whether at least `share` in `of` are there.
    fn is_share(&self, share: usize, of: usize) -> bool {
        self.there * of >= self.read * share
    }
}
