//! The marker, written over a table that another program wrote since.
//!
//! The law of this module: what the steps overwrite is what the disk holds now, so that a backup of it is
//! complete; and when all of them are written, the disk has the marker whatever it had before.

use straddle_device::Medium;
use straddle_layout::format::mbr;
use straddle_layout::{Stack, TableKind};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::super::guard::Guard;
use super::{Payload, Place, Table, UNIT};
use crate::encode::Step;
use crate::fingerprint::{bytes_of, structures};
use crate::foresee::lay_over;
use crate::realign::{Journal, MoveError, Realign, Reference};

/// What becomes of the boot code on the disk when the table of the move is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootCode {
    /// It is the one that the journal knows, or there is none.
    Own,
    /// It is another one, and stays.
    Kept,
    /// It is another one, and that of the move, which lists the sectors of GRUB's core image, takes its place.
    Replaced,
}

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

    /// Whether one of the tables has this boot code, or none of them is in the first sector.
    fn knows_boot_code(&self, found: &[u8]) -> bool {
        let places = self.places.iter().filter(|place| place.at == 0);
        let tables = places.flat_map(|place| [&place.old, &place.marked, &place.new]).map(Vec::as_slice);
        let rest = self.rest.iter().filter(|rest| rest.at() == 0).map(Guard::bytes);
        let known: Vec<&[u8]> = tables.chain(rest).collect();
        known.is_empty() || known.iter().any(|bytes| bytes.get(..found.len()) == Some(found))
    }

    /// Lets every table have the boot code that is on the disk, unless there is none: a boot loader was installed since
    /// the journal was made. Not if the move changes boot code itself.
    pub(in crate::realign) fn keep_boot_code(&mut self, disk: &dyn Medium) -> BootCode {
        let mut first = [0; UNIT];
        let is_read = disk.read_at(ByteOffset::ZERO, &mut first).is_ok();
        let found = &first[..mbr::DISK_ID_AT];
        // Firmware starts no boot code without the signature.
        let is_signed = first[mbr::SIGNATURE_AT..] == [0x55, 0xAA];
        let is_none = !is_read || !is_signed || found.iter().all(|byte| *byte == 0);
        if is_none || self.realign.is_wrap() || self.knows_boot_code(found) {
            return BootCode::Own;
        }
        let is_grub = |what: &Reference| matches!(what, Reference::Grub { in_partition: false, .. });
        if self.realign.references.iter().any(|(_, what)| is_grub(what)) {
            return BootCode::Replaced;
        }
        for place in self.places.iter_mut().filter(|place| place.at == 0) {
            for table in [&mut place.old, &mut place.marked, &mut place.new] {
                lay_over(table, 0, found, 0);
            }
        }
        let guards = self.guards.iter_mut().chain(&mut self.rest).filter(|guard| guard.at() == 0);
        guards.for_each(|guard| guard.lay(found));
        BootCode::Kept
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
