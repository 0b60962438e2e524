//! Restoring a table: the marker over another program's table, and a torn copy of a GPT.
//!
//! Invariants: the steps' old bytes are what the disk holds now, so that a backup is complete; after all steps, the
//! disk has the table whatever it had before. A copy of a GPT is torn only where the move writes, in one physical
//! sector, and only if its checksums say so; the other copy must be whole, and fit the move's state.

use straddle_device::Medium;
use straddle_layout::format::mbr;
use straddle_layout::{Problem, Stack, TableKind};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Guard, MoveError, Payload, Place, Step, Table, UNIT, bytes_at, bytes_of, holds};
use crate::fingerprint::structures;
use crate::plan::Format;
use crate::realign::{Journal, Realign};
use crate::relocate::State;

/// The sectors of the GPT, with its protective MBR, that are in none of `places` and the same in all three
/// tables. Without what moves and the journal, whatever a header says.
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
    let mut taken: Vec<Span> = realign.moves.iter().flat_map(|one| one.spans()).collect();
    taken.extend(places.iter().filter_map(Place::span));
    if let Journal::Inside(place) = realign.journal {
        taken.push(place);
    }
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
    let guard = |(at, was): (ByteOffset, Vec<u8>)| Guard { at: at.get(), was, free: Vec::new() };
    Ok(rest.into_iter().map(guard).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Primary,
    Backup,
}

impl Payload {
    /// Of the first sector only the entries count: a boot loader may have been installed.
    pub(in crate::realign) fn has_rest(&self, disk: &dyn Medium) -> bool {
        self.rest.iter().all(|Guard { at, was, .. }| {
            let skipped = if *at == 0 { mbr::ENTRIES_AT } else { 0 };
            let found = bytes_at(disk, ByteOffset::new(*at), was.len());
            found.map_or(true, |found| found.get(skipped..) == was.get(skipped..))
        })
    }

    /// The steps that give the disk this table. What counts is written last.
    pub(in crate::realign) fn restoring(
        &self,
        disk: &dyn Medium,
        table: Table,
    ) -> Result<Vec<Step>, MoveError> {
        let rest = self.rest.iter().map(|rest| (rest.at, rest.was.as_slice()));
        // Nothing has moved if the old table is restored: its records go where they were.
        let records = self.records_of(table).rev().filter(|_| table == Table::Old);
        let records = records.map(|record| (record.at, record.bytes.as_slice()));
        let places = self.places.iter().rev().map(|place| (place.at, place.of(table)));
        let mut steps = Vec::new();
        for (at, new) in rest.chain(records).chain(places) {
            let old = bytes_at(disk, ByteOffset::new(at), new.len())?;
            if old != new {
                let what = "the table of the move".to_owned();
                steps.push(Step::Write { at, old, new: new.to_vec(), what });
                steps.push(Step::Flush);
            }
        }
        Ok(steps)
    }

    /// `None` if the byte is in neither, or the table is not a GPT.
    fn side(&self, at: u64) -> Option<Side> {
        let (plan, block) = (&self.realign.plan, self.realign.plan.block());
        if plan.table.format != Format::Gpt {
            return None;
        }
        let usable = [plan.table.first_usable, plan.table.last_usable].map(|lba| lba.to_bytes(block));
        match usable {
            [Some(first), _] if at < first.get() => Some(Side::Primary),
            [_, Some(last)] if at > last.get() => Some(Side::Backup),
            _ => None,
        }
    }

    /// Whether `steps` write to one copy only, and the other one is what a move in this state leaves.
    pub(in crate::realign) fn leaves_a_copy(&self, disk: &dyn Medium, steps: &[Step], state: &State) -> bool {
        let sides = steps.iter().filter_map(|step| match step {
            Step::Write { at, .. } => Some(self.side(*at)),
            Step::Flush => None,
        });
        let mut sides: Vec<Option<Side>> = sides.collect();
        sides.dedup();
        let [Some(torn)] = sides[..] else { return false };
        let is_other = |place: &&Place| self.side(place.at).is_some_and(|side| side != torn);
        let others: Vec<&Place> = self.places.iter().filter(is_other).collect();
        let is = |table: &Table| {
            let has = |place: &Place| holds(disk, ByteOffset::new(place.at), place.of(*table));
            others.iter().all(|place| has(place).unwrap_or(false))
        };
        !others.is_empty() && Table::possible(state).iter().any(is)
    }

    /// Whether the move writes to the physical sector at `block`: a power cut may tear no other.
    fn writes_to(&self, block: ByteOffset) -> bool {
        let moves = self.realign.moves.iter().flat_map(|one| one.spans());
        let mut written = moves.chain(self.places.iter().filter_map(Place::span));
        let sector = Span::new(block, self.realign.blocks.size());
        sector.is_some_and(|sector| written.any(|span| span.overlaps(sector)))
    }

    /// What restores the sectors of a damaged copy, in one physical sector, that hold none of the tables.
    pub(in crate::realign) fn torn_part(&self, disk: &dyn Medium) -> Result<Option<Vec<Step>>, MoveError> {
        let mut steps = Vec::new();
        let (mut side, mut physical) = (None, None);
        let tables = |place: &Place| vec![place.marked.clone(), place.old.clone(), place.new.clone()];
        let places = self.places.iter().map(|place| (place.at, tables(place)));
        let rest = self.rest.iter().filter(|rest| rest.at != 0);
        let rest = rest.map(|rest| (rest.at, vec![rest.was.clone()]));
        for (place, known) in places.chain(rest) {
            let found = bytes_at(disk, ByteOffset::new(place), known[0].len())?;
            for (index, unit) in found.chunks(UNIT).enumerate() {
                let of = |table: &Vec<u8>| table[index * UNIT..][..unit.len()].to_vec();
                if known.iter().any(|table| of(table) == unit) {
                    continue;
                }
                let at = place.saturating_add((index * UNIT) as u64);
                // The first sector also has boot code: nothing says whether that is torn.
                let Some(found) = self.side(at).filter(|_| at != 0) else { return Ok(None) };
                let block = self.realign.blocks.floor(ByteOffset::new(at));
                let is_another =
                    side.is_some_and(|side| side != found) || physical.is_some_and(|other| other != block);
                if is_another || !block.is_some_and(|block| self.writes_to(block)) {
                    return Ok(None);
                }
                (side, physical) = (Some(found), Some(block));
                let (new, what) = (of(&known[0]), "a torn sector of the table".to_owned());
                steps.push(Step::Write { at, old: unit.to_vec(), new, what });
            }
        }
        let stack = straddle_layout::read_stack(disk, Some(self.realign.plan.block()), None)?;
        let is_damaged = |problem: &Problem| match side {
            Some(Side::Primary) => matches!(problem, Problem::GptPrimaryDamaged { .. }),
            Some(Side::Backup) => matches!(problem, Problem::GptBackupDamaged { .. }),
            None => false,
        };
        let is_torn = stack.kind == TableKind::Gpt && stack.problems.iter().any(is_damaged);
        Ok(is_torn.then_some(steps))
    }
}
