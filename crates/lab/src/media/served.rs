//! A drive with its contents: takes requests, returns completions, and can lose power.

use std::io;

use straddle_drive::Drive;
use straddle_drive::profile::{Body, Claims, Profile};
use straddle_units::io::{Completion, Counters, Nanos, Operation, Refusal, Request, Time};

use crate::media::cut::{self, Cut, Hazard, Tear};
use crate::media::store::Store;
use crate::media::unsettled::Unsettled;

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum MediaError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the drive's power is off")]
    Off,
    /// A write carries another number of bytes than it states, or another request carries bytes.
    #[error("a request specifies {wanted} bytes, but carries {brought} bytes of data")]
    Payload { brought: u64, wanted: u64 },
    #[error("cannot cut the power, because unflushed data is not being tracked")]
    NotKept,
    #[error("the drive's store failed")]
    Store(#[from] io::Error),
}

straddle_units::error_kind!(MediaError: Failed);

/// Watches the requests of a drive.
pub trait Watch: std::fmt::Debug + Send + Sync {
    /// The drive took a request.
    fn issued(&mut self, at: Time, request: &Request);

    /// It completed one.
    fn completed(&mut self, completion: &Completion);
}

/// The data that a request carries.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// No data: a read, a flush, a discard.
    None,
    /// The data of a write.
    Bytes(&'a [u8]),
    /// A write of zeroes, of any length. The drive treats it like any other write; the store frees the space.
    Zeroes,
    /// A write of zeroes for which the store keeps the space allocated.
    KeptZeroes,
}

/// A modelled drive and its contents.
///
/// When [`Served::submit`] returns, the data of a write are in the store, and a discard has taken effect: zeroes
/// in whole indirection units of a solid-state drive, everywhere on a disk. A power cut does not undo a discard.
#[derive(Debug)]
pub struct Served {
    drive: Drive,
    store: Store,
    hazard: Hazard,
    cut_window: Nanos,
    volatile: bool,
    /// In bytes. A unit that is only partly discarded keeps its contents.
    discard_unit: u64,
    unsettled: Option<Unsettled>,
    planned: Option<Cut>,
    taken: u64,
    cut_at: Option<Time>,
    is_cut: bool,
    watch: Option<Box<dyn Watch>>,
}

impl Served {
    /// Powers on a drive of this profile with these contents, and plans a power cut.
    ///
    /// # Panics
    ///
    /// If the store is smaller than the drive.
    pub fn new(profile: &Profile, store: Store, cut: Option<Cut>) -> Self {
        let drive = Drive::new(profile);
        assert!(store.size() >= profile.claims.capacity, "the store holds the drive");
        let (discard_unit, caches) = match &profile.body {
            Body::Disk(disk) => (profile.claims.logical_sector, disk.write_cache.enabled),
            Body::Ssd(ssd) => (ssd.indirection_unit(), true),
        };
        let hazard = Hazard::of(profile);
        let mut served = Self {
            drive,
            store,
            hazard,
            cut_window: cut::window(&profile.body),
            volatile: caches && hazard != Hazard::None,
            discard_unit,
            unsettled: None,
            planned: cut,
            taken: 0,
            cut_at: None,
            is_cut: false,
            watch: None,
        };
        if let Some(cut) = cut {
            served.keep_for_cut();
            served.cut_at = cut.due(0, Time::ZERO, served.cut_window);
        }
        served
    }

    /// Records from now on what a power cut would undo, so that [`Served::cut`] can be called at any time.
    pub fn keep_for_cut(&mut self) {
        if self.unsettled.is_none() {
            self.unsettled = Some(Unsettled::new(self.drive.claims().logical_sector));
            if self.hazard != Hazard::None {
                self.drive.watch_media();
            }
        }
    }

    /// Lets `watch` see every request from now on.
    pub fn watch(&mut self, watch: Box<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// Returns what the drive reports about itself.
    pub const fn claims(&self) -> &Claims {
        self.drive.claims()
    }

    /// Returns the drive's current time.
    pub const fn now(&self) -> Time {
        self.drive.now()
    }

    /// Takes a request at time `at`. What is due up to then happens first; completions go to `done`.
    pub fn submit(
        &mut self,
        at: Time,
        request: Request,
        payload: Payload<'_>,
        done: &mut Vec<Completion>,
    ) -> Result<(), MediaError> {
        if self.unsettled.is_some() {
            // Events before this request must be processed before the store changes.
            self.advance(at.max(self.drive.now()), done)?;
        }
        if self.is_cut {
            return Err(MediaError::Off);
        }
        self.drive.check(at, &request)?;
        self.take_payload(&request, payload)?;
        let before = done.len();
        self.drive.submit(at, request, done)?;
        if let Some(watch) = &mut self.watch {
            watch.issued(at, &request);
        }
        self.show(done.get(before..));
        self.see();
        self.taken += 1;
        let due = self.planned.and_then(|cut| cut.due(self.taken, at, self.cut_window));
        self.cut_at = due.or(self.cut_at);
        Ok(())
    }

    /// Reads what the host sees now. To be called when a read completes.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.store.read(offset, buffer)
    }

    /// The time of the next event; `None` while the drive is idle and will stay so.
    pub fn next_event(&self) -> Option<Time> {
        if self.is_cut {
            return None;
        }
        match (self.drive.next_event(), self.cut_at) {
            (Some(event), Some(cut)) => Some(event.min(cut)),
            (event, cut) => event.or(cut),
        }
    }

    /// Processes everything due up to and including `until`; completions go to `done` in order of time. An error
    /// comes from the store, at the power cut.
    pub fn advance(&mut self, until: Time, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.is_cut {
            return Ok(());
        }
        let due = self.cut_at.filter(|cut| *cut <= until);
        let before = done.len();
        self.drive.advance(due.map_or(until, |cut| cut.max(self.drive.now())), done);
        self.show(done.get(before..));
        self.see();
        match (due, self.planned) {
            (Some(_), Some(cut)) => self.lose_power(cut.seed, cut.tear),
            _ => Ok(()),
        }
    }

    /// Requests submitted and not yet completed; zero after a cut.
    pub fn outstanding(&self) -> usize {
        if self.is_cut { 0 } else { self.drive.outstanding() }
    }

    /// The counters since power-on.
    pub fn counters(&self) -> &Counters {
        self.drive.counters()
    }

    /// Whether the power is off, so that every request is refused and nothing more completes.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Cuts the power now. The store then holds the contents of the medium.
    pub fn cut(&mut self, seed: u64, tear: Tear) -> Result<(), MediaError> {
        if self.unsettled.is_none() {
            return Err(MediaError::NotKept);
        }
        if self.is_cut {
            return Err(MediaError::Off);
        }
        Ok(self.lose_power(seed, tear)?)
    }

    /// Flushes the store to its own medium.
    pub fn sync(&self) -> io::Result<()> {
        self.store.sync()
    }

    /// The time of a planned power cut, once it is known.
    pub const fn cut_at(&self) -> Option<Time> {
        self.cut_at
    }

    /// The longest time from a request to the power cut that it triggers.
    pub const fn cut_window(&self) -> Nanos {
        self.cut_window
    }

    /// Whether the drive acknowledges writes that a power cut would undo.
    pub const fn has_volatile_cache(&self) -> bool {
        self.volatile
    }

    /// The unit of discards in bytes. A unit that is only partly discarded keeps its contents.
    pub const fn discard_unit(&self) -> u64 {
        self.discard_unit
    }

    fn lose_power(&mut self, seed: u64, tear: Tear) -> io::Result<()> {
        self.is_cut = true;
        match &mut self.unsettled {
            Some(unsettled) => cut::apply(&mut self.store, unsettled, self.hazard, seed, tear),
            None => Ok(()),
        }
    }

    fn take_payload(&mut self, request: &Request, payload: Payload<'_>) -> Result<(), MediaError> {
        let (offset, length) = (request.offset.get(), request.length.get());
        let brought = match payload {
            Payload::None => 0,
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::Zeroes | Payload::KeptZeroes => length,
        };
        let wanted = if request.operation.is_write() { length } else { 0 };
        if brought != wanted {
            return Err(MediaError::Payload { brought, wanted });
        }
        if request.operation == Operation::Discard {
            return Ok(self.discard(offset, offset + length)?);
        }
        if let (Some(unsettled), true) = (&mut self.unsettled, wanted > 0 && self.hazard != Hazard::None) {
            unsettled.overwriting(&self.store, offset, length)?;
        }
        match payload {
            Payload::None => {}
            Payload::Bytes(bytes) => self.store.write(offset, bytes)?,
            Payload::Zeroes => self.store.zero(offset, length)?,
            Payload::KeptZeroes => self.store.write_zeroes(offset, length)?,
        }
        Ok(())
    }

    fn discard(&mut self, start: u64, end: u64) -> io::Result<()> {
        let capacity = self.drive.claims().capacity;
        let first = start.next_multiple_of(self.discard_unit);
        // The last unit of the drive may be shorter; then its end is the end of the drive.
        let after = if end == capacity { end } else { end - end % self.discard_unit };
        if first >= after {
            return Ok(());
        }
        if let Some(unsettled) = &mut self.unsettled {
            unsettled.discarded(first, after - first);
        }
        self.store.zero(first, after - first)
    }

    fn show(&mut self, done: Option<&[Completion]>) {
        if let Some(watch) = &mut self.watch {
            done.unwrap_or_default().iter().for_each(|completion| watch.completed(completion));
        }
    }

    fn see(&mut self) {
        if let Some(unsettled) = &mut self.unsettled {
            for event in self.drive.take_media_events() {
                unsettled.happened(event);
            }
        }
    }
}
