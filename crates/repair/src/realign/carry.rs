//! Carrying out a plan to realign: the marker, the moves, the boot sectors, the new table.
//!
//! Invariants: the new table is written only when all data are in their new places, durably, and the old one
//! only when they are in their old ones. In between the table has a marker. The journal and the table on the
//! disk alone decide the next step; so every step can be repeated after an interruption.
//!
//! ```
//! # use std::ops::ControlFlow;
//! # use straddle_repair::{Target, realign::{JournalPlace, MoveError, Outcome, Realign, Run}};
//! fn carry_out(disk: &mut Target<'_>, realign: &Realign) -> Result<(), MoveError> {
//!     let run = realign.begin(disk, JournalPlace::Inside, [7; 16])?;
//!     match run.finish(&mut |_| ControlFlow::Continue(()))? {
//!         Outcome::Complete(_) => Ok(()),
//!         Outcome::Paused => Ok(()), // Run::find, then finish or roll_back.
//!     }
//! }
//! ```

use std::io;

use straddle_device::Medium;
use straddle_layout::read_all;
use straddle_units::{ByteCount, Span};

use super::boot::{self, Loaders, Which, record};
use super::chosen;
use super::media::Carrier;
use super::payload::{Payload, Table};
use super::unallocated::clear;
use super::{
    Ending, Journal, JournalPlace, Look, MoveError, Realign, RealignError, Reference, logical, refer,
    without_unclaimed,
};
use crate::apply::{Expected, check_kernel, recognise, tell_kernel};
use crate::plan::{Change, Entry, Format};
use crate::relocate::{Bad, Disks, FileAccess, Job, Recovered, RelocateError, State, begin, inspect, open};
use crate::target::{Disk, Target};

/// Receives the progress, and may stop the moves at a safe point.
pub type Watch<'w> = crate::relocate::Watch<'w>;

/// Receives the list of what could not be read, and saves it: the journal, which has it too, is erased next.
pub type Listing<'l> = &'l mut dyn FnMut(&[Bad]) -> io::Result<()>;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The table is active, with its data, except what could not be read: that, with the places of fillers.
    Complete(Vec<Bad>),
    /// It was stopped at a safe point.
    Paused,
}

/// A move that has begun.
pub struct Run<'a> {
    pub(super) disk: &'a mut dyn Disk,
    pub(super) journal: JournalPlace,
    pub(super) place: Span,
    pub(super) payload: Payload,
    pub(super) is_new: bool,
    /// Without a table or contents that fill the disk, the journal alone says that there is a move.
    pub(super) has_no_table: bool,
    /// The user goes on although something has written to the data.
    pub(super) insists: bool,
    /// Only this move can have written to the journal's space and to the new places.
    pub(super) owns_space: bool,
    pub(super) skips_bad: bool,
}

impl Realign {
    /// Checks this plan against `target` and its contents, and writes the journal, named `id`. No data move
    /// yet. After an error nothing was written, except perhaps to the journal's place, and a new journal's
    /// file is removed.
    pub fn begin<'a>(
        &self,
        target: &'a mut Target<'_>,
        journal: JournalPlace,
        id: [u8; 16],
    ) -> Result<Run<'a>, MoveError> {
        let prepared = self.prepare(target, &journal, id).inspect_err(|_| journal.discard());
        let (place, payload, job) = prepared?;
        let mut run = Run::of(target, journal, place, payload);
        run.write_journal(job).inspect_err(|_| run.journal.discard())?;
        Ok(run)
    }

    fn prepare(
        &self,
        disk: &dyn Disk,
        journal: &JournalPlace,
        id: [u8; 16],
    ) -> Result<(Span, Payload, Job), MoveError> {
        let stack = recognise(disk, &self.plan)?;
        self.check_contents(disk)?;
        self.check_tails(disk, Look::Whole)?;
        self.check_unallocated(disk, Look::Whole)?;
        check_kernel(disk)?;
        let place = match (journal, self.journal) {
            (JournalPlace::File(file), _) => Span::first(file.size),
            (JournalPlace::Inside, Journal::Inside(place)) => place,
            (JournalPlace::Inside, Journal::Elsewhere { needed }) => {
                return Err(MoveError::NeedsJournal(needed));
            }
        };
        let payload = Payload::new(self, disk, &stack, id)?;
        let job = self.job(id, payload.encode()?)?;
        Ok((place, payload, job))
    }

    pub(crate) fn is_done(&self, disk: &dyn Medium) -> Result<bool, MoveError> {
        let stack = straddle_layout::read_stack(disk, Some(self.plan.block()), None)?;
        let entries = &self.plan.table.partitions;
        let is_there = |entry: &Entry| {
            stack.partitions.iter().any(|p| p.number == entry.number && Some(p.span) == self.plan.span(entry))
        };
        Ok(stack.partitions.len() == entries.len() && entries.iter().all(is_there))
    }

    fn check_contents(&self, disk: &dyn Medium) -> Result<(), MoveError> {
        let mut stack = read_all(disk, Some(self.plan.block()), None)?;
        if self.wipes {
            stack = without_unclaimed(&stack);
        }
        if let Some(number) = refer::hibernated(&stack) {
            return Err(MoveError::Partition { number, what: ASLEEP });
        }
        if let Some(problem) = stack.cut_short().next() {
            return Err(RealignError::CutShort(problem.to_string()).into());
        }
        let loaders = Loaders::read(disk, &stack)?;
        let is_moved = |number: u32| self.plan.table.entry(number).is_some_and(logical::moves);
        if let Some((number, what)) = refer::immovable(&stack, is_moved) {
            return Err(MoveError::Partition { number, what });
        }
        let (block, format) = (self.plan.block(), self.plan.table.format);
        for entry in logical::moving(&self.plan) {
            let Change::Moved { from, .. } = entry.change else { continue };
            let number = entry.number;
            let partition = stack.partitions.iter().find(|p| p.start == from && p.number == number);
            let differs = |what| MoveError::Partition { number, what };
            let found = partition.zip(self.plan.span(entry));
            let (partition, span) =
                found.ok_or_else(|| differs("its start has changed since the plan was made; plan again"))?;
            if refer::used(partition, block) > span.len() {
                return Err(differs("its used area has changed since the plan was made; plan again"));
            }
            let anchor = chosen::anchor(partition, self.plan.grain, block);
            // The grain of the plan may be coarser than the one that chose what is aligned.
            if self.anchor(number) != ByteCount::ZERO
                && anchor.is_none_or(|anchor| anchor.offset != self.anchor(number))
            {
                return Err(differs(
                    "the position of its data has changed since the plan was made; plan again",
                ));
            }
            let found = refer::references(partition, entry, format, span.start(), block, Some(&loaders));
            let known = self.references.iter().filter(|(of, _)| *of == number).map(|(_, what)| what);
            if !found.iter().eq(known) {
                return Err(differs(
                    "its boot sector or boot loader has changed since the plan was made; plan again",
                ));
            }
            for reference in &found {
                if let Some(what) = obstacle(reference) {
                    return Err(MoveError::Partition { number, what });
                }
                if let Some(kept) = Span::new(partition.span.start(), span.len()) {
                    boot::check(disk, kept, reference)?;
                }
            }
        }
        Ok(())
    }
}

pub(crate) const ASLEEP: &str = "it holds a hibernated system, which would write to the old position; first \
                                 start that system and shut it down (Windows: shutdown /s /f /t 0, or \
                                 powercfg /h off)";

/// `None` if it is corrected, or only worth a note.
pub(crate) fn obstacle(reference: &Reference) -> Option<&'static str> {
    match reference {
        Reference::Hibernation => Some(ASLEEP),
        Reference::BiosBoot => Some(
            "GRUB's boot code lists the sectors of its core image in this partition; do not move the \
             partition, or reinstall GRUB",
        ),
        Reference::GrubElsewhere => Some(
            "GRUB's boot code lists sectors of this partition in an unsupported form; first reinstall GRUB \
             on the disk",
        ),
        Reference::Syslinux { correct: None, .. } | Reference::BootSector { correct: None, .. } => {
            Some("its boot sector cannot hold the new start")
        }
        _ => None,
    }
}

impl<'a> Run<'a> {
    pub(super) fn of(disk: &'a mut dyn Disk, journal: JournalPlace, place: Span, payload: Payload) -> Self {
        Self {
            disk,
            journal,
            place,
            payload,
            is_new: true,
            has_no_table: false,
            insists: false,
            owns_space: true,
            skips_bad: false,
        }
    }

    fn write_journal(&mut self, job: Job) -> Result<(), MoveError> {
        use RelocateError::{Job, Occupied, Place};
        self.clear_place()?;
        let begun = self.with_disks(|disks, place| begin(disks, place, job).map(drop));
        let is_untouched = matches!(begun, Ok(()) | Err(MoveError::Moves(Job(_) | Place(_) | Occupied(_))));
        if let Some(place) = self.place_on_disk().filter(|_| !is_untouched) {
            // So that a later move finds the space empty.
            let _ = clear(self.disk, place);
        }
        begun
    }

    /// The plan.
    pub fn realign(&self) -> &Realign {
        &self.payload.realign
    }

    /// Goes on if a sector cannot be read, and lists it.
    #[must_use]
    pub fn skip_bad(mut self) -> Self {
        self.skips_bad = true;
        self
    }

    /// How far it is.
    pub fn state(&mut self) -> Result<State, MoveError> {
        let found = self.with_disks(inspect)?;
        found.map(|(_, state)| state).ok_or(MoveError::Nothing)
    }

    /// Whether a rollback has begun, which must be completed.
    pub fn is_turned(&mut self) -> Result<bool, MoveError> {
        Ok(matches!(self.state()?, State::RollingBack | State::Back))
    }

    /// Completes the move: moves what is left, corrects boot sectors, and writes the new table. After an
    /// error the journal is kept for [`find`](Self::find), except after
    /// [`ApplyError::Kernel`](crate::apply::ApplyError::Kernel): the move is complete, and the kernel does
    /// not use the table yet.
    pub fn finish(self, watch: Watch<'_>) -> Result<Outcome, MoveError> {
        self.finish_listing(watch, &mut |_| Ok(()))
    }

    /// The same; `list` receives what could not be read, or an empty list, when all data are in their new
    /// places and the table still has the marker. If that fails, the move is not finished.
    pub fn finish_listing(mut self, watch: Watch<'_>, list: Listing<'_>) -> Result<Outcome, MoveError> {
        let state = self.state()?;
        self.check(&state, false)?;
        self.owns_space &= self.has_marker()? || state == State::NotBegun;
        let bad = match state {
            State::RollingBack | State::Back => return Err(MoveError::Turned),
            State::NotBegun | State::Moving { .. } => {
                self.enter_marked()?;
                match self.resume(watch)? {
                    Some(list) => list,
                    None => return Ok(Outcome::Paused),
                }
            }
            State::Moved => self.resume(watch)?.unwrap_or_default(),
        };
        if self.payload.table(self.disk)? != Some(Table::New) {
            self.payload.mend_new(self.disk)?;
            self.record(Which::New)?;
        }
        list(&bad).map_err(MoveError::List)?;
        self.payload.write(self.disk, Table::New).map_err(|error| {
            let is_listed = matches!(self.payload.realign.is_done(self.disk), Ok(true));
            match self.payload.realign.plan.table.format {
                Format::Gpt if is_listed => error.after(Ending::OneCopy),
                Format::Mbr if is_listed => error.after(Ending::Unsettled),
                _ => error,
            }
        })?;
        self.end(false)?;
        let in_kernel = tell_kernel(self.disk, Some(Expected::of(&self.payload.realign.plan)));
        self.close()?;
        in_kernel?;
        Ok(Outcome::Complete(bad))
    }

    /// Restores the old layout and its contents, unless the new table is active ([`MoveError::Complete`]).
    pub fn roll_back(self, watch: Watch<'_>) -> Result<Outcome, MoveError> {
        self.roll_back_listing(watch, &mut |_| Ok(()))
    }

    /// The same, with a list of what could not be read as in [`finish_listing`](Self::finish_listing).
    pub fn roll_back_listing(mut self, watch: Watch<'_>, list: Listing<'_>) -> Result<Outcome, MoveError> {
        let state = self.state()?;
        self.check(&state, true)?;
        self.owns_space &= self.has_marker()?;
        // With the old table the disk may have been in use: it stays as it is.
        if state == State::NotBegun && self.payload.table(self.disk)? != Some(Table::Old) {
            self.enter_marked()?;
        }
        if state == State::Moved {
            if self.payload.table(self.disk)? == Some(Table::New) {
                return Err(MoveError::Complete);
            }
            self.payload.write(self.disk, Table::Marked)?;
            self.payload.mend_new(self.disk)?;
            self.record(Which::Old)?;
        }
        let skips_bad = self.skips_bad;
        let besides = self.payload.new_records();
        let ended = self.with_disks(|disks, place| {
            let Some(found) = open(disks, place)? else { return Ok(None) };
            Ok(found.rollback((&besides, skips_bad), watch)?.map(|back| back.bad().to_vec()))
        })?;
        let Some(bad) = ended else { return Ok(Outcome::Paused) };
        let bad: Vec<Bad> = bad.into_iter().map(|one| self.after_rollback(one)).collect();
        let is_old = self.payload.table(self.disk)? == Some(Table::Old);
        if !is_old {
            self.payload.mend_old(self.disk)?;
        }
        list(&bad).map_err(MoveError::List)?;
        if !is_old {
            self.payload.write(self.disk, Table::Old)?;
        }
        self.end(true)?;
        let in_kernel = tell_kernel(self.disk, Some(Expected::before(&self.payload.realign.plan)));
        self.close()?;
        in_kernel?;
        Ok(Outcome::Complete(bad))
    }

    fn after_rollback(&self, bad: Bad) -> Bad {
        let is_forward = self.payload.realign.moves.iter().any(|one| {
            let skipped = bad.from.start().checked_since(one.from.start());
            one.from.contains(bad.from)
                && skipped.and_then(|skipped| one.to.checked_add(skipped)) == Some(bad.to)
        });
        if is_forward { Bad { to: bad.from.start(), ..bad } } else { bad }
    }

    fn resume(&mut self, watch: Watch<'_>) -> Result<Option<Vec<Bad>>, MoveError> {
        let skips_bad = self.skips_bad;
        self.with_disks(|disks, place| {
            let moved = match open(disks, place)? {
                Some(Recovered::Unfinished(held)) if skips_bad => held.skip_bad().resume(watch)?,
                Some(Recovered::Unfinished(held)) => held.resume(watch)?,
                Some(Recovered::Moved(moved)) => Some(moved),
                Some(Recovered::Turned(_) | Recovered::Back(_)) | None => return Err(changed_meanwhile()),
            };
            Ok(moved.map(|mut moved| moved.bad()))
        })
    }

    fn enter_marked(&mut self) -> Result<(), MoveError> {
        self.payload.write(self.disk, Table::Marked).map_err(|error| {
            let is_old = matches!(self.payload.table(self.disk), Ok(Some(Table::Old)));
            if is_old { error.after(Ending::NotMarked) } else { error }
        })?;
        // The kernel must not use the old partitions. It may refuse; then nothing has them open.
        let _ = self.disk.reread_table();
        Ok(())
    }

    fn record(&mut self, which: Which) -> Result<(), MoveError> {
        record(self.disk, &self.payload.realign.plan, &self.payload.realign.references, which)
    }

    /// Whether the table has the marker: the copy of a GPT that counts loses it last.
    fn has_marker(&self) -> Result<bool, MoveError> {
        Ok(!matches!(self.payload.table(self.disk)?, Some(Table::Old | Table::New)))
    }

    fn end(&mut self, is_back: bool) -> Result<(), MoveError> {
        let removed = self.with_disks(|disks, place| match open(disks, place)? {
            Some(Recovered::Moved(moved)) => moved.erase(),
            Some(Recovered::Back(back)) => back.erase(),
            None => Ok(()),
            Some(_) => Err(changed_meanwhile()),
        });
        removed.map_err(|error| {
            error.after(if is_back { Ending::BackWithJournal } else { Ending::CompleteWithJournal })
        })?;
        if self.owns_space {
            self.clear_space(is_back);
        }
        Ok(())
    }

    fn close(self) -> Result<(), MoveError> {
        match self.journal {
            JournalPlace::File(file) => file.remove(),
            JournalPlace::Inside => Ok(()),
        }
    }

    pub(super) fn place_on_disk(&self) -> Option<Span> {
        matches!(self.journal, JournalPlace::Inside).then_some(self.place)
    }

    pub(super) fn with_disks<T>(
        &mut self,
        use_them: impl FnOnce(Disks<'_>, Span) -> Result<T, RelocateError>,
    ) -> Result<T, MoveError> {
        let place = self.place;
        with_disks(self.disk, &mut self.journal, |disks| use_them(disks, place))
    }
}

fn changed_meanwhile() -> RelocateError {
    RelocateError::damaged("the state of the journal changed while it was being read")
}

pub(super) fn with_disks<T>(
    disk: &mut dyn Disk,
    journal: &mut JournalPlace,
    use_them: impl FnOnce(Disks<'_>) -> Result<T, RelocateError>,
) -> Result<T, MoveError> {
    let mut carrier = Carrier(disk);
    Ok(match journal {
        JournalPlace::Inside => use_them(Disks::one(&mut carrier))?,
        JournalPlace::File(file) => use_them(Disks::two(&mut carrier, &mut FileAccess::new(&file.file)))?,
    })
}
