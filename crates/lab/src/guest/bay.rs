//! The bay: the guest's drives, each with its own socket, and the clock that they share.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use straddle_units::io::{Completion, Counters, Nanos, Request, RequestId, Time};
use straddle_units::{ByteCount, ByteOffset};

use crate::guest::job::GuestError;
use crate::guest::link::Answer;
use crate::media::{Cut, MediaError, Served, virtio};
use crate::vhost::{BlockRequest, Connection, Kind, Offer, Received, Status, VhostError};

/// A page of the guest. With longer segments, the size of requests would depend on which pages happen to be adjacent.
const LONGEST_SEGMENT: u32 = 4096;

pub(crate) struct Bay {
    slots: Vec<Slot>,
    cut: Option<Cut>,
    /// The longest window of any drive: the power of all fails at the same time.
    cut_window: Nanos,
    cut_at: Option<Time>,
    pub(crate) is_cut: bool,
    pub(crate) requests: u64,
    pub(crate) fingerprint: u64,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    data: Vec<u8>,
    done: Vec<Completion>,
    taken: Vec<BlockRequest>,
}

struct Slot {
    drive: usize,
    listener: UnixListener,
    connection: Option<Connection>,
    served: Served,
    outstanding: HashMap<RequestId, BlockRequest>,
    /// Requests that complete at a time that the guest has not reached yet.
    ready: Vec<(Time, BlockRequest, Status)>,
    next_id: u64,
}

impl Bay {
    pub(crate) fn new(drives: Vec<(UnixListener, Served)>, cut: Option<Cut>) -> Self {
        let slot = |(drive, (listener, mut served)): (usize, (UnixListener, Served))| {
            if cut.is_some() {
                served.keep_for_cut();
            }
            let (outstanding, ready) = (HashMap::new(), Vec::new());
            Slot { drive, listener, connection: None, served, outstanding, ready, next_id: 0 }
        };
        let slots: Vec<Slot> = drives.into_iter().enumerate().map(slot).collect();
        let cut_window = slots.iter().map(|slot| slot.served.cut_window()).max().unwrap_or_default();
        Self {
            slots,
            cut_at: cut.and_then(|cut| cut.due(0, Time::ZERO, cut_window)),
            cut,
            cut_window,
            is_cut: false,
            requests: 0,
            fingerprint: 0xcbf2_9ce4_8422_2325,
            scratch: Scratch::default(),
        }
    }

    /// In the order of the drives; [`Bay::receive`] takes an index into this list.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.slots.iter().map(|slot| match &slot.connection {
            Some(connection) => connection.socket(),
            None => slot.listener.as_fd(),
        })
    }

    pub(crate) fn receive(&mut self, drive: usize) -> Result<(), GuestError> {
        let slot = &mut self.slots[drive];
        let failed = |source| GuestError::Drive { drive, source };
        let Some(connection) = &mut slot.connection else {
            let accepted = slot.listener.accept();
            let (socket, _) = accepted.map_err(GuestError::io("cannot wait for the driver of the guest"))?;
            let offer = Offer { longest_segment: Some(LONGEST_SEGMENT), ..virtio::offer(&slot.served) };
            slot.connection = Some(Connection::new(socket, offer).map_err(failed)?);
            return Ok(());
        };
        let received = connection.receive().map_err(failed)?;
        if received == Received::Gone {
            slot.connection = None;
        }
        if matches!(received, Received::Gone | Received::Reset) {
            // Nobody waits for their completions.
            slot.outstanding.clear();
            slot.ready.clear();
        }
        Ok(())
    }

    pub(crate) fn kick(&mut self, at: Time) -> Result<Answer, GuestError> {
        let mut raised = false;
        for drive in 0..self.slots.len() {
            self.take(drive, at)?;
            raised |= self.slots[drive].signal()?;
        }
        Ok(self.answer(at, raised))
    }

    pub(crate) fn advance(&mut self, at: Time) -> Result<Answer, GuestError> {
        let at = self.cut_at.map_or(at, |cut| cut.min(at));
        let mut raised = false;
        for slot in &mut self.slots {
            slot.advance(at, &mut self.scratch)?;
            raised |= slot.signal()?;
        }
        if self.cut_at == Some(at) {
            self.lose_power()?;
        }
        Ok(self.answer(at, raised))
    }

    fn lose_power(&mut self) -> Result<(), GuestError> {
        self.is_cut = true;
        let Some(Cut { seed, tear, .. }) = self.cut else { return Ok(()) };
        for (drive, slot) in self.slots.iter_mut().enumerate() {
            let lost = slot.served.cut(seed.wrapping_add(drive as u64), tear);
            lost.map_err(|error| GuestError::contents(drive, error))?;
        }
        Ok(())
    }

    pub(crate) fn wait(&mut self, until: Time) -> Result<Answer, GuestError> {
        loop {
            let Some(next) = self.next().filter(|next| *next <= until) else {
                let now = || self.slots.iter().map(|slot| slot.served.now()).max().unwrap_or(Time::ZERO);
                return Ok(self.answer(if until == Time::NEVER { now() } else { until }, false));
            };
            let answer = self.advance(next)?;
            if answer.raised || self.is_cut {
                return Ok(answer);
            }
        }
    }

    pub(crate) fn counters(&self) -> Vec<Counters> {
        self.slots.iter().map(|slot| *slot.served.counters()).collect()
    }

    pub(crate) fn finish(self) -> Result<(), GuestError> {
        let mut slots = self.slots.iter();
        slots.try_for_each(|slot| slot.served.sync()).map_err(GuestError::io("cannot write the contents"))
    }

    fn take(&mut self, drive: usize, at: Time) -> Result<(), GuestError> {
        let Self { slots, cut, cut_window, cut_at, requests, fingerprint, scratch, .. } = self;
        let slot = &mut slots[drive];
        let Some(connection) = &mut slot.connection else { return Ok(()) };
        // The guest waits for the answer, so there are never more requests than the rings hold.
        connection.take(&mut scratch.taken).map_err(|source| GuestError::Drive { drive, source })?;
        for request in scratch.taken.drain(..) {
            *requests += 1;
            *cut_at = cut.and_then(|cut| cut.due(*requests, at, *cut_window)).or(*cut_at);
            let kind = match request.kind {
                Kind::Read => 4,
                Kind::Write | Kind::WriteZeroes | Kind::Flush => 5,
                Kind::Discard => 7,
            };
            for number in [at.get(), kind, request.offset, request.length] {
                *fingerprint = (*fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
            }
            let (operation, payload) = virtio::submission(connection, &request, &mut scratch.data);
            let (offset, length) = (ByteOffset::new(request.offset), ByteCount::new(request.length));
            let submitted = Request::new(slot.next_id, operation, offset, length);
            slot.next_id += 1;
            let now = at.max(slot.served.now());
            match slot.served.submit(now, submitted, payload, &mut scratch.done) {
                Ok(()) => {
                    slot.outstanding.insert(submitted.id, request);
                }
                Err(MediaError::Store(source)) => return Err(GuestError::contents(drive, source)),
                Err(_) => slot.ready.push((at, request, Status::Error)),
            }
            collect(&mut slot.outstanding, &mut slot.ready, &mut scratch.done);
        }
        Ok(())
    }

    /// Returns the time of the next completion of any drive, or of the power cut.
    fn next(&self) -> Option<Time> {
        self.slots.iter().filter_map(Slot::next).chain(self.cut_at).min()
    }

    fn answer(&self, now: Time, raised: bool) -> Answer {
        Answer { now, next: self.next(), raised }
    }
}

impl Slot {
    fn advance(&mut self, at: Time, scratch: &mut Scratch) -> Result<(), GuestError> {
        let drive = self.drive;
        let failed = |source: std::io::Error| GuestError::contents(drive, source);
        self.served.advance(at.max(self.served.now()), &mut scratch.done).map_err(failed)?;
        collect(&mut self.outstanding, &mut self.ready, &mut scratch.done);
        let due = self.ready.iter().take_while(|(time, ..)| *time <= at).count();
        for (_, request, status) in self.ready.drain(..due) {
            let Some(connection) = &mut self.connection else { continue };
            scratch.data.clear();
            if status == Status::Ok {
                virtio::answer(&self.served, &request, &mut scratch.data).map_err(failed)?;
            }
            let completed = connection.complete(&request, status, &scratch.data);
            completed.map_err(|source| GuestError::Drive { drive, source })?;
        }
        Ok(())
    }

    fn signal(&mut self) -> Result<bool, GuestError> {
        let failed = |source: VhostError| GuestError::Drive { drive: self.drive, source };
        self.connection.as_mut().map_or(Ok(false), |connection| connection.signal().map_err(failed))
    }

    fn next(&self) -> Option<Time> {
        let ready = self.ready.first().map(|(time, ..)| *time);
        let coming = (!self.outstanding.is_empty()).then(|| self.served.next_event()).flatten();
        ready.into_iter().chain(coming).min()
    }
}

fn collect(
    outstanding: &mut HashMap<RequestId, BlockRequest>,
    ready: &mut Vec<(Time, BlockRequest, Status)>,
    done: &mut Vec<Completion>,
) {
    for completion in done.drain(..) {
        let request = outstanding.remove(&completion.id);
        ready.extend(request.map(|request| (completion.at, request, Status::Ok)));
    }
}
