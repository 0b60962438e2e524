//! Peers of `straddle serve`: a well-behaved NBD client, and a virtual machine, written here byte by byte.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::server::{Setting, request, transmit};

/// How long to wait for an answer before it counts as missing. Nothing is measured by this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn connect(path: &str) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A well-behaved NBD client.
pub(crate) struct Neighbour(pub(crate) UnixStream);

impl Neighbour {
    pub(crate) fn new(setting: &Setting) -> Self {
        Self(transmit(connect(&setting.path("nbd"))))
    }

    /// Reads a sector, which has to succeed.
    pub(crate) fn is_served(&mut self) {
        self.0.write_all(&request(0, 7, 4096, 512)).unwrap();
        let mut reply = [0; 528];
        self.0.read_exact(&mut reply).expect("the server answers others");
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    }
}

impl Drop for Neighbour {
    /// Closing it is not enough: a process that another test has just started may still have a copy.
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

// --- a virtual machine ----------------------------------------------------------------------------------------------

pub(crate) const MEMORY: u64 = 1 << 20;
pub(crate) const USER: u64 = 0x7000_0000_0000;
pub(crate) const AVAILABLE: u64 = 0x2000;
pub(crate) const USED: u64 = 0x3000;
pub(crate) const HEADER: u64 = 0x4000;
pub(crate) const STATUS: u64 = 0x5000;
pub(crate) const DATA: u64 = 0x6000;
pub(crate) const TABLE: u64 = 0x8000;
pub(crate) const RING: u16 = 16;
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITABLE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;
pub(crate) const INDIRECT_FEATURE: u64 = 1 << 28;
pub(crate) const FLUSH_FEATURE: u64 = 1 << 9;

/// A virtual machine.
pub(crate) struct Machine {
    pub(crate) socket: UnixStream,
    pub(crate) memory: File,
    pub(crate) kick: OwnedFd,
    pub(crate) call: OwnedFd,
    pub(crate) error: OwnedFd,
}

pub(crate) fn event(value: u32, flags: EventfdFlags) -> OwnedFd {
    eventfd(value, flags).unwrap()
}

/// Waits until the descriptor becomes readable or is hung up; returns whether it did.
pub(crate) fn comes(fd: impl AsFd) -> bool {
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)).unwrap() == 1
}

impl Machine {
    pub(crate) fn new(setting: &Setting) -> Self {
        let memory = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::empty()).unwrap());
        memory.set_len(MEMORY).unwrap();
        let event = || event(0, EventfdFlags::NONBLOCK);
        let socket = connect(&setting.path("vhost"));
        Self { socket, memory, kick: event(), call: event(), error: event() }
    }

    pub(crate) fn send(&self, code: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) {
        let size = u32::try_from(payload.len()).unwrap();
        let head = [code, 1, size].map(u32::to_le_bytes).concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let parts = [IoSlice::new(&head), IoSlice::new(payload)];
        sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    pub(crate) fn tell(&self, code: u32, numbers: &[u64], fds: &[BorrowedFd<'_>]) {
        self.send(code, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>(), fds);
    }

    pub(crate) fn ask(&mut self, code: u32) -> u64 {
        self.tell(code, &[], &[]);
        let mut reply = [0; 20];
        self.socket.read_exact(&mut reply).expect("a question is answered");
        u64::from_le_bytes(reply[12..].try_into().unwrap())
    }

    /// Sets everything up as a driver does, except for the features in `without`; queues use these
    /// descriptors.
    pub(crate) fn set_up(&mut self, without: u64, kick: BorrowedFd<'_>, call: BorrowedFd<'_>) {
        let features = self.ask(1);
        self.tell(2, &[features & !without], &[]);
        self.tell(3, &[], &[]);
        self.tell(5, &[1, 0, MEMORY, USER, 0], &[self.memory.as_fd()]);
        self.start(0, kick, call);
    }

    pub(crate) fn start(&mut self, queue: u64, kick: BorrowedFd<'_>, call: BorrowedFd<'_>) {
        self.place(queue, kick, call);
        // An answer shows that all previous messages have been processed.
        assert!(self.ask(17) >= 1);
    }

    pub(crate) fn place(&self, queue: u64, kick: BorrowedFd<'_>, call: BorrowedFd<'_>) {
        // Each queue is one page further; the descriptors are shared.
        let far = queue << 16;
        self.tell(8, &[queue | u64::from(RING) << 32], &[]);
        self.tell(10, &[queue], &[]);
        self.tell(9, &[queue, USER + far, USER + USED + far, USER + AVAILABLE + far, 0], &[]);
        self.tell(13, &[queue], &[call]);
        self.tell(14, &[queue], &[self.error.as_fd()]);
        self.tell(12, &[queue], &[kick]);
        self.tell(18, &[queue | 1 << 32], &[]);
    }

    pub(crate) fn well(setting: &Setting, without: u64) -> Self {
        let mut this = Self::new(setting);
        let (kick, call) = (this.kick.try_clone().unwrap(), this.call.try_clone().unwrap());
        this.set_up(without, kick.as_fd(), call.as_fd());
        this
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    pub(crate) fn u16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        u16::from_le_bytes(bytes)
    }

    pub(crate) fn descriptor(&self, at: u64, address: u64, length: u32, flags: u16, next: u16) {
        let rest = [flags, next].map(u16::to_le_bytes).concat();
        self.write(at, &[&address.to_le_bytes()[..], &length.to_le_bytes(), &rest].concat());
    }

    /// Puts a read of a sector into the first three descriptors.
    pub(crate) fn a_read(&self) {
        self.write(HEADER, &[0; 16]);
        self.descriptor(0, HEADER, 16, NEXT, 1);
        self.descriptor(16, DATA, 512, NEXT | WRITABLE, 2);
        self.descriptor(32, STATUS, 1, WRITABLE, 0);
    }

    pub(crate) fn offer(&self, heads: &[u16], index: u16) {
        let heads: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
        self.write(AVAILABLE + 4, &heads);
        self.write(AVAILABLE + 2, &index.to_le_bytes());
        rustix::io::write(&self.kick, &1u64.to_le_bytes()).unwrap();
    }

    /// Whether the first request has completed.
    pub(crate) fn is_completed(&self) -> bool {
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            self.u16(USED + 2) == 1
        })
    }
}
