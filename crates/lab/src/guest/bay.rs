//! The bay: the guest's drives, each behind its own socket, and the clock that they share.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixListener;

use crate::media::virtio::Transport;
use crate::media::{Cut, MediaError, Served, virtio};
use crate::vhost::{BlockRequest, Connection, Kind, Received, Status};
use straddle_units::io::{Completion, Counters, Nanos, Request, RequestId, Time};
use straddle_units::{ByteCount, ByteOffset};

use crate::guest::job::GuestError;
use crate::guest::link::Answer;

/// With segments no longer than the guest's page, the size of requests does not depend on which pages of its
/// memory happen to be adjacent.
const TRANSPORT: Transport = Transport { queues: 1, longest_segment: Some(4096), event_index: false };

/// All drives of a guest.
pub(crate) struct Bay {
    slots: Vec<Slot>,
    trace: Option<BufWriter<File>>,
    cut: Option<Cut>,
    /// The longest window of any drive: the power of all of them fails at the same time.
    cut_window: Nanos,
    /// When the power fails, once that is known.
    cut_at: Option<Time>,
    is_cut: bool,
    pub(crate) requests: u64,
    pub(crate) fingerprint: u64,
    /// Reused for the data of every request.
    buffer: Vec<u8>,
    done: Vec<Completion>,
    taken: Vec<BlockRequest>,
}

struct Slot {
    listener: UnixListener,
    connection: Option<Connection>,
    served: Served,
    /// Requests at the drive, by the number under which the drive knows them.
    outstanding: HashMap<RequestId, BlockRequest>,
    /// Requests that the drive completes at a time that the guest has not reached yet.
    ready: Vec<(Time, BlockRequest, Status)>,
    next_id: u64,
}

impl Bay {
    pub(crate) fn new(
        drives: Vec<(UnixListener, Served)>,
        cut: Option<Cut>,
        trace: Option<File>,
    ) -> std::io::Result<Self> {
        let slot = |(listener, mut served): (UnixListener, Served)| {
            if cut.is_some() {
                served.keep_for_cut();
            }
            Slot {
                listener,
                connection: None,
                served,
                outstanding: HashMap::new(),
                ready: Vec::new(),
                next_id: 0,
            }
        };
        let mut trace = trace.map(BufWriter::new);
        if let Some(trace) = &mut trace {
            writeln!(trace, "time_ns,op,offset,length,drive")?;
        }
        let slots: Vec<Slot> = drives.into_iter().map(slot).collect();
        let cut_window = slots.iter().map(|slot| slot.served.cut_window()).max().unwrap_or_default();
        Ok(Self {
            slots,
            trace,
            cut_at: cut.and_then(|cut| cut.due(0, Time::ZERO, cut_window)),
            cut,
            cut_window,
            is_cut: false,
            requests: 0,
            fingerprint: 0xcbf2_9ce4_8422_2325,
            buffer: Vec::new(),
            done: Vec::new(),
            taken: Vec::new(),
        })
    }

    /// Returns the descriptors to wait for, in the order of the drives. [`Bay::receive`] takes an index into
    /// this list.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.slots.iter().map(|slot| match &slot.connection {
            Some(connection) => connection.socket(),
            None => slot.listener.as_fd(),
        })
    }

    /// Handles input from the guest's driver of this drive: a connection or a message.
    pub(crate) fn receive(&mut self, drive: usize) -> Result<(), GuestError> {
        let Some(slot) = self.slots.get_mut(drive) else { return Ok(()) };
        let failed = |source| GuestError::Drive { drive, source };
        let Some(connection) = &mut slot.connection else {
            let (socket, _) =
                slot.listener.accept().map_err(GuestError::io("waiting for the guest's driver"))?;
            slot.connection =
                Some(Connection::new(socket, virtio::offer(&slot.served, TRANSPORT)).map_err(failed)?);
            return Ok(());
        };
        match connection.receive().map_err(failed)? {
            Received::Settled | Received::Incomplete | Received::QueuesChanged => {}
            // Outstanding requests are not waited for; their completions are discarded.
            Received::Reset => slot.forget(),
            Received::Gone => {
                slot.connection = None;
                slot.forget();
            }
        }
        Ok(())
    }

    /// Takes the requests that the guest has queued, at time `at`.
    pub(crate) fn kick(&mut self, at: Time) -> Result<Answer, GuestError> {
        let mut raised = false;
        for drive in 0..self.slots.len() {
            self.take(drive, at)?;
            raised |= self.signal(drive)?;
        }
        Ok(self.answer(at, raised))
    }

    /// Advances to `at`: completions that are due are delivered.
    pub(crate) fn advance(&mut self, at: Time) -> Result<Answer, GuestError> {
        let at = self.cut_at.map_or(at, |cut| cut.min(at));
        let mut raised = false;
        for drive in 0..self.slots.len() {
            self.run(drive, at)?;
            self.post(drive, at)?;
            raised |= self.signal(drive)?;
        }
        if self.cut_at == Some(at) {
            self.lose_power()?;
        }
        Ok(self.answer(at, raised))
    }

    /// Cuts the power of all drives at the same time.
    fn lose_power(&mut self) -> Result<(), GuestError> {
        self.is_cut = true;
        let Some(Cut { seed, tear, .. }) = self.cut else { return Ok(()) };
        for (drive, slot) in self.slots.iter_mut().enumerate() {
            let lost = slot.served.cut(seed.wrapping_add(drive as u64), tear);
            lost.map_err(|error| GuestError::contents(drive, error))?;
        }
        Ok(())
    }

    /// Advances to the first completion that interrupts the guest, but not past `until`.
    pub(crate) fn wait(&mut self, until: Time) -> Result<Answer, GuestError> {
        loop {
            let Some(next) = self.next().filter(|next| *next <= until) else {
                let now = if until == Time::NEVER { self.now() } else { until };
                return Ok(self.answer(now, false));
            };
            let answer = self.advance(next)?;
            if answer.raised || self.is_cut() {
                return Ok(answer);
            }
        }
    }

    fn now(&self) -> Time {
        self.slots.iter().map(|slot| slot.served.now()).max().unwrap_or(Time::ZERO)
    }

    /// Whether the power has been cut.
    pub(crate) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn counters(&self) -> Vec<Counters> {
        self.slots.iter().map(|slot| *slot.served.counters()).collect()
    }

    /// Finishes the trace and flushes the contents to their files.
    pub(crate) fn finish(mut self) -> Result<(), GuestError> {
        if let Some(trace) = &mut self.trace {
            trace.flush().map_err(GuestError::io("writing the trace"))?;
        }
        self.slots
            .iter()
            .try_for_each(|slot| slot.served.sync())
            .map_err(GuestError::io("writing the contents"))
    }

    fn take(&mut self, drive: usize, at: Time) -> Result<(), GuestError> {
        let Self {
            slots, trace, cut, cut_window, cut_at, requests, fingerprint, buffer, done, taken, ..
        } = self;
        let slot = &mut slots[drive];
        let Some(connection) = &mut slot.connection else { return Ok(()) };
        // The guest waits for the answer, so there are never more requests than the rings hold.
        connection.take(taken).map_err(|source| GuestError::Drive { drive, source })?;
        for request in taken.drain(..) {
            *requests += 1;
            *cut_at = cut.and_then(|cut| cut.due(*requests, at, *cut_window)).or(*cut_at);
            let name = name(request.kind);
            for number in [at.get(), name.len() as u64, request.offset, request.length] {
                *fingerprint = (*fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
            }
            if let Some(trace) = trace {
                let (at, offset, length) = (at.get(), request.offset, request.length);
                writeln!(trace, "{at},{name},{offset},{length},{drive}")
                    .map_err(GuestError::io("writing the trace"))?;
            }
            let status = slot.submit(at, &request, buffer, done);
            let id = RequestId(slot.next_id);
            slot.next_id += 1;
            match status {
                Ok(()) => {
                    slot.outstanding.insert(id, request);
                }
                Err(MediaError::Store(source)) => {
                    return Err(GuestError::contents(drive, source));
                }
                Err(_) => slot.ready.push((at, request, Status::Error)),
            }
            slot.collect(done);
        }
        Ok(())
    }

    fn run(&mut self, drive: usize, at: Time) -> Result<(), GuestError> {
        let slot = &mut self.slots[drive];
        let failed = |source: std::io::Error| GuestError::contents(drive, source);
        slot.served.advance(at.max(slot.served.now()), &mut self.done).map_err(failed)?;
        slot.collect(&mut self.done);
        Ok(())
    }

    /// Gives the guest the completions that are ready by `at`.
    fn post(&mut self, drive: usize, at: Time) -> Result<(), GuestError> {
        let slot = &mut self.slots[drive];
        let due = slot.ready.iter().take_while(|(time, ..)| *time <= at).count();
        for (_, request, status) in slot.ready.drain(..due) {
            let Some(connection) = &mut slot.connection else { continue };
            self.buffer.clear();
            if status == Status::Ok {
                let failed = |source: std::io::Error| GuestError::contents(drive, source);
                virtio::answer(&slot.served, &request, &mut self.buffer).map_err(failed)?;
            }
            connection
                .complete(&request, status, &self.buffer)
                .map_err(|source| GuestError::Drive { drive, source })?;
        }
        Ok(())
    }

    fn signal(&mut self, drive: usize) -> Result<bool, GuestError> {
        match &mut self.slots[drive].connection {
            Some(connection) => connection.signal().map_err(|source| GuestError::Drive { drive, source }),
            None => Ok(false),
        }
    }

    /// Returns the time of the next completion of any drive, or of the power cut; `None` while neither is
    /// expected.
    fn next(&self) -> Option<Time> {
        self.slots.iter().filter_map(Slot::next).chain(self.cut_at).min()
    }

    fn answer(&self, now: Time, raised: bool) -> Answer {
        Answer { now, next: self.next(), raised }
    }
}

impl Slot {
    fn submit(
        &mut self,
        at: Time,
        request: &BlockRequest,
        buffer: &mut Vec<u8>,
        done: &mut Vec<Completion>,
    ) -> Result<(), MediaError> {
        let Some(connection) = &self.connection else { return Err(MediaError::Off) };
        let (operation, payload) = virtio::submission(connection, request, buffer);
        let request = Request::new(
            self.next_id,
            operation,
            ByteOffset::new(request.offset),
            ByteCount::new(request.length),
        );
        self.served.submit(at.max(self.served.now()), request, payload, done)
    }

    /// Moves the requests that the drive has completed to those that are ready for the guest.
    fn collect(&mut self, done: &mut Vec<Completion>) {
        for completion in done.drain(..) {
            if let Some(request) = self.outstanding.remove(&completion.id) {
                self.ready.push((completion.at, request, Status::Ok));
            }
        }
    }

    fn forget(&mut self) {
        self.outstanding.clear();
        self.ready.clear();
    }

    fn next(&self) -> Option<Time> {
        let ready = self.ready.first().map(|(time, ..)| *time);
        let coming = (!self.outstanding.is_empty()).then(|| self.served.next_event()).flatten();
        match (ready, coming) {
            (Some(ready), Some(coming)) => Some(ready.min(coming)),
            (ready, coming) => ready.or(coming),
        }
    }
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Flush => "flush",
        Kind::Discard => "discard",
        Kind::WriteZeroes => "write",
    }
}
