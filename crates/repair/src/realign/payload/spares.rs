//! Sectors of the data that come to where an extended boot record is.
//!
//! The law of this module: a program that puts an old table back writes its records, and destroys what has come to their
//! places: the journal has a copy of that from the beginning.

use serde::{Deserialize, Serialize};
use straddle_device::Medium;
use straddle_device::hex::{decode, encode as hex};
use straddle_relocate::{Found, Whereabouts};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::Payload;
use crate::encode::Step;
use crate::realign::{MoveError, Realign, guard, sample};

/// A sector, as it was before the moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spare {
    /// Where it was.
    at: ByteOffset,
    bytes: Vec<u8>,
}

/// The form in which it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpareFile {
    at: u64,
    bytes: String,
}

impl From<&Spare> for SpareFile {
    fn from(spare: &Spare) -> Self {
        Self { at: spare.at.get(), bytes: hex(&spare.bytes) }
    }
}

impl Spare {
    pub(super) fn of_file(file: &SpareFile) -> Option<Self> {
        Some(Self { at: ByteOffset::new(file.at), bytes: decode(&file.bytes)? })
    }
}

/// Takes them, as far as they can be read.
pub(super) fn take(disk: &dyn Medium, realign: &Realign) -> Vec<Spare> {
    let read = |at: ByteOffset, len: usize| {
        let mut bytes = vec![0; len];
        disk.read_at(at, &mut bytes).ok().map(|()| Spare { at, bytes })
    };
    let places = realign.plan().record_sectors();
    let all = places.into_iter().flat_map(|place| origins(realign, place).map(move |at| (at, place.len())));
    all.filter_map(|(at, len)| read(at, usize::try_from(len.get()).ok()?)).collect()
}

/// Where what the moves bring to the sector `place` was before all of them.
fn origins(realign: &Realign, place: Span) -> impl Iterator<Item = ByteOffset> + '_ {
    let moves = realign.moves();
    moves.iter().enumerate().filter_map(move |(index, one)| {
        let within = place.start().checked_since(one.to)?;
        let first = one.destination()?.contains(place).then(|| one.from.start().checked_add(within))??;
        let back = |at: ByteOffset, earlier: &straddle_relocate::Move| {
            let within = earlier.destination().filter(|to| to.start() <= at && at < to.end());
            within
                .and_then(|to| earlier.from.start().checked_add(at.checked_since(to.start())?))
                .unwrap_or(at)
        };
        Some(moves[..index].iter().rev().fold(first, back))
    })
}

impl Payload {
    /// Whether the journal has a part of what was at `span` before the moves.
    pub(in crate::realign) fn has_spare(&self, span: Option<Span>) -> bool {
        let spans = self
            .spares
            .iter()
            .filter_map(|spare| Span::new(spare.at, ByteCount::new(spare.bytes.len() as u64)));
        span.is_some_and(|span| spans.into_iter().any(|spare| spare.overlaps(span)))
    }

    /// The sectors over which an old table's records lie.
    pub(in crate::realign) fn spared(&self) -> Vec<Span> {
        self.realign.plan().old_records()
    }

    /// What writes those again that something else is in place of, according to where the journal says that the data are,
    /// on the way back if `is_back`.
    pub(in crate::realign) fn respared(
        &self,
        disk: &dyn Medium,
        (places, is_back): (&Whereabouts, bool),
    ) -> Result<Vec<Step>, MoveError> {
        let fields = guard::fields(&self.realign);
        let mut steps = Vec::new();
        for spare in &self.spares {
            let at = match places.of(spare.at) {
                Found::At(at) => at,
                // In a physical sector that a window of others is written to, which keeps what is there.
                Found::Either(one, other) if one == other => one,
                // A window in flight may be read again from there.
                Found::Either(_, new) if is_back => new,
                // It is written again from the old place, or the journal.
                Found::Either(..) => continue,
            };
            let mut old = vec![0; spare.bytes.len()];
            disk.read_at(at, &mut old)?;
            let origin = spare.at.get();
            if sample::hash(&old, origin, &fields) != sample::hash(&spare.bytes, origin, &fields) {
                let what = "data under an extended boot record".to_owned();
                steps.push(Step::Write { at: at.get(), old, new: spare.bytes.clone(), what });
                steps.push(Step::Flush);
            }
        }
        Ok(steps)
    }
}
