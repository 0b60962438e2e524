//! A GPT of which one copy is torn, in part.
//!
//! Invariants: a copy is torn only where the move writes, in one physical sector, and only if its
//! checksums say so. The other copy must be whole, and one that the move leaves in its state: then no reader loses
//! anything if the torn one is restored.

use crate::relocate::State;
use straddle_device::Medium;
use straddle_layout::{Problem, TableKind};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Payload, Place, Table, UNIT};
use crate::encode::Step;
use crate::fingerprint::holds;
use crate::plan::Format;
use crate::realign::MoveError;

/// A copy of a GPT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The one at the start of the disk, with the protective MBR.
    Primary,
    Backup,
}

impl Payload {
    /// Which copy byte `at` belongs to; `None` if to neither, or if the table is not a GPT.
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
        let others: Vec<&Place> =
            self.places.iter().filter(|place| self.side(place.at).is_some_and(|side| side != torn)).collect();
        let possible: &[Table] = match state {
            State::NotBegun | State::Back => &[Table::Old, Table::Marked],
            State::Moving { .. } | State::RollingBack => &[Table::Marked],
            State::Moved => &[Table::Marked, Table::New],
        };
        let is = |table: &Table| {
            let has = |place: &&Place| holds(disk, ByteOffset::new(place.at), place.of(*table));
            others.iter().all(|place| has(place).unwrap_or(false))
        };
        !others.is_empty() && possible.iter().any(is)
    }

    /// Whether a table or data of the move are in the physical sector at `block`: a power cut may tear no other.
    fn writes_to(&self, block: ByteOffset) -> bool {
        let moves = self.realign.moves.iter().flat_map(|one| [Some(one.from), one.destination()]).flatten();
        let len = |place: &Place| ByteCount::new(place.old.len() as u64);
        let tables = self.places.iter().filter_map(|place| Span::new(ByteOffset::new(place.at), len(place)));
        let sector = Span::new(block, self.realign.blocks.size());
        sector.is_some_and(|sector| moves.chain(tables).any(|span| span.overlaps(sector)))
    }

    /// What restores the sectors of a damaged copy that hold none of the tables, all of them in one physical sector.
    pub(in crate::realign) fn torn_part(&self, disk: &dyn Medium) -> Result<Option<Vec<Step>>, MoveError> {
        let mut steps = Vec::new();
        let (mut side, mut physical) = (None, None);
        let tables =
            |place: &Place| [Table::Marked, Table::Old, Table::New].map(|table| place.of(table).to_vec());
        let places = self.places.iter().map(|place| (place.at, tables(place).into()));
        // Of the first sector only the entries count.
        let rest = self.rest.iter().filter(|rest| rest.at() != 0);
        let rest = rest.map(|rest| (rest.at(), vec![rest.bytes().to_vec()]));
        for (place, known) in places.chain(rest) {
            let known: Vec<Vec<u8>> = known;
            let mut found = vec![0; known[0].len()];
            disk.read_at(ByteOffset::new(place), &mut found)?;
            for (index, unit) in found.chunks(UNIT).enumerate() {
                let of = |table: &Vec<u8>| table[index * UNIT..][..unit.len()].to_vec();
                if known.iter().any(|table| of(table) == unit) {
                    continue;
                }
                let at = place.saturating_add((index * UNIT) as u64);
                // The first sector also has boot code, of which nothing says whether it is torn.
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
