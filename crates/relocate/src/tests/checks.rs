//! What other programs may have written: nothing is suspected in a state that crashes alone have led to, and in each
//! of these no write of another program is lost.

use straddle_io::SplitMix64;
use straddle_units::ByteOffset;

use super::machine::{Image, key};
use super::shapes::{Decision, Final, World, span};
use crate::{Found, Move, RelocateError, SECTOR, Whereabouts, is_latest, is_same, is_untouched};

/// The sectors that are written to in a state.
const WRITES: usize = 2;

impl World {
    /// Whether the journal is taken for that of the data on the disk.
    fn is_believed(&self, image: &Image) -> Result<[bool; 3], RelocateError> {
        let machine = self.boot(image);
        let latest = self.with(&machine, is_latest)?;
        let untouched = self.with(&machine, |disks, place| is_untouched(disks, place, (&[], &[])))?;
        let same = self.with(&machine, |disks, place| is_same(disks, place, &[]))?;
        Ok([latest, untouched, same])
    }

    /// Whether the journal that crashes have left is believed, and not any more when another program's writes would be
    /// lost. Returns how many of these were refused.
    pub(super) fn is_guarded(&self, image: &Image) -> Result<usize, String> {
        if self.flushes_lost {
            return Ok(0);
        }
        // What is torn cannot be read.
        let image = &self.readable(image);
        match self.is_believed(image) {
            Ok([true, true, true]) => {}
            other => return Err(format!("of [latest, untouched, same]: {other:?}")),
        }
        let machine = self.boot(image);
        let places = self.with(&machine, Whereabouts::read).map_err(|error| format!("{error:?}"))?;
        let Some(places) = places else { return Ok(0) };
        let mut random = SplitMix64::new(key(image));
        let other = self.store.borrow_mut().of_text("another program's;");
        let mut refused = 0;
        for _ in 0..WRITES {
            // The owner has put the old table back, and finds this sector where it was.
            let (old, number) = self.data[random.index(self.data.len())];
            // What is on its way back may be in its old place, or not.
            let Found::At(new) = places.of(ByteOffset::new(old as u64 * SECTOR)) else { continue };
            if image[old] != number || number == self.empty || self.is_doubtful(old) {
                continue;
            }
            let mut changed = image.clone();
            changed[old] = other;
            if self.is_believed(&changed).is_ok_and(|all| all != [true; 3]) {
                refused += 1;
            } else {
                self.is_kept(&changed, (old, number, other))?;
            }
            let new = usize::try_from(new.get() / SECTOR).unwrap();
            let mut changed = image.clone();
            changed[new] = other;
            if new != old && self.is_believed(&changed).is_ok_and(|all| all == [true; 3]) {
                return Err(format!("sector {old} has changed at {new}, and the old one is there"));
            }
        }
        Ok(refused)
    }

    /// Whether a sector cannot be read, or was to get what cannot: that may be anything.
    fn is_doubtful(&self, sector: usize) -> bool {
        let here = span(sector as u64, 1);
        let comes = |one: &&Move| one.destination().is_some_and(|to| to.contains(here));
        let source = |one: &Move| one.from.start().checked_add(here.start().checked_since(one.to)?);
        let sources = self.job.moves().iter().filter(comes).filter_map(source);
        let mut all = sources.chain([here.start()]);
        all.any(|at| self.bad.contains(&usize::try_from(at.get() / SECTOR).unwrap()))
    }

    /// Whether what another program has written where the data were is with them afterwards.
    fn is_kept(&self, image: &Image, (old, number, other): (usize, u32, u32)) -> Result<(), String> {
        for decision in [Decision::Resume, Decision::Rollback] {
            let machine = self.boot(image);
            let Ok(end) = self.recover(&machine, decision) else { continue };
            let moved = self.moved.iter().filter(|(_, moved)| *moved == number).map(|(sector, _)| *sector);
            let now: Vec<usize> = if end == Final::Moved { moved.collect() } else { vec![old] };
            if !now.iter().any(|sector| machine.borrow().current[*sector] == other) {
                return Err(format!("{end:?}: what was written to sector {old} is lost, from {now:?}"));
            }
        }
        Ok(())
    }
}
