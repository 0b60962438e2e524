//! The clients, by the protocol they use. All of them submit jobs to the engine and get them back completed.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::media::{MediaError, Payload, virtio};
use crate::vhost::{BlockRequest, Connection, Received, Status, VhostError};
use straddle_units::io::Operation;

use crate::serve::endpoint::Stream;
use crate::serve::engine::{Engine, Finished, Job};
use crate::serve::nbd::{Export, Kind, Session, Wanted, errno};
use crate::serve::server::limits::{HANDSHAKE_TIME, MESSAGE_TIME};
use crate::serve::server::poller::Poller;
use crate::serve::summary::Totals;

/// Buffers larger than this are not kept from one request of a virtual machine to the next, in bytes.
const KEPT: usize = 1 << 20;
/// The bytes of a virtual machine's data that may be at the drive at a time. A larger request goes alone.
const MOST_DATA: u64 = 64 << 20;
/// The longest control command, in bytes.
const LONGEST_LINE: usize = 256;

/// Why a client is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It disconnected, or its connection failed.
    Left,
    /// It violated the protocol.
    Broken,
}

/// A client of the drive, or of the server itself.
pub(super) enum Client {
    Nbd(Box<NbdClient>),
    Vhost(Box<VhostClient>),
    Control(ControlClient),
}

impl Client {
    /// Whether it has not yet requested anything that only it can have, so that it can be disconnected in
    /// favour of another. A client that has sent a request never is: NBD cannot ask a client to disconnect
    /// and return, and a file system may be mounted on a connection that is idle now.
    pub(super) fn is_newcomer(&self) -> bool {
        match self {
            Self::Nbd(client) => !client.has_asked && !client.wants_room() && !client.session.is_over(),
            Self::Vhost(client) => !client.connection.is_set_up(),
            Self::Control(_) => true,
        }
    }

    /// Whether it has completed its protocol's handshake.
    pub(super) fn is_introduced(&self) -> bool {
        matches!(self, Self::Nbd(client) if client.session.is_transmitting())
    }

    /// Whether it is connected only to receive the reply that there is no room.
    pub(super) fn is_turned_away(&self) -> bool {
        matches!(self, Self::Nbd(client) if client.is_turned_away)
    }

    /// The time by which it must have completed its handshake or message.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Nbd(client) => (!client.session.is_transmitting()).then_some(client.since + HANDSHAKE_TIME),
            // No message needs to arrive in pieces.
            Self::Vhost(client) => client.within_message_since.map(|since| since + MESSAGE_TIME),
            Self::Control(_) => None,
        }
    }
}

pub(super) struct NbdClient {
    pub(super) stream: Stream,
    session: Session,
    since: Instant,
    is_turned_away: bool,
    /// Whether it has sent a request.
    has_asked: bool,
    /// Whether it may allocate the memory for a large request.
    has_room: bool,
    /// Whether the poller waits for it to become readable, and writable.
    interest: (bool, bool),
}

impl NbdClient {
    pub(super) fn new(stream: Stream) -> Self {
        Self::with(stream, Session::new(), false)
    }

    /// Creates a client that only receives the reason why it cannot be served.
    pub(super) fn turned_away(stream: Stream, reason: &'static str) -> Self {
        Self::with(stream, Session::refused(reason), true)
    }

    fn with(stream: Stream, session: Session, is_turned_away: bool) -> Self {
        let since = Instant::now();
        Self {
            stream,
            session,
            since,
            is_turned_away,
            has_asked: false,
            has_room: false,
            interest: (true, false),
        }
    }

    /// Whether it is about to receive a large request.
    pub(super) fn wants_room(&self) -> bool {
        self.session.wants_room()
    }

    /// Sets whether it may receive a large request.
    pub(super) const fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
    }

    fn is_ready(&self) -> bool {
        self.session.is_ready() && (self.has_room || !self.session.wants_room())
    }

    /// Reads what has arrived.
    pub(super) fn read(&mut self) -> Result<(), Gone> {
        if !self.is_ready() {
            return Ok(());
        }
        match self.stream.read(self.session.input()) {
            Ok(None) => Ok(()),
            Ok(Some(0)) | Err(_) => Err(Gone::Left),
            Ok(Some(bytes)) => {
                self.session.received(bytes);
                Ok(())
            }
        }
    }

    /// Submits all complete requests to the drive.
    pub(super) fn pump(
        &mut self,
        owner: u64,
        export: &Export,
        engine: &mut Engine,
        totals: &mut Totals,
    ) -> Result<(), Gone> {
        loop {
            let wanted = match self.session.next(export) {
                Ok(Some(wanted)) => wanted,
                Ok(None) => return Ok(()),
                Err(_) => return Err(Gone::Broken),
            };
            self.has_asked = true;
            let Wanted { cookie, kind, offset, length, data } = wanted;
            let (operation, payload) = translate(kind, data);
            let job = Job { owner, tag: cookie, operation, offset, length: length.into() };
            if let Err(error) = engine.submit(&job, payload) {
                totals.failed += 1;
                let read = (kind == Kind::Read).then_some((offset, length));
                self.session.complete(cookie, errno_of(&error), read);
            }
        }
    }

    /// Replies to a job.
    pub(super) fn complete(&mut self, finished: &Finished) {
        let Finished { job: Job { tag, operation, offset, length, .. }, failed, .. } = *finished;
        let error = if failed { errno::EIO } else { 0 };
        let length = u32::try_from(length).unwrap_or_default();
        self.session.complete(tag, error, (operation == Operation::Read).then_some((offset, length)));
    }

    /// Sends what can be sent, and updates what the poller waits for.
    pub(super) fn flush(&mut self, token: u64, poller: &Poller, engine: &Engine) -> Result<(), Gone> {
        loop {
            let read = |offset: u64, buffer: &mut [u8]| engine.served().read(offset, buffer);
            self.session.fill(read).map_err(|_| Gone::Left)?;
            if self.session.output().is_empty() {
                break;
            }
            match self.stream.write(self.session.output()) {
                Ok(Some(bytes)) => self.session.sent(bytes),
                Ok(None) => break,
                Err(_) => return Err(Gone::Left),
            }
        }
        if self.session.is_over() {
            return Err(Gone::Left);
        }
        let interest = (self.is_ready(), !self.session.output().is_empty());
        if interest != self.interest {
            self.interest = interest;
            poller.change(self.stream.as_fd(), token, interest.0, interest.1).map_err(|_| Gone::Left)?;
        }
        Ok(())
    }

    /// Takes no more requests, because the server ends. Requests in flight are still answered.
    pub(super) fn end(&mut self) {
        self.session.end();
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

/// A virtual machine.
pub(super) struct VhostClient {
    pub(super) connection: Connection,
    /// Copies of the descriptors that are waited for. The guest keeps its own open, so closing only one would
    /// not end the wait.
    kicks: Vec<(usize, OwnedFd)>,
    requests: HashMap<u64, BlockRequest>,
    /// Requests taken from the rings but not yet submitted to the drive.
    waiting: VecDeque<BlockRequest>,
    /// Bytes of data at the drive.
    in_flight: u64,
    next: u64,
    taken: Vec<BlockRequest>,
    data: Vec<u8>,
    /// When the message began that is not yet complete.
    within_message_since: Option<Instant>,
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
            within_message_since: None,
        }
    }

    /// Handles a message, or the kick of a queue.
    pub(super) fn read(&mut self, token: u64, poller: &Poller) -> Result<(), Gone> {
        let (base, source) = (token & !0xff, token & 0xff);
        if source > 0 {
            return Ok(());
        }
        let received = self.connection.receive().map_err(|error| gone(&error))?;
        let is_within = self.connection.is_within_message();
        self.within_message_since = is_within.then(|| self.within_message_since.unwrap_or_else(Instant::now));
        match received {
            Received::Settled | Received::Incomplete => {}
            Received::QueuesChanged => self.watch(base, poller).map_err(|_| Gone::Left)?,
            Received::Reset => {
                self.requests.clear();
                self.waiting.clear();
                self.in_flight = 0;
                self.watch(base, poller).map_err(|_| Gone::Left)?;
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
            self.kicks.push((queue, kick));
        }
        Ok(())
    }

    pub(super) fn unwatch(&mut self, poller: &Poller) {
        for (_, kick) in self.kicks.drain(..) {
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
        let has_more = self.connection.take(&mut self.taken).map_err(|error| gone(&error))?;
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
                    self.connection.complete(&request, Status::Error, &[]).map_err(|error| gone(&error))?;
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
        if virtio::answer(engine.served(), &request, &mut self.data).is_err() {
            status = Status::Error;
        }
        let result = self.connection.complete(&request, status, &self.data);
        self.give_back();
        result.map_err(|error| gone(&error))
    }

    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        self.connection.signal().map(|_| ()).map_err(|error| gone(&error))
    }
}

/// Returns the bytes of data that a request transfers.
const fn data(request: &BlockRequest) -> u64 {
    match request.kind {
        crate::vhost::Kind::Read | crate::vhost::Kind::Write => request.length,
        _ => 0,
    }
}

fn gone(error: &VhostError) -> Gone {
    match error {
        VhostError::Socket { .. } => Gone::Left,
        VhostError::Protocol { .. }
        | VhostError::Ring(_)
        | VhostError::Broken { .. }
        | VhostError::MemoryLost => Gone::Broken,
    }
}

/// A client that sends control commands.
pub(super) struct ControlClient {
    pub(super) stream: Stream,
    line: Vec<u8>,
}

impl ControlClient {
    pub(super) const fn new(stream: Stream) -> Self {
        Self { stream, line: Vec::new() }
    }

    /// Returns the commands that have arrived, one per line.
    pub(super) fn read(&mut self) -> Result<Vec<String>, Gone> {
        let mut bytes = [0; LONGEST_LINE];
        match self.stream.read(&mut bytes) {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some(0)) | Err(_) => return Err(Gone::Left),
            Ok(Some(count)) => self.line.extend_from_slice(&bytes[..count]),
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
        match self.stream.write(line.as_bytes()) {
            Ok(Some(bytes)) if bytes == line.len() => Ok(()),
            _ => Err(Gone::Left),
        }
    }
}
