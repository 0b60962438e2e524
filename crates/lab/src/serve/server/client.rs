//! The clients, by the protocol they use: they submit jobs to the engine and get them back completed.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use straddle_drive::Profile;
use straddle_units::io::Operation;

use crate::media::{MediaError, Payload, virtio};
use crate::serve::endpoint::Stream;
use crate::serve::engine::{Engine, Finished, Job};
use crate::serve::nbd::{Export, Kind, LARGEST_REQUEST, Session, Wanted, errno};
use crate::serve::server::Totals;
use crate::serve::server::poller::Poller;
use crate::vhost::{self, BlockRequest, Connection, Received, Status, VhostError};

/// Larger buffers are not kept from one request of a virtual machine to the next, in bytes.
const KEPT: usize = 1 << 20;
/// The bytes of a virtual machine's data that may be at the drive at a time. A larger request goes alone.
const MOST_DATA: u64 = 64 << 20;
const LONGEST_LINE: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Left,
    Broken,
}

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self::Left
    }
}

impl From<VhostError> for Gone {
    fn from(error: VhostError) -> Self {
        if matches!(error, VhostError::Socket { .. }) { Self::Left } else { Self::Broken }
    }
}

pub(super) enum Client {
    Nbd(Box<NbdClient>),
    Vhost(Box<VhostClient>),
    Control(ControlClient),
}

pub(super) struct NbdClient {
    pub(super) stream: Stream,
    pub(super) session: Session,
    interest: (bool, bool),
}

impl NbdClient {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, session: Session::begin(), interest: (true, false) }
    }

    pub(super) fn read(&mut self) -> Result<(), Gone> {
        if !self.session.is_ready() {
            return Ok(());
        }
        match self.stream.read(self.session.input())? {
            Some(0) => Err(Gone::Left),
            bytes => {
                self.session.received(bytes.unwrap_or(0));
                Ok(())
            }
        }
    }

    pub(super) fn pump(
        &mut self,
        owner: u64,
        export: &Export,
        engine: &mut Engine,
        totals: &mut Totals,
    ) -> Result<(), Gone> {
        while let Some(wanted) = self.session.next(export).map_err(|_| Gone::Broken)? {
            let Wanted { cookie, kind, offset, length, data } = wanted;
            let (operation, payload) = translate(kind, data);
            let job = Job { owner, tag: cookie, operation, offset, length: length.into() };
            if let Err(error) = engine.submit(&job, payload) {
                totals.failed += 1;
                let read = (kind == Kind::Read).then_some((offset, length));
                self.session.complete(cookie, errno_of(&error), read);
            }
        }
        Ok(())
    }

    pub(super) fn complete(&mut self, finished: &Finished) {
        let Finished { job: Job { tag, operation, offset, length, .. }, failed, .. } = *finished;
        let error = if failed { errno::EIO } else { 0 };
        let length = u32::try_from(length).unwrap_or_default();
        self.session.complete(tag, error, (operation == Operation::Read).then_some((offset, length)));
    }

    /// Sends what can be sent, and updates what the poller waits for.
    pub(super) fn flush(&mut self, token: u64, poller: &Poller, engine: &Engine) -> Result<(), Gone> {
        loop {
            let read = |offset: u64, buffer: &mut [u8]| engine.served.read(offset, buffer);
            self.session.fill(read)?;
            if self.session.output().is_empty() {
                break;
            }
            match self.stream.write(self.session.output())? {
                Some(bytes) => self.session.sent(bytes),
                None => break,
            }
        }
        if self.session.is_over() {
            return Err(Gone::Left);
        }
        let interest = (self.session.is_ready(), !self.session.output().is_empty());
        if interest != self.interest {
            self.interest = interest;
            poller.change(&self.stream.0, token, interest.0, interest.1)?;
        }
        Ok(())
    }
}

fn translate(kind: Kind, data: &[u8]) -> (Operation, Payload<'_>) {
    let write = |fua| if fua { Operation::WriteFua } else { Operation::Write };
    match kind {
        Kind::Read => (Operation::Read, Payload::None),
        Kind::Write { fua } => (write(fua), Payload::Bytes(data)),
        Kind::WriteZeroes { fua, hole: true } => (write(fua), Payload::Zeroes),
        Kind::WriteZeroes { fua, hole: false } => (write(fua), Payload::KeptZeroes),
        Kind::Flush => (Operation::Flush, Payload::None),
        Kind::Trim => (Operation::Discard, Payload::None),
    }
}

fn errno_of(error: &MediaError) -> u32 {
    match error {
        MediaError::Refused(_) | MediaError::Payload { .. } => errno::EINVAL,
        MediaError::Off => errno::ESHUTDOWN,
        MediaError::Store(error) if error.kind() == io::ErrorKind::StorageFull => errno::ENOSPC,
        MediaError::Store(_) | MediaError::NotKept => errno::EIO,
    }
}

pub(super) struct VhostClient {
    pub(super) connection: Connection,
    /// Copies of the descriptors in the poller. The guest keeps its own open, so closing one does not end the wait.
    kicks: Vec<OwnedFd>,
    requests: HashMap<u64, BlockRequest>,
    waiting: VecDeque<BlockRequest>,
    in_flight: u64,
    next: u64,
    taken: Vec<BlockRequest>,
    data: Vec<u8>,
}

impl VhostClient {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            kicks: Vec::new(),
            requests: HashMap::new(),
            waiting: VecDeque::new(),
            in_flight: 0,
            next: 0,
            taken: Vec::new(),
            data: Vec::new(),
        }
    }

    pub(super) fn read(&mut self, token: u64, poller: &Poller) -> Result<(), Gone> {
        let (base, source) = (token & !0xff, token & 0xff);
        if source > 0 {
            return Ok(());
        }
        match self.connection.receive()? {
            Received::Settled => {}
            Received::QueuesChanged => self.watch(base, poller)?,
            Received::Reset => {
                self.requests.clear();
                self.waiting.clear();
                self.in_flight = 0;
                self.watch(base, poller)?;
            }
            Received::Gone => return Err(Gone::Left),
        }
        Ok(())
    }

    fn watch(&mut self, base: u64, poller: &Poller) -> io::Result<()> {
        self.unwatch(poller);
        for (queue, kick) in self.connection.kicks() {
            let kick = kick.try_clone_to_owned()?;
            poller.add_edges(&kick, base + 1 + queue as u64)?;
            self.kicks.push(kick);
        }
        Ok(())
    }

    pub(super) fn unwatch(&mut self, poller: &Poller) {
        for kick in self.kicks.drain(..) {
            poller.remove(&kick);
        }
    }

    /// Submits the available requests to the drive. Returns true if more have arrived meanwhile.
    pub(super) fn pump(
        &mut self,
        owner: u64,
        engine: &mut Engine,
        totals: &mut Totals,
    ) -> Result<bool, Gone> {
        let has_more = self.connection.take(&mut self.taken)?;
        self.waiting.extend(self.taken.drain(..));
        // All data of a turn are copied in that turn, while other clients wait.
        let fits =
            |in_flight: u64, next: &BlockRequest| in_flight == 0 || in_flight + data(next) <= MOST_DATA;
        while self.waiting.front().is_some_and(|next| fits(self.in_flight, next)) {
            let Some(request) = self.waiting.pop_front() else { break };
            let tag = self.next;
            self.next += 1;
            let (operation, payload) = virtio::submission(&self.connection, &request, &mut self.data);
            let job = Job { owner, tag, operation, offset: request.offset, length: request.length };
            match engine.submit(&job, payload) {
                Ok(()) => {
                    self.in_flight += data(&request);
                    self.requests.insert(tag, request);
                }
                Err(_) => {
                    totals.failed += 1;
                    self.connection.complete(&request, Status::Error, &[])?;
                }
            }
        }
        self.give_back();
        Ok(has_more)
    }

    /// Frees the memory of a large request instead of keeping it for the next.
    fn give_back(&mut self) {
        if self.data.capacity() > KEPT {
            self.data = Vec::new();
        }
    }

    pub(super) fn complete(&mut self, finished: &Finished, engine: &Engine) -> Result<(), Gone> {
        let Some(request) = self.requests.remove(&finished.job.tag) else { return Ok(()) };
        self.in_flight = self.in_flight.saturating_sub(data(&request));
        let mut status = if finished.failed { Status::Error } else { Status::Ok };
        if virtio::answer(&engine.served, &request, &mut self.data).is_err() {
            status = Status::Error;
        }
        let result = self.connection.complete(&request, status, &self.data);
        self.give_back();
        Ok(result?)
    }

    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        self.connection.signal()?;
        Ok(())
    }
}

const fn data(request: &BlockRequest) -> u64 {
    match request.kind {
        vhost::Kind::Read | vhost::Kind::Write => request.length,
        _ => 0,
    }
}

pub(super) struct ControlClient {
    pub(super) stream: Stream,
    line: Vec<u8>,
}

impl ControlClient {
    pub(super) const fn new(stream: Stream) -> Self {
        Self { stream, line: Vec::new() }
    }

    pub(super) fn read(&mut self) -> Result<Vec<String>, Gone> {
        let mut bytes = [0; LONGEST_LINE];
        match self.stream.read(&mut bytes)? {
            None => return Ok(Vec::new()),
            Some(0) => return Err(Gone::Left),
            Some(count) => self.line.extend_from_slice(&bytes[..count]),
        }
        let mut lines = Vec::new();
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
        if self.line.len() >= LONGEST_LINE { Err(Gone::Broken) } else { Ok(lines) }
    }

    /// Sends a line. A client that does not read it is disconnected.
    pub(super) fn answer(&self, mut line: String) -> Result<(), Gone> {
        line.push('\n');
        match self.stream.write(line.as_bytes())? {
            Some(bytes) if bytes == line.len() => Ok(()),
            _ => Err(Gone::Left),
        }
    }
}

pub(super) fn export(profile: &Profile) -> Export {
    let claims = &profile.claims;
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(LARGEST_REQUEST);
    let minimum_block = narrow(claims.logical_sector);
    // NBD has one preferred size, which must be a power of two. A drive may claim any size.
    let preferred = narrow(claims.minimum_io.unwrap_or(0).max(claims.physical_sector));
    let fits = preferred.is_power_of_two() && (minimum_block..=LARGEST_REQUEST).contains(&preferred);
    Export {
        name: profile.name.clone(),
        description: profile.title.clone(),
        size: claims.capacity,
        minimum_block,
        preferred_block: if fits { preferred } else { minimum_block },
        rotational: claims.rotational,
        trim: claims.discard_granularity.is_some(),
    }
}
