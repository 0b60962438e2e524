//! Messages on the wire: a header of twelve bytes, a payload, and file descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg, send,
};

const HEADER_BYTES: usize = 12;
/// The largest payload accepted, in bytes. The longest message used here, a table of eight regions, has 264.
const LARGEST_PAYLOAD: usize = 1024;
/// The most descriptors with a message: a region table has one for each of its regions, eight at most.
const MOST_FDS: usize = 8;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) code: u32,
    pub(crate) needs_reply: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Message {
    /// Returns the little-endian number at `at` in the payload, or zero past its end.
    pub(crate) fn u32(&self, at: usize) -> u32 {
        self.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        self.payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }
}

#[derive(Debug)]
pub(crate) enum Progress {
    Message(Message),
    Incomplete,
    /// The other side has closed the connection between two messages.
    Gone,
}

/// Receives messages from a socket without waiting, in whatever pieces they arrive.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    header: [u8; HEADER_BYTES],
    received: usize,
    payload: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Receiver {
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<Progress> {
        while self.received < HEADER_BYTES {
            let Some((read, fds)) = receive_with_fds(socket, &mut self.header[self.received..])? else {
                return Ok(Progress::Incomplete);
            };
            if read == 0 {
                return if self.received == 0 { Ok(Progress::Gone) } else { Err(cut_off()) };
            }
            self.received += read;
            self.fds.extend(fds);
            if self.fds.len() > MOST_FDS {
                return Err(invalid("the message has more file descriptors than it can carry".to_owned()));
            }
            if self.received == HEADER_BYTES {
                self.payload.resize(self.check()?, 0);
            }
        }
        while self.received < HEADER_BYTES + self.payload.len() {
            let rest = &mut self.payload[self.received - HEADER_BYTES..];
            match progress(|| recv(socket, &mut *rest, RecvFlags::DONTWAIT).map(|(read, _)| read))? {
                None => return Ok(Progress::Incomplete),
                Some(0) => return Err(cut_off()),
                Some(read) => self.received += read,
            }
        }
        let Self { header, payload, fds, .. } = std::mem::take(self);
        let (code, flags) = (word(&header, 0), word(&header, 4));
        Ok(Progress::Message(Message { code, needs_reply: flags & NEED_REPLY != 0, payload, fds }))
    }

    fn check(&self) -> io::Result<usize> {
        let (flags, size) = (word(&self.header, 4), word(&self.header, 8));
        if flags & VERSION_MASK != VERSION {
            return Err(invalid(format!("the protocol version is {}, not {VERSION}", flags & VERSION_MASK)));
        }
        let size = usize::try_from(size).ok().filter(|size| *size <= LARGEST_PAYLOAD);
        size.ok_or_else(|| invalid(format!("the message has more than {LARGEST_PAYLOAD} bytes")))
    }
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended in the middle of a message")
}

/// Answers `code` with `payload`. It is an error if the guest lets its socket fill up with unread answers.
pub(crate) fn reply(socket: BorrowedFd<'_>, code: u32, payload: &[u8]) -> io::Result<()> {
    let size = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for word in [code, VERSION | REPLY, size] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        match progress(|| send(socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT))? {
            Some(sent) => rest = &rest[sent..],
            None => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the guest does not read its replies"));
            }
        }
    }
    Ok(())
}

/// Receives bytes and descriptors; `None` where nothing is available yet.
fn receive_with_fds(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = progress(|| {
        let mut parts = [io::IoSliceMut::new(buffer)];
        recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
    })?;
    let Some(message) = message else { return Ok(None) };
    let (bytes, flags) = (message.bytes, message.flags);
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if flags.contains(ReturnFlags::CTRUNC) {
        return Err(invalid("the message has more file descriptors than it can carry".to_owned()));
    }
    Ok(Some((bytes, fds)))
}

/// Makes a call that does not wait; `None` where it would have to.
fn progress<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<Option<T>> {
    loop {
        match call() {
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => return Ok(None),
            result => return Ok(Some(result?)),
        }
    }
}
