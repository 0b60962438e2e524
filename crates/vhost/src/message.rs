//! Messages of the vhost-user protocol on the wire: a header of twelve bytes, a payload, and file descriptors beside it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg, send,
};

const HEADER_BYTES: usize = 12;
/// No message that is understood here has more: a region table of eight regions has 264.
const LARGEST_PAYLOAD: usize = 1024;
/// A region table carries one for each of its regions, eight at most.
const MOST_FDS: usize = 8;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) code: u32,
    pub(crate) needs_reply: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Message {
    /// The little-endian number at `at` of the payload; zero beyond its end, which its users have ruled out by length.
    pub(crate) fn u32(&self, at: usize) -> u32 {
        self.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// As [`Message::u32`].
    pub(crate) fn u64(&self, at: usize) -> u64 {
        self.payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }
}

/// Waits for a whole message; `None` where the other side has closed the connection between two messages.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Message>> {
    let mut header = [0; HEADER_BYTES];
    let (read, fds) = receive_with_fds(socket, &mut header)?;
    if read == 0 {
        return Ok(None);
    }
    receive_rest(socket, &mut header[read..])?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (code, flags, size) = (word(0), word(4), word(8));
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if flags & VERSION_MASK != VERSION {
        return Err(invalid(format!("protocol version {}, not {VERSION}", flags & VERSION_MASK)));
    }
    let size = usize::try_from(size).ok().filter(|size| *size <= LARGEST_PAYLOAD);
    let size = size.ok_or_else(|| invalid(format!("a message of more than {LARGEST_PAYLOAD} bytes")))?;
    let mut payload = vec![0; size];
    receive_rest(socket, &mut payload)?;
    Ok(Some(Message { code, needs_reply: flags & NEED_REPLY != 0, payload, fds }))
}

/// Answers `code` with `payload`.
pub(crate) fn reply(socket: BorrowedFd<'_>, code: u32, payload: &[u8]) -> io::Result<()> {
    let size = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for word in [code, VERSION | REPLY, size] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let sent = retry(|| send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

fn receive_with_fds(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = retry(|| {
        let mut parts = [io::IoSliceMut::new(buffer)];
        recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let (bytes, flags) = (message.bytes, message.flags);
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more file descriptors than any message has"));
    }
    Ok((bytes, fds))
}

fn receive_rest(socket: BorrowedFd<'_>, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let (read, _) = retry(|| recv(socket, &mut *buffer, RecvFlags::empty()))?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
    }
    Ok(())
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => (),
            result => return Ok(result?),
        }
    }
}

