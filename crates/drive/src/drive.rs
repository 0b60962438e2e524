//! A modelled drive of either kind; every request goes through here.

use straddle_units::io::{Completion, Counters, Operation, Refusal, Request, Time};

use crate::disk::Disk;
use crate::profile::{Body, Claims, Profile};
use crate::ssd::{Card, Ssd};

/// A change to what the medium holds. Spans are byte offsets as the host counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the time, the first byte and the number of bytes")]
pub enum MediaEvent {
    /// The drive begins to store what its buffer holds of the span now; durable at the matching
    /// [`MediaEvent::Stored`].
    Storing { at: Time, offset: u64, length: u64 },
    /// The span is durable, with the data that it had at the matching [`MediaEvent::Storing`].
    Stored { at: Time, offset: u64, length: u64 },
    /// The span was discarded and no longer has contents.
    Discarded { at: Time, offset: u64, length: u64 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) counters: Counters,
    /// Recorded only after [`Drive::watch_media`].
    pub(crate) media_events: Option<Vec<MediaEvent>>,
}

/// A modelled drive, switched on at [`Time::ZERO`].
#[derive(Clone, Debug)]
pub struct Drive {
    claims: Claims,
    logical_mask: u64,
    now: Time,
    body: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Disk(Box<Disk>),
    Ssd(Box<Ssd>),
    Card(Box<Card>),
}

impl Drive {
    /// Switches on a drive with this profile.
    pub fn new(profile: &Profile) -> Self {
        let body = match &profile.body {
            Body::Disk(disk) => Kind::Disk(Box::new(Disk::new(disk, profile.interface, profile.sectors))),
            Body::Ssd(ssd) => match ssd.open_superblocks() {
                Some(open) => Kind::Card(Box::new(Card::new(ssd, open, profile.interface))),
                None => Kind::Ssd(Box::new(Ssd::new(ssd, profile.interface))),
            },
        };
        let claims = profile.claims.clone();
        Self { logical_mask: claims.logical_sector - 1, claims, now: Time::ZERO, body }
    }

    /// What the drive reports about itself to the host.
    pub const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The drive's current time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Submits a request at `at`. Events due up to then happen first, and their completions go to `done`.
    pub fn submit(&mut self, at: Time, request: Request, done: &mut Vec<Completion>) -> Result<(), Refusal> {
        self.check(at, &request)?;
        self.advance(at, done);
        match &mut self.body {
            Kind::Disk(disk) => disk.submit(at, request),
            Kind::Ssd(ssd) => ssd.submit(at, request),
            Kind::Card(card) => card.submit(at, request),
        }
        Ok(())
    }

    /// The time of the next internal event; `None` while the drive is idle and will stay so.
    pub fn next_event(&self) -> Option<Time> {
        match &self.body {
            Kind::Disk(disk) => disk.next_event(),
            Kind::Ssd(ssd) => ssd.next_event(),
            Kind::Card(card) => card.next_event(),
        }
    }

    /// Processes all events due up to and including `until`; appends completions to `done` in order of time.
    pub fn advance(&mut self, until: Time, done: &mut Vec<Completion>) {
        match &mut self.body {
            Kind::Disk(disk) => disk.advance(until, done),
            Kind::Ssd(ssd) => ssd.advance(until, done),
            Kind::Card(card) => card.advance(until, done),
        }
        self.now = self.now.max(until);
    }

    /// Advances to the next completion and returns it; `None` if no request is outstanding.
    pub fn next_completion(&mut self, done: &mut Vec<Completion>) -> Option<Completion> {
        while done.is_empty() && self.outstanding() > 0 {
            let event = self.next_event()?;
            self.advance(event, done);
        }
        (!done.is_empty()).then(|| done.remove(0))
    }

    /// Commands submitted and not yet completed.
    pub fn outstanding(&self) -> usize {
        match &self.body {
            Kind::Disk(disk) => disk.outstanding(),
            Kind::Ssd(ssd) => ssd.outstanding(),
            Kind::Card(card) => card.outstanding(),
        }
    }

    /// Bytes of the units in an SSD's write buffer, which flash does not hold yet. `None` for a disk.
    pub fn buffered(&self) -> Option<u64> {
        match &self.body {
            Kind::Disk(_) => None,
            Kind::Ssd(ssd) => Some(ssd.buffered_bytes()),
            Kind::Card(_) => Some(0),
        }
    }

    /// The counters since power-on.
    pub fn counters(&self) -> &Counters {
        match &self.body {
            Kind::Disk(disk) => &disk.record.counters,
            Kind::Ssd(ssd) => &ssd.record.counters,
            Kind::Card(card) => &card.record.counters,
        }
    }

    fn media_events(&mut self) -> &mut Option<Vec<MediaEvent>> {
        match &mut self.body {
            Kind::Disk(disk) => &mut disk.record.media_events,
            Kind::Ssd(ssd) => &mut ssd.record.media_events,
            Kind::Card(card) => &mut card.record.media_events,
        }
    }

    /// Starts recording what becomes durable; [`Drive::take_media_events`] returns it.
    pub fn watch_media(&mut self) {
        self.media_events().get_or_insert_default();
    }

    /// The media events since the last call, in order; empty unless [`Drive::watch_media`] was called.
    pub fn take_media_events(&mut self) -> Vec<MediaEvent> {
        self.media_events().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether [`Drive::submit`] would accept the request at `at`.
    pub fn check(&self, at: Time, request: &Request) -> Result<(), Refusal> {
        if at < self.now {
            return Err(Refusal::InThePast { at, now: self.now });
        }
        if request.operation == Operation::Flush {
            return Ok(());
        }
        let (offset, length) = (request.offset.get(), request.length.get());
        if length == 0 {
            return Err(Refusal::Empty { offset });
        }
        if (offset | length) & self.logical_mask != 0 {
            return Err(Refusal::NotWholeSectors { offset, length, sector: self.claims.logical_sector });
        }
        if offset.checked_add(length).is_none_or(|end| end > self.claims.capacity) {
            return Err(Refusal::PastEnd { offset, length, capacity: self.claims.capacity });
        }
        if request.operation == Operation::Discard && self.claims.discard_granularity.is_none() {
            return Err(Refusal::NoDiscard);
        }
        Ok(())
    }
}
