//! One client: the bytes received, the requests outstanding, and the bytes to send.
//!
//! Memory is limited whatever the client does: it is read from only while it has less than [`MOST_OWED`] bytes of
//! replies outstanding or unsent, and fewer than [`MOST_IN_FLIGHT`] requests. The data of a read are fetched from the
//! store when they can soon be sent.

use std::collections::VecDeque;
use std::io;

use crate::serve::nbd::buffer::Buffer;
use crate::serve::nbd::negotiation::{self, Stage};
use crate::serve::nbd::request::{Asked, Header, Kind, REQUEST_BYTES};
use crate::serve::nbd::{Export, Violation};

const MOST_IN_FLIGHT: usize = 1024;
/// The most bytes of replies to be sent to one client.
const MOST_OWED: u64 = 64 << 20;
const READ_BYTES: usize = 256 << 10;
/// Bytes fetched from the store at a time.
const PIECE: usize = 256 << 10;
/// A client is not read from while this many bytes of short replies are unsent.
const MOST_UNSENT: usize = 1 << 20;
const LARGE: usize = 1 << 20;

const REPLY_MAGIC: u32 = 0x6744_6698;
const REPLY_BYTES: u64 = 16;

/// A request for the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The client's identifier for it.
    pub cookie: u64,
    /// The operation.
    pub kind: Kind,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u32,
    /// The data of a write.
    pub data: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Due {
    cookie: u64,
    error: u32,
    /// First byte of the data that remains to be sent.
    offset: u64,
    left: u32,
    has_begun: bool,
}

/// A client.
#[derive(Debug)]
pub struct Session {
    stage: Stage,
    input: Buffer,
    output: Buffer,
    /// Replies to be sent after those in the output.
    due: VecDeque<Due>,
    /// Bytes of input to ignore: the data of a write that was refused.
    skip: u64,
    /// Bytes that must have arrived before parsing is worthwhile.
    needed: usize,
    in_flight: usize,
    /// Bytes of replies to reads that have not completed.
    owed: u64,
}

impl Session {
    /// Begins the session of a new client. The greeting is in [`Session::output`].
    pub fn begin() -> Self {
        let mut output = Buffer::default();
        negotiation::greet(&mut output);
        Self {
            stage: Stage::Flags,
            input: Buffer::default(),
            output,
            due: VecDeque::new(),
            skip: 0,
            needed: 0,
            in_flight: 0,
            owed: 0,
        }
    }

    /// The buffer for bytes from the client. Report their number with [`Session::received`].
    pub fn input(&mut self) -> &mut [u8] {
        let least = self.needed.saturating_sub(self.input.len()).max(READ_BYTES);
        self.input.room(least)
    }

    /// Records that `bytes` bytes were put into [`Session::input`].
    pub fn received(&mut self, bytes: usize) {
        self.input.extend(bytes);
        let skipped = self.skip.min(self.input.len() as u64);
        self.input.consume(usize::try_from(skipped).unwrap_or_default());
        self.skip -= skipped;
    }

    /// The bytes to send. After [`Session::fill`] it is empty only if there is nothing to send.
    pub fn output(&self) -> &[u8] {
        self.output.filled()
    }

    /// Records that `bytes` bytes of [`Session::output`] have been sent.
    pub fn sent(&mut self, bytes: usize) {
        self.output.consume(bytes);
    }

    /// Whether more should be read from the client now.
    pub fn is_ready(&self) -> bool {
        self.stage != Stage::Ended && !self.is_full()
    }

    /// Whether the session has ended, with all replies sent.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Ended && self.in_flight == 0 && self.due.is_empty() && self.output.len() == 0
    }

    /// Whether the client has reached the transmission phase.
    #[cfg(test)]
    pub(super) fn is_transmitting(&self) -> bool {
        self.stage == Stage::Transmission
    }

    /// Stops taking requests. Those in flight are still answered.
    pub fn end(&mut self) {
        self.stage = Stage::Ended;
    }

    /// Returns the next request for the drive; `None` until more bytes arrive or some are sent.
    pub fn next(&mut self, export: &Export) -> Result<Option<Wanted<'_>>, Violation> {
        if self.needed <= LARGE {
            self.input.shrink();
        }
        loop {
            if self.is_full() || self.skip > 0 || self.stage == Stage::Ended {
                return Ok(None);
            }
            if self.stage != Stage::Transmission {
                let (input, output) = (&mut self.input, &mut self.output);
                let Some(stage) = negotiation::step(self.stage, input, output, export)? else {
                    return Ok(None);
                };
                self.stage = stage;
                continue;
            }
            let Some(bytes) = self.input.filled().first_chunk::<REQUEST_BYTES>() else { return Ok(None) };
            let header = Header::parse(bytes, export)?;
            match header.asked {
                Asked::Disconnect => self.end(),
                Asked::Error(errno) => {
                    self.input.consume(REQUEST_BYTES);
                    self.skip = header.payload.into();
                    self.received(0);
                    self.reply(header.cookie, errno);
                }
                Asked::Request(kind) => {
                    self.needed = REQUEST_BYTES + header.payload as usize;
                    if self.input.len() < self.needed {
                        return Ok(None);
                    }
                    return Ok(Some(self.hand_out(kind, &header)));
                }
            }
        }
    }

    fn hand_out(&mut self, kind: Kind, header: &Header) -> Wanted<'_> {
        self.in_flight += 1;
        if kind == Kind::Read {
            self.owed += REPLY_BYTES + u64::from(header.length);
        }
        let message = self.input.take(std::mem::take(&mut self.needed)).unwrap_or_default();
        let data = message.get(REQUEST_BYTES..).unwrap_or_default();
        let Header { cookie, offset, length, .. } = *header;
        Wanted { cookie, kind, offset, length, data }
    }

    /// Completes a request, with this error or 0. For a read, `read` is its first byte and its length.
    pub fn complete(&mut self, cookie: u64, error: u32, read: Option<(u64, u32)>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let (offset, length) = read.unwrap_or_default();
        if error != 0 {
            self.settle(length);
        }
        let left = if error == 0 { length } else { 0 };
        if left == 0 && self.due.is_empty() {
            self.reply(cookie, error);
        } else {
            self.due.push_back(Due { cookie, error, offset, left, has_begun: false });
        }
    }

    /// Fetches the data to be sent next by `read`, which gets the first byte and the buffer. After an error the
    /// client must be disconnected: the middle of a reply cannot report one.
    pub fn fill(&mut self, mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
        while self.output.len() < PIECE {
            let Some(mut due) = self.due.pop_front() else { return Ok(()) };
            let before = self.output.len();
            if !due.has_begun {
                self.reply(due.cookie, due.error);
            }
            let length = PIECE.min(due.left as usize);
            match read(due.offset, &mut self.output.room(length)[..length]) {
                Ok(()) => self.output.extend(length),
                Err(error) if due.has_begun => return Err(error),
                Err(_) => {
                    self.output.truncate(before);
                    self.reply(due.cookie, super::errno::EIO);
                    self.settle(due.left);
                    continue;
                }
            }
            let taken = u32::try_from(length).unwrap_or(due.left);
            due =
                Due { offset: due.offset + u64::from(taken), left: due.left - taken, has_begun: true, ..due };
            self.owed = self.owed.saturating_sub(taken.into());
            if due.left > 0 {
                self.due.push_front(due);
            } else if taken > 0 {
                self.owed = self.owed.saturating_sub(REPLY_BYTES);
            }
        }
        Ok(())
    }

    fn settle(&mut self, length: u32) {
        if length > 0 {
            self.owed = self.owed.saturating_sub(REPLY_BYTES + u64::from(length));
        }
    }

    fn reply(&mut self, cookie: u64, error: u32) {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&error.to_be_bytes());
        bytes[8..].copy_from_slice(&cookie.to_be_bytes());
        self.output.push(&bytes);
    }

    fn is_full(&self) -> bool {
        self.in_flight + self.due.len() >= MOST_IN_FLIGHT
            || self.owed >= MOST_OWED
            || self.output.len() >= MOST_UNSENT
    }
}
