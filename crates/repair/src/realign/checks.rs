//! Whether a journal may be followed.
//!
//! Invariants: before the first write, the table on the disk is the one that the journal's state leaves, possibly
//! with a torn sector, and the data are where the journal says: a file may be a journal of another disk, or an older
//! copy of the right one. While the old table counts, the disk may be in use: only a rollback, which removes the
//! journal, is allowed. Only [`Run::restore_table`] overwrites another program's table, and saves it first.
//!
//! Witnesses are sectors of the data that move, as they were before. They distinguish the disk from another one, and
//! the latest copy of a journal from an older one. The engine checks the windows in flight.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::Medium;
use straddle_device::hex::encode as hex;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::payload::{Payload, Table};
use super::{MoveError, Realign, Run, guard};
use crate::apply::BackedUp;
use crate::encode::Step;
use crate::fingerprint::bytes_at;
use crate::foresee::After;
use crate::relocate::{Move, State, Whereabouts, is_latest};

const OLDER: &str = "data was moved or changed after this copy of the journal was made; use the latest copy. \
                     If this is the latest copy, resume the move with --restore-table FILE";

const COMPLETE: &str = "the new table is already active, so the move is complete, and this is an older copy \
                        of its journal. But if another program wrote that table, resume the move with \
                        --restore-table FILE";

impl Run<'_> {
    /// Checks the table and the data against the journal, and restores sectors of the table that a power cut
    /// or a kill has torn. Writes nothing if the journal or the table is another one.
    pub(super) fn check(&mut self, state: &State, goes_back: bool) -> Result<(), MoveError> {
        let torn = self.torn(state)?;
        let steps = torn.as_deref().unwrap_or_default();
        if !self.fits(&After { medium: &*self.disk, steps }, state)? {
            return Err(match self.payload.table(&*self.disk) {
                Ok(Some(Table::New)) => MoveError::Foreign(COMPLETE.to_owned()),
                _ => MoveError::OtherTable,
            });
        }
        self.check_data(state, goes_back, steps)?;
        match torn {
            Some(torn) => self.payload.mend(self.disk, &torn),
            None => Ok(()),
        }
    }

    /// Restores a torn table: to the marker, or to the old one if no data have moved; `None` if it is whole.
    fn torn(&self, state: &State) -> Result<Option<Vec<Step>>, MoveError> {
        let (disk, payload) = (&*self.disk, &self.payload);
        let fits = |steps: &[Step]| self.fits(&After { medium: disk, steps }, state);
        // Certainly torn is what is unreadable, or replaces a table while one was written. Otherwise a copy
        // of the GPT must be as the move left it. A table that lists something is not torn.
        let is_written = matches!(state, State::NotBegun | State::Moved | State::Back);
        let (is_certain, is_read) = match payload.table(disk) {
            Err(MoveError::Changed(_)) => (self.has_no_table && is_written, true),
            Err(MoveError::Read(_)) => (true, false),
            // What is the same in all tables is torn where it shares a physical sector with data.
            Ok(_) if !payload.has_rest(disk) => (false, true),
            _ => return Ok(None),
        };
        let whole = payload.mended(disk, state);
        if (is_certain || payload.leaves_a_copy(disk, &whole, state)) && fits(&whole)? {
            return Ok(Some(whole));
        }
        if !is_read {
            return Err(MoveError::OtherTable);
        }
        match payload.torn_part(disk)? {
            Some(part) if payload.leaves_a_copy(disk, &part, state) && fits(&part)? => Ok(Some(part)),
            _ => Ok(None),
        }
    }

    fn fits(&self, medium: &dyn Medium, state: &State) -> Result<bool, MoveError> {
        let found = match self.payload.table(medium) {
            Err(MoveError::Changed(_)) => return Ok(false),
            found => found?,
        };
        if !self.payload.has_rest(medium) {
            return Ok(false);
        }
        let possible = Table::possible(state);
        Ok(found.map_or(possible.len() > 1, |table| possible.contains(&table)))
    }

    fn check_data(&mut self, state: &State, goes_back: bool, steps: &[Step]) -> Result<(), MoveError> {
        let table = self.payload.table(&After { medium: &*self.disk, steps })?;
        let is_over = match state {
            // The data are in use again, and nothing is written to them.
            State::Moved => table == Some(Table::New),
            State::Back => table == Some(Table::Old),
            State::NotBegun => self.is_new || (table == Some(Table::Old) && goes_back && steps.is_empty()),
            State::Moving { .. } | State::RollingBack => false,
        };
        if is_over {
            return Ok(());
        }
        // The disk may have been in use since the journal was made.
        if *state == State::NotBegun && table == Some(Table::Old) && !goes_back {
            return Err(MoveError::NotBegun);
        }
        let foreign = |why: &str| Err(MoveError::Foreign(why.to_owned()));
        let whereabouts = self.with_disks(Whereabouts::read)?;
        match self.payload.testimony(&After { medium: &*self.disk, steps }, &whereabouts) {
            (_, 0) => {}
            (0, _) => return foreign("the data is not where the journal says"),
            _ if !self.insists => return foreign(OLDER),
            _ => {}
        }
        match self.insists || self.with_disks(is_latest)? {
            true => Ok(()),
            false => foreign(OLDER),
        }
    }

    /// Restores the table of the move, with the marker if data have moved, after saving what that overwrites
    /// in a new file at `backup`, for `undo`. False, and no file, if the table is the move's, or torn. From
    /// now on the journal is followed although another program has written to the data. After a failed write
    /// or a power cut it can be repeated with another file.
    pub fn restore_table(&mut self, backup: &Path) -> Result<bool, MoveError> {
        self.insists = true;
        let state = self.state()?;
        if self.fits(self.disk, &state)? || self.torn(&state)?.is_some() {
            return Ok(false);
        }
        if state == State::NotBegun && !self.has_no_table {
            let why = "no data was moved, and the disk has a table, so there is nothing to do";
            return Err(MoveError::Foreign(why.to_owned()));
        }
        let table = if state == State::NotBegun { Table::Old } else { Table::Marked };
        let steps = self.payload.restoring(self.disk, table)?;
        self.check_data(&state, true, &steps)?;
        BackedUp::of_restored(self.disk, steps, (table == Table::Marked, backup))?.write()?;
        let _ = self.disk.reread_table();
        (self.has_no_table, self.owns_space) = (false, false);
        Ok(true)
    }

    /// Refuses to resume a move whose rollback has begun ([`MoveError::Turned`]), before anything is written.
    pub fn check_course(&mut self, goes_back: bool) -> Result<(), MoveError> {
        if self.is_turned()? && !goes_back { Err(MoveError::Turned) } else { Ok(()) }
    }
}

/// Witnesses between the ends of moves: each costs a read at the beginning.
const SPREAD: u64 = 64;
/// How far a witness is searched for. Btrfs begins 64 KiB after its start.
const REACH: u64 = 128 << 10;
const LAST: u64 = 4 << 20;
const SECTOR: usize = 512;
/// Bytes of SHA-256 that are kept.
const KEPT: usize = 8;
/// As JSON.
const LONGEST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Witness {
    /// Where it is before the moves.
    at: u64,
    /// The first bytes of its hash, in hexadecimal.
    hash: String,
}

pub(super) fn most_bytes(moves: usize) -> usize {
    LONGEST.saturating_mul(usize::try_from(SPREAD).unwrap_or(0).saturating_add(3 * moves))
}

/// Takes the first and the last sector of each move that hold more than one value (its first window changes
/// one of the two) and some between. None is in `besides`, where the move writes something else.
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

fn moved(one: &Move, at: u64) -> Option<ByteOffset> {
    let skipped = at.checked_sub(one.from.start().get()).filter(|skipped| *skipped < one.from.len().get())?;
    one.to.checked_add(ByteCount::new(skipped))
}

/// The hash of a sector that is at `at` before the moves, without `fields`, which a move changes.
fn hash(sector: &[u8], at: u64, fields: &[Span]) -> String {
    let mut sector = sector.to_vec();
    for field in fields {
        let within = |byte: ByteOffset| usize::try_from(byte.get().saturating_sub(at)).unwrap_or(usize::MAX);
        let range = within(field.start()).min(sector.len())..within(field.end()).min(sector.len());
        sector.get_mut(range).into_iter().for_each(|bytes| bytes.fill(0));
    }
    hex(&Sha256::digest(&sector)[..KEPT])
}

impl Payload {
    /// How many readable witnesses are where the journal says, and how many are not.
    fn testimony(&self, disk: &dyn Medium, whereabouts: &Whereabouts) -> (usize, usize) {
        let fields = guard::fields(&self.realign);
        let is_there = |witness: &Witness| {
            let at = whereabouts.of(ByteOffset::new(witness.at))?;
            let bytes = bytes_at(disk, at, SECTOR).ok()?;
            Some(hash(&bytes, witness.at, &fields) == witness.hash)
        };
        let found: Vec<bool> = self.witnesses.iter().filter_map(is_there).collect();
        let there = found.iter().filter(|is_there| **is_there).count();
        (there, found.len() - there)
    }
}
