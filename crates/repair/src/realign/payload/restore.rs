//! The marker, written over a table that another program wrote since.
//!
//! Invariants: what the steps overwrite is what the disk holds now, so that a backup of it is
//! complete; and when all of them are written, the disk has the marker whatever it had before.

use straddle_device::Medium;
use straddle_layout::format::mbr;
use straddle_layout::{Stack, TableKind};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::super::guard::Guard;
use super::{Payload, Place, Table, UNIT};
use crate::encode::Step;
use crate::fingerprint::{bytes_of, structures};
use crate::realign::{Journal, MoveError, Realign};

/// The sectors of the GPT on the disk, with its protective MBR, that are in none of `places`: they are the same in
/// all three tables. What moves, or holds the journal, is none of them, whatever a header says.
pub(super) fn rest(
    disk: &dyn Medium,
    stack: &Stack,
    places: &[Place],
    realign: &Realign,
) -> Result<Vec<Guard>, MoveError> {
    if !matches!(stack.kind, TableKind::Gpt) {
        return Ok(Vec::new());
    }
    let mut rest = Vec::new();
    let journal = match realign.journal {
        Journal::Inside(place) => Some(place),
        Journal::Elsewhere { .. } => None,
    };
    let moved = realign.moves.iter().flat_map(|one| [Some(one.from), one.destination()]);
    let taken = moved.chain([journal]).chain(places.iter().map(Place::span));
    let taken: Vec<Span> = taken.flatten().collect();
    for (_, span) in structures(disk, stack, stack.block)? {
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
    /// Whether what is the same in all three tables is on the disk, as far as it can be read. Of the first sector
    /// only the entries count: a boot loader may have been installed.
    pub(in crate::realign) fn has_rest(&self, disk: &dyn Medium) -> bool {
        self.rest.iter().all(|rest| {
            let skipped = if rest.at() == 0 { mbr::ENTRIES_AT } else { 0 };
            let mut found = vec![0; rest.bytes().len()];
            let is_read = disk.read_at(ByteOffset::new(rest.at()), &mut found).is_ok();
            !is_read || found.get(skipped..) == rest.bytes().get(skipped..)
        })
    }

    /// The steps that give the disk this table. What counts is written last.
    pub(in crate::realign) fn restoring(
        &self,
        disk: &dyn Medium,
        table: Table,
    ) -> Result<Vec<Step>, MoveError> {
        let rest = self.rest.iter().map(|rest| (rest.at(), rest.bytes()));
        // Nothing has moved if the old table is restored: the places of its records are theirs.
        let records = self.records.iter().rev().filter(|record| table == Table::Old && record.of == table);
        let records = records.map(|record| (record.at, record.bytes.as_slice()));
        let places = self.places.iter().rev().map(|place| (place.at, place.of(table)));
        let mut steps = Vec::new();
        for (at, new) in rest.chain(records).chain(places) {
            let mut old = vec![0; new.len()];
            disk.read_at(ByteOffset::new(at), &mut old)?;
            if old != new {
                let what = "the table of the move".to_owned();
                steps.push(Step::Write { at, old, new: new.to_vec(), what });
                steps.push(Step::Flush);
            }
        }
        Ok(steps)
    }
}
