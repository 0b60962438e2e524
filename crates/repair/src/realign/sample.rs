//! Samples of the data that move. They tell a journal of the data on the disk from one that is left over from
//! earlier data.
//!
//! The law of this module: it only reads. A journal that no marker names counts only if the samples are where it
//! says that they are.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::Medium;
use straddle_device::hex::encode as hex;
use straddle_relocate::{Advance, State};
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

/// The most bytes that the samples of so many moves take in the journal.
pub(super) fn most_bytes(moves: usize) -> usize {
    // Each move has one that is begun.
    LONGEST.saturating_mul(usize::try_from(SAMPLES).unwrap_or(0).saturating_add(moves))
}

/// Takes samples of what moves: sectors that hold more than one value, as far as they can be read.
pub(super) fn take(disk: &dyn Medium, realign: &Realign) -> Vec<Sample> {
    let (moves, fields) = (realign.moves(), guard::fields(realign));
    let total = moves.iter().fold(0, |sum: u64, one| sum.saturating_add(one.from.len().get()));
    let step = (total / SAMPLES).next_multiple_of(SECTOR).max(SECTOR);
    let mut samples = Vec::new();
    for one in moves {
        let (mut at, end) = (one.from.start().get(), one.from.end().get());
        while at < end {
            let len = step.min(REACH).min(end - at) / SECTOR * SECTOR;
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
            if disk.read_at(ByteOffset::new(at), &mut bytes).is_ok() {
                let sectors = (at..).step_by(512).zip(bytes.chunks(512));
                let found = sectors.into_iter().find(|(_, sector)| is_telling(sector));
                samples.extend(found.map(|(at, sector)| Sample { at, hash: hash(sector, at, &fields) }));
            }
            at = at.saturating_add(step);
        }
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

/// Whether the data are where the journal of this plan, in the given state, says that they are. Of what is on its way, a
/// power cut may have left half: the journal has the rest.
pub(super) fn are_there(
    disk: &dyn Medium,
    (realign, samples): (&Realign, &[Sample]),
    state: State,
    (advance, proof): (&Advance, Proof),
) -> bool {
    let fields = guard::fields(realign);
    let holds = |at: Option<u64>, sample: &Sample| {
        let mut bytes = [0; 512];
        let is_read = at.is_some_and(|at| disk.read_at(ByteOffset::new(at), &mut bytes).is_ok());
        is_read.then(|| hash(&bytes, sample.at, &fields) == sample.hash)
    };
    let (mut settled, mut on_its_way) = (Tally::default(), Tally::default());
    for sample in samples {
        let Some(sector) = Span::new(ByteOffset::new(sample.at), ByteCount::new(SECTOR)) else { continue };
        let Some(one) = realign.moves().iter().find(|one| one.from.contains(sector)) else { continue };
        let to = one.to.get().checked_add(sample.at - one.from.start().get());
        let (old, new) = (|| holds(Some(sample.at), sample), || holds(to, sample));
        let is_in = |spans: &[Span]| spans.iter().any(|span| span.overlaps(sector));
        match state {
            State::NotBegun | State::Back => settled.add([old(), None]),
            State::Moved => settled.add([None, new()]),
            State::Moving { .. } if is_in(&advance.durable) => settled.add([None, new()]),
            State::Moving { .. } if !is_in(&advance.begun) => settled.add([old(), None]),
            State::Moving { .. } | State::RollingBack => on_its_way.add([old(), new()]),
        }
    }
    let (share, of) = if proof == Proof::Most { (3, 4) } else { (1, 1) };
    // A window in flight may have overwritten its source and not be at its destination: the journal has it, and
    // tells whether anything else is there.
    let is_moving = matches!(state, State::Moving { .. });
    let is_in_journal = is_moving && (proof == Proof::Exact || settled.read > 0);
    let (on_way, of_way) = if is_in_journal { (0, 1) } else { (1, 2) };
    // Data of one value everywhere have no samples.
    let is_known = settled.read + on_its_way.read > 0 || (proof == Proof::Exact && samples.is_empty());
    is_known && settled.is_share(share, of) && on_its_way.is_share(on_way, of_way)
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
