//! The device from the guest's side: messages and rings written by hand, valid and invalid.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use proptest::prelude::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use straddle_lab::vhost::{BlockRequest, Connection, Kind, Offer, Received, Status};
use straddle_units::io::SplitMix64;

const MEMORY: u64 = 1 << 20;
/// The address at which the guest's process says its memory is mapped.
const USER: u64 = 0x7000_0000_0000;
/// The offsets of the ring's parts in it.
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 4096;
const USED: u64 = 8192;
const RING: u16 = 16;
const WRITABLE: u16 = 2;
const NEXT: u16 = 1;

fn offer() -> Offer {
    Offer {
        capacity: 1 << 30,
        logical_sector: 512,
        physical_sector: 4096,
        alignment_offset: 0,
        minimum_io: 4096,
        optimal_io: 0,
        discard_granularity: Some(4096),
        volatile_cache: true,
        queues: 1,
        longest_segment: Some(4096),
        event_index: false,
        serial: "a drive".into(),
    }
}

struct Guest {
    socket: UnixStream,
    device: Connection,
    memory: File,
    call: File,
    available: u16,
}

impl Guest {
    fn new() -> Self {
        let (socket, other) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let memory = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::empty()).unwrap());
        memory.set_len(MEMORY).unwrap();
        let call = File::from(rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap());
        Self { socket, device: Connection::new(other, offer()).unwrap(), memory, call, available: 0 }
    }

    fn send(&self, code: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut bytes = Vec::new();
        for word in [code, 1, u32::try_from(payload.len()).unwrap()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty()).unwrap();
    }

    fn tell(&mut self, code: u32, numbers: &[u64], fds: &[BorrowedFd<'_>]) -> Received {
        let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.send(code, &payload, fds);
        self.device.receive().unwrap()
    }

    fn ask(&mut self, code: u32, payload: &[u8]) -> Vec<u8> {
        self.send(code, payload, &[]);
        self.device.receive().unwrap();
        let mut header = [0; 12];
        self.socket.read_exact(&mut header).unwrap();
        assert_eq!(
            header[..8],
            [&code.to_le_bytes()[..], &5u32.to_le_bytes()].concat(),
            "a reply, version 1"
        );
        let size = u32::from_le_bytes(header[8..].try_into().unwrap());
        let mut answer = vec![0; usize::try_from(size).unwrap()];
        self.socket.read_exact(&mut answer).unwrap();
        answer
    }

    /// Sets up memory and the ring, as a driver does.
    fn set_up(&mut self) {
        let (memory, call) = (self.memory.try_clone().unwrap(), self.call.try_clone().unwrap());
        let features = u64::from_le_bytes(self.ask(1, &[]).try_into().unwrap());
        assert_ne!(features & 1 << 32, 0, "version 1");
        self.tell(2, &[features], &[]);
        // One region, with room for a second, as User-Mode Linux sends it.
        self.tell(5, &[1, 0, MEMORY, USER, 0, 0, 0, 0, 0], &[memory.as_fd()]);
        self.tell(8, &[u64::from(RING) << 32], &[]);
        self.tell(10, &[0], &[]);
        self.tell(9, &[0, USER + DESCRIPTORS, USER + USED, USER + AVAILABLE, 0], &[]);
        self.tell(13, &[0], &[call.as_fd()]);
        assert_eq!(self.tell(12, &[0], &[call.as_fd()]), Received::QueuesChanged);
        assert_eq!(self.tell(18, &[1 << 32], &[]), Received::QueuesChanged);
    }

    /// Puts a chain of (address, length, flags) into the ring.
    fn put(&mut self, chain: &[(u64, u32, u16)]) {
        for (index, (address, length, flags)) in chain.iter().enumerate() {
            let last = index + 1 == chain.len();
            let mut bytes = address.to_le_bytes().to_vec();
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&(flags | if last { 0 } else { NEXT }).to_le_bytes());
            bytes.extend_from_slice(&u16::try_from(index + 1).unwrap().to_le_bytes());
            self.memory.write_all_at(&bytes, DESCRIPTORS + 16 * index as u64).unwrap();
        }
        let slot = AVAILABLE + 4 + 2 * u64::from(self.available % RING);
        self.memory.write_all_at(&0u16.to_le_bytes(), slot).unwrap();
        self.available = self.available.wrapping_add(1);
        self.memory.write_all_at(&self.available.to_le_bytes(), AVAILABLE + 2).unwrap();
    }

    fn header(&self, at: u64, kind: u32, sector: u64) {
        let bytes = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        self.memory.write_all_at(&bytes, at).unwrap();
    }

    fn take(&mut self) -> Vec<BlockRequest> {
        let mut requests = Vec::new();
        self.device.take(&mut requests).unwrap();
        requests
    }

    /// Returns the number of requests returned, and the bytes written to the last of them.
    fn used(&self) -> (u16, u32) {
        let mut index = [0; 2];
        self.memory.read_exact_at(&mut index, USED + 2).unwrap();
        let index = u16::from_le_bytes(index);
        let mut length = [0; 4];
        let slot = USED + 4 + 8 * u64::from(index.wrapping_sub(1) % RING) + 4;
        self.memory.read_exact_at(&mut length, slot).unwrap();
        (index, u32::from_le_bytes(length))
    }

    fn byte(&self, at: u64) -> u8 {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, at).unwrap();
        byte[0]
    }
}

#[test]
fn a_write_and_a_read_go_through() {
    let mut guest = Guest::new();
    guest.set_up();
    guest.header(0x4000, 1, 8);
    guest.memory.write_all_at(&[0xab; 1024], 0x5000).unwrap();
    // Data and header are in two pieces each: the guest may divide them in any way.
    guest.put(&[(0x4000, 8, 0), (0x4008, 8, 0), (0x5000, 512, 0), (0x5200, 512, 0), (0x6000, 1, WRITABLE)]);
    let requests = guest.take();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.kind, request.offset, request.length), (Kind::Write, 4096, 1024));
    let mut data = Vec::new();
    assert!(guest.device.fetch(request, &mut data));
    assert_eq!(data, [0xab; 1024]);
    guest.memory.write_all_at(&[9], 0x6000).unwrap();
    guest.device.complete(request, Status::Ok, &[]).unwrap();
    assert_eq!((guest.used(), guest.byte(0x6000)), ((1, 1), 0));
    assert!(guest.device.signal().unwrap());
    assert!(!guest.device.signal().unwrap(), "once is enough");
    let mut count = [0; 8];
    (&guest.call).read_exact(&mut count).unwrap();
    assert_eq!(u64::from_le_bytes(count), 1);

    guest.header(0x4000, 0, 16);
    guest.put(&[(0x4000, 16, 0), (0x7000, 512, WRITABLE), (0x8000, 513, WRITABLE)]);
    let requests = guest.take();
    assert_eq!((requests[0].kind, requests[0].offset, requests[0].length), (Kind::Read, 8192, 1024));
    guest.device.complete(&requests[0], Status::Ok, &[0xcd; 1024]).unwrap();
    assert_eq!(guest.used(), (2, 1025));
    assert_eq!([0x7000, 0x71ff, 0x8000, 0x81ff].map(|at| guest.byte(at)), [0xcd; 4]);
    assert_eq!(guest.byte(0x8200), 0, "the status is the last byte");
}

#[test]
fn other_requests_are_understood_or_refused() {
    let mut guest = Guest::new();
    guest.set_up();
    for (code, kind) in [(11, Kind::Discard), (13, Kind::WriteZeroes)] {
        guest.header(0x4000, code, 0);
        let range = [&64u64.to_le_bytes()[..], &32u32.to_le_bytes(), &[0; 4]].concat();
        guest.memory.write_all_at(&range, 0x5000).unwrap();
        guest.put(&[(0x4000, 16, 0), (0x5000, 16, 0), (0x6000, 1, WRITABLE)]);
        let requests = guest.take();
        assert_eq!((requests[0].kind, requests[0].offset, requests[0].length), (kind, 32768, 16384));
        guest.device.complete(&requests[0], Status::Ok, &[]).unwrap();
    }
    guest.header(0x4000, 8, 0);
    guest.put(&[(0x4000, 16, 0), (0x5000, 20, WRITABLE), (0x6000, 1, WRITABLE)]);
    assert!(guest.take().is_empty(), "the name is answered at once");
    assert_eq!(guest.used(), (3, 21));
    assert_eq!([0x5000, 0x5006, 0x5007].map(|at| guest.byte(at)), *b"ae\0");

    // An unknown request; a header that is too short; data outside the memory; nothing to write a status to.
    guest.header(0x4000, 99, 0);
    guest.put(&[(0x4000, 16, 0), (0x6000, 1, WRITABLE)]);
    assert!(guest.take().is_empty());
    assert_eq!(guest.byte(0x6000), 2);
    guest.put(&[(0x4000, 8, 0), (0x6000, 1, WRITABLE)]);
    assert!(guest.take().is_empty());
    assert_eq!(guest.byte(0x6000), 1);
    guest.put(&[(0x4000, 16, 0)]);
    assert!(guest.take().is_empty());
    assert_eq!(guest.used(), (6, 0));
    guest.header(0x4000, 1, 0);
    guest.put(&[(0x4000, 16, 0), (MEMORY - 100, 512, 0), (0x6000, 1, WRITABLE)]);
    let requests = guest.take();
    assert!(!guest.device.fetch(&requests[0], &mut Vec::new()));
}

#[test]
fn a_stopped_ring_says_where_it_was() {
    let mut guest = Guest::new();
    guest.set_up();
    guest.header(0x4000, 4, 0);
    guest.put(&[(0x4000, 16, 0), (0x6000, 1, WRITABLE)]);
    let requests = guest.take();
    assert_eq!(requests[0].kind, Kind::Flush);
    assert_eq!(guest.ask(11, &0u64.to_le_bytes()), 1u64.rotate_left(32).to_le_bytes(), "one request taken");
    guest.device.complete(&requests[0], Status::Ok, &[]).unwrap();
    assert_eq!(guest.used().0, 0, "nobody waits for it any more");
    guest.put(&[(0x4000, 16, 0), (0x6000, 1, WRITABLE)]);
    assert!(guest.take().is_empty());
}

#[test]
fn the_configuration_is_read_beyond_its_end_as_zeroes() {
    let mut guest = Guest::new();
    let question = [&0u32.to_le_bytes()[..], &128u32.to_le_bytes(), &[0; 4], &[0xff; 128]].concat();
    let answer = guest.ask(24, &question);
    assert_eq!(answer[12..20], (offer().capacity / 512).to_le_bytes());
    assert!(answer[12 + 60..].iter().all(|byte| *byte == 0));
}

#[test]
fn what_the_protocol_forbids_is_an_error() {
    let memory = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::empty()).unwrap());
    memory.set_len(MEMORY).unwrap();
    let fd = [memory.as_fd()];
    let cases: [(u32, &[u64], &[BorrowedFd<'_>], &str); 9] = [
        (2, &[1 << 60], &[], "not offered"),
        (5, &[1, 0, MEMORY, USER, 0], &[], "1 regions and 0 files"),
        (5, &[9, 0], &fd, "9 regions"),
        (5, &[1, 0, MEMORY * 2, USER, 0], &fd, "cannot be mapped"),
        (5, &[1, 0, 0, USER, 0], &fd, "cannot be mapped"),
        (5, &[1, 0, MEMORY, USER, u64::MAX - 4095], &fd, "cannot be mapped"),
        (8, &[7 | 16 << 32], &[], "no ring 7"),
        (9, &[0, 1, 2, 3, 4], &[], "outside the guest's memory"),
        (77, &[0], &[], "not offered"),
    ];
    for (code, numbers, fds, says) in cases {
        let mut guest = Guest::new();
        let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        guest.send(code, &payload, fds);
        let error = guest.device.receive().expect_err(says).to_string();
        assert!(error.contains(says), "{code}: {error}");
    }
    let mut guest = Guest::new();
    drop(std::mem::replace(&mut guest.socket, UnixStream::pair().unwrap().0));
    assert_eq!(guest.device.receive().unwrap(), Received::Gone);
}

proptest! {
    #[test]
    fn random_messages_do_no_harm(messages in prop::collection::vec((0u32..40, prop::collection::vec(any::<u64>(), 0..12)), 1..20)) {
        let mut guest = Guest::new();
        for (code, numbers) in messages {
            let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            guest.send(code, &payload, &[]);
            if guest.device.receive().is_err() {
                break;
            }
            let _ = guest.device.take(&mut Vec::new());
        }
    }

    #[test]
    fn random_rings_do_no_harm(seed in any::<u64>(), len in 512_usize..8300, kind in 0u32..16) {
        let mut bytes = vec![0; len];
        SplitMix64::new(seed).fill(&mut bytes);
        let mut guest = Guest::new();
        guest.set_up();
        guest.header(0x4000, kind, 1 << 20);
        (&guest.memory).write_all(&bytes).unwrap();
        let mut requests = Vec::new();
        if guest.device.take(&mut requests).is_ok() {
            let mut data = Vec::new();
            for request in requests.iter().take(3) {
                guest.device.fetch(request, &mut data);
                let _ = guest.device.complete(request, Status::Ok, &[0; 512]);
            }
            let _ = guest.device.signal();
        }
    }
}
