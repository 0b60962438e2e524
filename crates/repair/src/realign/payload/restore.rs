//! The marker, written over a table that another program wrote since.
//!
//! The law of this module: what the steps overwrite is what the disk holds now, so that a backup of it is
//! complete; and when all of them are written, the disk has the marker whatever it had before.

use straddle_device::Medium;
use straddle_layout::{Stack, TableKind};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::super::guard::Guard;
use super::{Payload, Place, UNIT};
use crate::encode::Step;
use crate::fingerprint::{bytes_of, structures};
use crate::realign::MoveError;

/// The sectors of the GPT on the disk that are in none of `places`: they are the same in all three tables.
pub(super) fn rest(disk: &dyn Medium, stack: &Stack, places: &[Place]) -> Result<Vec<Guard>, MoveError> {
    if !matches!(stack.kind, TableKind::Gpt) {
        return Ok(Vec::new());
    }
    let mut rest = Vec::new();
    let taken: Vec<Span> = places.iter().filter_map(Place::span).collect();
    for span in structures(disk, stack, stack.block)? {
        let bytes = bytes_of(disk, span)?;
        let mut at = span.start();
        let mut run: Option<(ByteOffset, Vec<u8>)> = None;
        for unit in bytes.chunks(UNIT) {
            let len = ByteCount::new(unit.len() as u64);
            let is_taken = Span::new(at, len).is_none_or(|unit| taken.iter().any(|span| span.overlaps(unit)));
            match &mut run {
                _ if is_taken => rest.extend(run.take()),
                Some((_, bytes)) => bytes.extend_from_slice(unit),
                None => run = Some((at, unit.to_vec())),
            }
            at = at.checked_add(len).unwrap_or(span.end());
        }
        rest.extend(run);
    }
    Ok(rest.into_iter().map(|(at, bytes)| Guard::of_bytes(at, bytes)).collect())
}

impl Payload {
    /// The steps that give the disk the marker. What counts is written last.
    pub(in crate::realign) fn restoring(&self, disk: &dyn Medium) -> Result<Vec<Step>, MoveError> {
        let rest = self.rest.iter().map(|rest| (rest.at(), rest.bytes()));
        let places = self.places.iter().rev().map(|place| (place.at, place.marked.as_slice()));
        let mut steps = Vec::new();
        for (at, new) in rest.chain(places) {
            let mut old = vec![0; new.len()];
            disk.read_at(ByteOffset::new(at), &mut old)?;
            if old != new {
                let what = "the marker of the move".to_owned();
                steps.push(Step::Write { at, old, new: new.to_vec(), what });
                steps.push(Step::Flush);
            }
        }
        Ok(steps)
    }
}
