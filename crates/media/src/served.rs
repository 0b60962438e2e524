//! A drive with its contents: requests in, completions out, and the power to cut.

use std::io;

use straddle_drive::Drive;
use straddle_drive::profile::{Body, Claims, Profile};
use straddle_io::{Completion, Counters, Nanos, Operation, Refusal, Request, Time};

use crate::cut::{self, Cut, Hazard, Tear};
use crate::store::Store;
use crate::unsettled::Unsettled;

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// No drive of this kind would take it; nothing has happened.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The power is off; nothing has happened.
    #[error("the power is off")]
    Off,
    /// A write does not bring as many bytes as it says, or something else brings any; nothing has happened.
    #[error("{brought} bytes of data for a request of {wanted}")]
    Payload {
        /// Bytes that it brings.
        brought: u64,
        /// Bytes that it should bring.
        wanted: u64,
    },
    /// A power cut was asked for, but what it would undo was not kept.
    #[error("nothing was kept for a power cut")]
    NotKept,
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] io::Error),
}

/// What a request brings with it.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Nothing: a read, a flush, a discard.
    None,
    /// The data of a write.
    Bytes(&'a [u8]),
    /// A write of zeroes, of any length. To the drive it is a write like any other; the store keeps no room for it.
    Zeroes,
    /// The same, but the store keeps the room.
    KeptZeroes,
}

/// A modelled drive and what it holds.
///
/// The data of a write are in the store when [`Served::submit`] returns, and so is what a discard leaves: zeroes in the whole
/// indirection units of a solid-state drive, everywhere on a disk. A discard takes effect on the medium at once, too: no cut
/// brings back what was discarded.
#[derive(Debug)]
pub struct Served {
    drive: Drive,
    store: Store,
    hazard: Hazard,
    cut_window: Nanos,
    volatile: bool,
    /// The unit of discards; the rest of one keeps its contents.
    discard_unit: u64,
    /// What a cut would undo, if one may come.
    unsettled: Option<Unsettled>,
    planned: Option<Cut>,
    /// Requests taken.
    taken: u64,
    cut_at: Option<Time>,
    is_cut: bool,
}

impl Served {
    /// Switches on a drive of this profile with these contents, and plans a power cut.
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
        };
        if let Some(cut) = cut {
            served.keep_for_cut();
            served.cut_at = (cut.after == 0).then_some(Time::ZERO);
        }
        served
    }

    /// From now on keeps what a power cut would undo, so that [`Served::cut`] can come at any time.
    pub fn keep_for_cut(&mut self) {
        if self.unsettled.is_none() {
            self.unsettled = Some(Unsettled::new(self.drive.claims().logical_sector));
            if self.hazard != Hazard::None {
                self.drive.watch_media();
            }
        }
    }

    /// What the drive says of itself.
    pub const fn claims(&self) -> &Claims {
        self.drive.claims()
    }

    /// How far the drive's time has come.
    pub const fn now(&self) -> Time {
        self.drive.now()
    }

    /// Takes a request at `at`. Whatever is due up to then happens first, and completes into `done`.
    pub fn submit(
        &mut self,
        at: Time,
        request: Request,
        payload: Payload<'_>,
        done: &mut Vec<Completion>,
    ) -> Result<(), MediaError> {
        if self.unsettled.is_some() {
            // What happened before this request must be seen before the store changes.
            self.advance(at.max(self.drive.now()), done)?;
        }
        if self.is_cut {
            return Err(MediaError::Off);
        }
        self.drive.check(at, &request)?;
        self.take_payload(&request, payload)?;
        self.drive.submit(at, request, done)?;
        self.see();
        self.taken += 1;
        if let Some(cut) = self.planned.filter(|cut| cut.after == self.taken) {
            self.cut_at = Some(at + cut.delay(self.cut_window));
        }
        Ok(())
    }

    /// What the host sees at `offset` now; to be called when a read completes.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.store.read(offset, buffer)
    }

    /// When something next happens; `None` while the drive is idle and will stay so.
    pub fn next_event(&self) -> Option<Time> {
        if self.is_cut {
            return None;
        }
        match (self.drive.next_event(), self.cut_at) {
            (Some(event), Some(cut)) => Some(event.min(cut)),
            (event, cut) => event.or(cut),
        }
    }

    /// Lets everything happen that is due up to and at `until`; completions go to `done` in the order of their time. An error
    /// is one of the store, at the power cut.
    pub fn advance(&mut self, until: Time, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.is_cut {
            return Ok(());
        }
        let due = self.cut_at.filter(|cut| *cut <= until);
        self.drive.advance(due.map_or(until, |cut| cut.max(self.drive.now())), done);
        self.see();
        match (due, self.planned) {
            (Some(_), Some(cut)) => self.lose_power(cut.seed, cut.tear),
            _ => Ok(()),
        }
    }

    /// Requests submitted and not yet completed; after a cut none.
    pub fn outstanding(&self) -> usize {
        if self.is_cut { 0 } else { self.drive.outstanding() }
    }

    /// What has happened since power-on.
    pub fn counters(&self) -> &Counters {
        self.drive.counters()
    }

    /// Whether the power is off: every request is refused, and nothing more completes.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Cuts the power now. The store then holds what is on the medium.
    pub fn cut(&mut self, seed: u64, tear: Tear) -> Result<(), MediaError> {
        if self.unsettled.is_none() {
            return Err(MediaError::NotKept);
        }
        if self.is_cut {
            return Err(MediaError::Off);
        }
        Ok(self.lose_power(seed, tear)?)
    }

    /// Hands the contents to the medium below the store.
    pub fn sync(&self) -> io::Result<()> {
        self.store.sync()
    }

    /// When a planned power cut comes, once that is known.
    pub const fn cut_at(&self) -> Option<Time> {
        self.cut_at
    }

    /// The longest time from a request to the power cut that it brings about.
    pub const fn cut_window(&self) -> Nanos {
        self.cut_window
    }

    /// Whether the drive acknowledges writes that a power cut would undo.
    pub const fn has_volatile_cache(&self) -> bool {
        self.volatile
    }

    /// The bytes that a discard takes as one; where it begins or ends inside of them, they stay.
    pub const fn discard_unit(&self) -> u64 {
        self.discard_unit
    }

    /// Takes the contents out, to be those of another drive.
    pub fn into_store(self) -> Store {
        self.store
    }

    fn lose_power(&mut self, seed: u64, tear: Tear) -> io::Result<()> {
        self.is_cut = true;
        match &mut self.unsettled {
            Some(unsettled) => cut::apply(&self.store, unsettled, self.hazard, seed, tear),
            None => Ok(()),
        }
    }

    /// Changes the contents as the request asks.
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
        // The last unit of the drive may be cut off; then what there is of it is all of it.
        let after = if end == capacity { end } else { end - end % self.discard_unit };
        if first >= after {
            return Ok(());
        }
        if let Some(unsettled) = &mut self.unsettled {
            unsettled.discarded(first, after - first);
        }
        self.store.discard(first, after - first)
    }

    fn see(&mut self) {
        if let Some(unsettled) = &mut self.unsettled {
            for event in self.drive.take_media_events() {
                unsettled.happened(event);
            }
        }
    }
}
