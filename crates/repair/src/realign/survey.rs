//! What an audit says about moves: one that is not finished, and the one that can be planned.
//!
//! The law of this module: it reads, and changes nothing.

use std::io;

use straddle_audit::{MoveJournal, Planned, Stage, Unfinished};
use straddle_device::shown::with_causes;
use straddle_device::{Medium, ReadError};
use straddle_layout::Stack;
use straddle_relocate::{Disks, Job, State, inspect};
use straddle_units::{ByteCount, ByteOffset, LbaCount};

use super::carry::obstacle;
use super::media::read;
use super::{Journal, Realign, RealignError, Wanted, hibernated, logical, make, must_move};
use crate::plan::Situation;

/// Finds the unfinished move of a disk, or the unfinished copy to it, by the marker in its table, and reads how
/// far a move is. [`displaced`](super::displaced) finds a move without a marker.
///
/// # Errors
///
/// If the table cannot be read. A journal that cannot be read is [`MoveJournal::Unusable`].
pub fn unfinished(medium: &dyn Medium, stack: &Stack) -> Result<Option<Unfinished>, ReadError> {
    let Some(marker) = straddle_layout::marker(medium, stack)? else { return Ok(None) };
    let found = |journal| Ok(Some(Unfinished { marker: Some(marker), journal }));
    if crate::copy::is_unfinished(medium)? {
        return found(MoveJournal::Copy);
    }
    found(match inspect(Disks::one(&mut Reading(medium)), marker.span) {
        Ok(None) => MoveJournal::InFile,
        Ok(Some((job, state))) => MoveJournal::Inside(stage(&job, state)),
        Err(error) => MoveJournal::Unusable(with_causes(&error)),
    })
}

/// How far the move of a journal is.
pub(super) fn stage(job: &Job, state: State) -> Stage {
    let total = job.moves().iter().fold(0_u64, |sum, one| sum.saturating_add(one.from.len().get()));
    match state {
        State::NotBegun => Stage::NotBegun,
        State::Moving { done } => Stage::Moving { done, total: ByteCount::new(total) },
        State::Moved => Stage::Moved,
        State::RollingBack => Stage::RollingBack,
        State::Back => Stage::Back,
    }
}

/// Plans to move the partitions that have to move. `None` if there is no plan. `options` are those that the
/// command needs for the same topology.
pub fn planned(situation: &Situation<'_>, options: &str, in_use: bool) -> Option<Planned> {
    if hibernated(situation.stack).is_some() {
        return None;
    }
    let (realign, named) = match make(situation, &Wanted::default()) {
        Ok(realign) => (realign, Vec::new()),
        Err(RealignError::Logical(_)) => {
            let is_logical = |number: &u32| {
                let found = situation.stack.partitions.iter().find(|p| p.number == *number);
                found.is_some_and(|p| matches!(p.role, straddle_layout::Role::Logical { .. }))
            };
            let moves = must_move(situation).ok()?;
            let mut primary: Vec<u32> = moves.iter().map(|(number, _)| *number).collect();
            primary.retain(|number| !is_logical(number));
            (named(situation, &primary)?, primary)
        }
        Err(_) => return None,
    };
    if realign.references().iter().any(|(_, reference)| obstacle(reference).is_some()) {
        return None;
    }
    let named: String = named.iter().map(|number| format!(" --partition {number}")).collect();
    let places = moved(&realign).collect();
    let shorter = shorter(&realign, situation);
    let data = realign.anchors().iter().filter_map(|(number, offset)| {
        let partition = situation.stack.partitions.iter().find(|p| p.number == *number)?;
        Some((*number, partition.span.start().checked_add(*offset)?))
    });
    let data = data.collect();
    let journal = match realign.journal() {
        Journal::Inside(_) => None,
        Journal::Elsewhere { needed } => Some(needed),
    };
    Some(Planned { places, shorter, data, options: format!("{options}{named}"), journal, in_use })
}

/// The partitions that become shorter, and by how many bytes.
fn shorter(realign: &Realign, situation: &Situation<'_>) -> Vec<(u32, ByteCount)> {
    let moves = |entry: &&crate::plan::Entry| logical::moves(entry);
    let by = |entry: &crate::plan::Entry| {
        let old = situation.stack.partitions.iter().find(|p| p.number == entry.number)?;
        let less = old.count.get().checked_sub(entry.sectors.get()).filter(|less| *less > 0)?;
        Some((entry.number, LbaCount::new(less).to_bytes(situation.stack.block)?))
    };
    realign.plan().table().partitions.iter().filter(moves).filter_map(by).collect()
}

fn named(situation: &Situation<'_>, numbers: &[u32]) -> Option<Realign> {
    let wanted = Wanted { partitions: numbers.to_vec(), ..Wanted::default() };
    make(situation, &wanted).ok().filter(|_| !numbers.is_empty())
}

/// The partitions that move, with their new starts.
fn moved(realign: &Realign) -> impl Iterator<Item = (u32, straddle_units::Lba)> {
    // An extended partition has no data of its own.
    let moves = |entry: &&crate::plan::Entry| logical::moves(entry);
    realign.plan().table().partitions.iter().filter(moves).map(|entry| (entry.number, entry.start))
}

/// A medium, as a journal is read from it.
pub(super) struct Reading<'m>(pub(super) &'m dyn Medium);

impl straddle_relocate::Disk for Reading<'_> {
    fn size(&self) -> ByteCount {
        self.0.len()
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        read(self.0, at, bytes)
    }

    fn write(&mut self, _: ByteOffset, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
