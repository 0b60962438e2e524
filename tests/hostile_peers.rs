//! Peers of `straddle serve` that mean harm: virtual machines and NBD clients, written here byte by byte.
//!
//! Every attack comes beside a neighbour who has done nothing and has to be served while it goes on. A server that an attack stops
//! answers nobody: then the neighbour's patience ends, and the test with it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/server.rs"]
mod server;
mod tools;

use std::fs::{self, File};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use server::{Server, Setting, request, summary, transmit};

/// How long an answer may take before it is taken for none. Nothing is measured by this.
const PATIENCE: Duration = Duration::from_secs(600);

fn connect(path: &str) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An NBD client that is served.
struct Neighbour(UnixStream);

impl Neighbour {
    fn new(setting: &Setting) -> Self {
        Self(transmit(connect(&setting.path("nbd"))))
    }

    /// Asks for a sector, and gets it.
    fn is_served(&mut self) {
        self.0.write_all(&request(0, 7, 4096, 512)).unwrap();
        let mut reply = [0; 528];
        self.0.read_exact(&mut reply).expect("the server answers others");
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    }
}

// --- a virtual machine ----------------------------------------------------------------------------------------------

const MEMORY: u64 = 1 << 20;
const USER: u64 = 0x7000_0000_0000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADER: u64 = 0x4000;
const STATUS: u64 = 0x5000;
const DATA: u64 = 0x6000;
const TABLE: u64 = 0x8000;
const RING: u16 = 16;
const NEXT: u16 = 1;
const WRITABLE: u16 = 2;
const INDIRECT: u16 = 4;
const INDIRECT_FEATURE: u64 = 1 << 28;
const FLUSH_FEATURE: u64 = 1 << 9;

struct Machine {
    socket: UnixStream,
    memory: File,
    kick: OwnedFd,
    call: OwnedFd,
    error: OwnedFd,
}

fn event(value: u32, flags: EventfdFlags) -> OwnedFd {
    eventfd(value, flags).unwrap()
}

/// Whether the descriptor becomes readable, or is hung up.
fn comes(fd: impl AsFd) -> bool {
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience)).unwrap() == 1
}

impl Machine {
    fn new(setting: &Setting) -> Self {
        let memory = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::empty()).unwrap());
        memory.set_len(MEMORY).unwrap();
        let event = || event(0, EventfdFlags::NONBLOCK);
        let socket = connect(&setting.path("vhost"));
        Self { socket, memory, kick: event(), call: event(), error: event() }
    }

    fn send(&self, code: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) {
        let size = u32::try_from(payload.len()).unwrap();
        let head = [code, 1, size].map(u32::to_le_bytes).concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let parts = [IoSlice::new(&head), IoSlice::new(payload)];
        sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    fn tell(&self, code: u32, numbers: &[u64], fds: &[BorrowedFd<'_>]) {
        self.send(code, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>(), fds);
    }

    fn ask(&mut self, code: u32) -> u64 {
        self.tell(code, &[], &[]);
        let mut reply = [0; 20];
        self.socket.read_exact(&mut reply).expect("a question is answered");
        u64::from_le_bytes(reply[12..].try_into().unwrap())
    }

    /// Sets everything up as a driver does, but for these features; queues use these descriptors.
    fn set_up(&mut self, without: u64, kick: BorrowedFd<'_>, call: BorrowedFd<'_>) {
        let features = self.ask(1);
        self.tell(2, &[features & !without], &[]);
        self.tell(3, &[], &[]);
        self.tell(5, &[1, 0, MEMORY, USER, 0], &[self.memory.as_fd()]);
        self.start(0, kick, call);
    }

    fn start(&mut self, queue: u64, kick: BorrowedFd<'_>, call: BorrowedFd<'_>) {
        // A page further for each queue; the descriptors are shared.
        let far = queue << 16;
        self.tell(8, &[queue | u64::from(RING) << 32], &[]);
        self.tell(10, &[queue], &[]);
        self.tell(9, &[queue, USER + far, USER + USED + far, USER + AVAILABLE + far, 0], &[]);
        self.tell(13, &[queue], &[call]);
        self.tell(14, &[queue], &[self.error.as_fd()]);
        self.tell(12, &[queue], &[kick]);
        self.tell(18, &[queue | 1 << 32], &[]);
        // An answer says that all of this has been done.
        assert!(self.ask(17) >= 1);
    }

    fn well(setting: &Setting, without: u64) -> Self {
        let mut this = Self::new(setting);
        let (kick, call) = (this.kick.try_clone().unwrap(), this.call.try_clone().unwrap());
        this.set_up(without, kick.as_fd(), call.as_fd());
        this
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    fn u16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        u16::from_le_bytes(bytes)
    }

    fn descriptor(&self, at: u64, address: u64, length: u32, flags: u16, next: u16) {
        let rest = [flags, next].map(u16::to_le_bytes).concat();
        self.write(at, &[&address.to_le_bytes()[..], &length.to_le_bytes(), &rest].concat());
    }

    /// A read of a sector, in the first three descriptors.
    fn a_read(&self) {
        self.write(HEADER, &[0; 16]);
        self.descriptor(0, HEADER, 16, NEXT, 1);
        self.descriptor(16, DATA, 512, NEXT | WRITABLE, 2);
        self.descriptor(32, STATUS, 1, WRITABLE, 0);
    }

    fn offer(&self, heads: &[u16], index: u16) {
        let heads: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
        self.write(AVAILABLE + 4, &heads);
        self.write(AVAILABLE + 2, &index.to_le_bytes());
        rustix::io::write(&self.kick, &1u64.to_le_bytes()).unwrap();
    }

    /// Whether the first request was completed.
    fn is_completed(&self) -> bool {
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            self.u16(USED + 2) == 1
        })
    }

    /// Whether the server has closed the connection.
    fn is_let_go(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn serve(setting: &Setting) -> Server {
    setting.serve(&["--vhost-user", &setting.path("vhost")])
}

/// A full ring of the largest requests that there are, all in the same memory, and a neighbour who wants a sector now and then.
#[test]
fn a_machine_with_large_requests_leaves_room_for_others() {
    let setting = Setting::new("hostile-large");
    let server = serve(&setting);
    let mut neighbour = Neighbour::new(&setting);
    let mut machine = Machine::well(&setting, 0);
    let heads: Vec<u16> = (0..RING).collect();
    for head in &heads {
        machine.descriptor(16 * u64::from(*head), 0x9_0000, 16 * 1002, INDIRECT, 0);
    }
    // Sixty-two mebibytes read into one page of the guest's.
    machine.write(HEADER, &[0; 16]);
    machine.descriptor(0x9_0000, HEADER, 16, NEXT, 1);
    for part in 1..=1000 {
        machine.descriptor(0x9_0000 + 16 * u64::from(part), 0xa_0000, 65_024, NEXT | WRITABLE, part + 1);
    }
    machine.descriptor(0x9_0000 + 16 * 1001, STATUS, 1, WRITABLE, 0);
    machine.offer(&heads, RING);
    let mut served = 0;
    while machine.u16(USED + 2) < RING {
        neighbour.is_served();
        served += 1;
    }
    assert!(served >= 4, "{served} requests of the neighbour's went before the end of sixteen");
    assert!(machine.ask(17) >= 1, "it goes on itself");
    drop(neighbour);
    assert_eq!(summary(server)["broken"], 0);
}

/// What a driver may not do with a ring, each on a connection of its own: it is told, and let go.
#[test]
fn a_machine_that_damages_its_ring_is_let_go_and_others_go_on() {
    type Attack = fn(&Machine);
    let attacks: [(&str, u64, Attack); 13] = [
        ("an index far ahead", 0, |m| m.offer(&[0], 0x8000)),
        ("an index one too far", 0, |m| m.offer(&[0], RING + 1)),
        ("a head behind the table", 0, |m| m.offer(&[RING], 1)),
        ("a chain twice", 0, |m| m.offer(&[0, 0], 2)),
        ("a next behind the table", 0, |m| {
            m.descriptor(0, HEADER, 16, NEXT, 500);
            m.offer(&[0], 1);
        }),
        ("a loop", 0, |m| {
            m.descriptor(16, DATA, 512, NEXT | WRITABLE, 1);
            m.offer(&[0], 1);
        }),
        ("readable behind writable", 0, |m| {
            m.descriptor(32, STATUS, 1, 0, 0);
            m.offer(&[0], 1);
        }),
        ("an indirect table, not negotiated", INDIRECT_FEATURE, |m| {
            m.descriptor(0, TABLE, 32, INDIRECT, 0);
            m.offer(&[0], 1);
        }),
        ("an indirect table that is cut off", 0, |m| {
            m.descriptor(0, TABLE, 33, INDIRECT, 0);
            m.offer(&[0], 1);
        }),
        ("an indirect table in another", 0, |m| {
            m.descriptor(0, TABLE, 32, INDIRECT, 0);
            m.descriptor(TABLE, TABLE, 32, INDIRECT, 0);
            m.offer(&[0], 1);
        }),
        ("an indirect table that loops", 0, |m| {
            m.descriptor(0, TABLE, 32, INDIRECT, 0);
            m.descriptor(TABLE, HEADER, 16, NEXT, 0);
            m.offer(&[0], 1);
        }),
        ("an indirect table outside the memory", 0, |m| {
            m.descriptor(0, u64::MAX - 20, 32, INDIRECT, 0);
            m.offer(&[0], 1);
        }),
        ("a flush, not negotiated", FLUSH_FEATURE, |m| {
            m.write(HEADER, &4u32.to_le_bytes());
            m.offer(&[0], 1);
        }),
    ];
    let setting = Setting::new("hostile-rings");
    let server = serve(&setting);
    let mut neighbour = Neighbour::new(&setting);
    for (name, without, attack) in attacks {
        let mut machine = Machine::well(&setting, without);
        machine.a_read();
        attack(&machine);
        neighbour.is_served();
        assert!(comes(&machine.error), "{name}: the driver is not told");
        assert!(machine.is_let_go(), "{name}");
    }
    // One who does all of it well.
    let machine = Machine::well(&setting, 0);
    machine.a_read();
    machine.offer(&[0], 1);
    assert!(comes(&machine.call) && machine.is_completed());
    drop(neighbour);
    let report = summary(server);
    assert_eq!(report["broken"], attacks.len(), "{report}");
}

/// Descriptors of a machine's that would make whoever uses them wait.
#[test]
fn descriptors_that_block_block_nobody() {
    let setting = Setting::new("hostile-descriptors");
    let server = serve(&setting);
    let mut neighbour = Neighbour::new(&setting);

    // A counter that has no room for another interrupt, and a pipe that has none.
    let full = event(0, EventfdFlags::empty());
    rustix::io::write(&full, &(u64::MAX - 1).to_le_bytes()).unwrap();
    let (_reader, pipe) = std::io::pipe().unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&pipe).unwrap();
    rustix::io::write(&pipe, &vec![0; size]).unwrap();
    // The same of a socket.
    let (socket, _other) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    while (&socket).write(&[0; 512]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    for call in [full.as_fd(), pipe.as_fd(), socket.as_fd()] {
        let mut machine = Machine::new(&setting);
        let kick = machine.kick.try_clone().unwrap();
        machine.set_up(0, kick.as_fd(), call);
        machine.a_read();
        machine.offer(&[0], 1);
        neighbour.is_served();
        assert!(machine.is_completed());
    }

    // One counter that two queues are woken by: whoever reads it second waits.
    let mut machine = Machine::new(&setting);
    let call = machine.call.try_clone().unwrap();
    let shared = event(0, EventfdFlags::empty());
    machine.kick = shared.try_clone().unwrap();
    machine.set_up(0, shared.as_fd(), call.as_fd());
    machine.start(1, shared.as_fd(), call.as_fd());
    machine.a_read();
    machine.offer(&[0], 1);
    neighbour.is_served();
    assert!(comes(&machine.call) && machine.is_completed());

    // What is neither a counter nor a pipe nor a socket is not taken.
    let file = machine.memory.try_clone().unwrap();
    for code in [12, 13, 14] {
        let mut machine = Machine::new(&setting);
        let features = machine.ask(1);
        machine.tell(2, &[features], &[]);
        machine.tell(code, &[0], &[file.as_fd()]);
        assert!(machine.is_let_go(), "message {code}");
        neighbour.is_served();
    }
    drop(neighbour);
    summary(server);
}

/// Questions without end, whose answers nobody fetches; and a message that comes a byte at a time.
#[test]
fn messages_that_never_end_hold_up_nobody() {
    let setting = Setting::new("hostile-messages");
    let server = serve(&setting);
    let mut neighbour = Neighbour::new(&setting);

    let deaf = Machine::new(&setting);
    let question = [1u32, 1, 0].map(u32::to_le_bytes).concat().repeat(1000);
    let flooded = (0..10_000).any(|_| (&deaf.socket).write_all(&question).is_err());
    assert!(flooded, "whoever fetches no answers is let go");
    neighbour.is_served();

    let drip = Machine::new(&setting);
    let (mut head, tail) = (&drip.socket, [0]);
    head.write_all(&[5u32, 1, 1024].map(u32::to_le_bytes).concat()).unwrap();
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| {
            (0..900).any(|_| {
                std::thread::sleep(Duration::from_millis(100));
                (&drip.socket).write_all(&tail).is_err()
            })
        });
        neighbour.is_served();
        assert!(ends.join().unwrap(), "a message has to come to its end");
    });
    neighbour.is_served();
    drop(neighbour);
    summary(server);
}

/// The memory is a file of the machine's: it can be made shorter at any time.
#[test]
fn memory_that_is_taken_away_ends_one_client() {
    let setting = Setting::new("hostile-memory");
    let server = serve(&setting);
    let mut neighbour = Neighbour::new(&setting);
    for (left, write) in [(0, false), (USED, false), (DATA, false), (DATA, true)] {
        let mut machine = Machine::well(&setting, 0);
        machine.a_read();
        if write {
            machine.write(HEADER, &1u32.to_le_bytes());
            machine.descriptor(16, DATA, 512, NEXT, 2);
        }
        machine.write(AVAILABLE + 4, &[0, 0, 1, 0]);
        machine.memory.set_len(left).unwrap();
        rustix::io::write(&machine.kick, &1u64.to_le_bytes()).unwrap();
        if left > AVAILABLE {
            machine.offer(&[0], 1);
        }
        neighbour.is_served();
        assert!(machine.is_let_go(), "{left} bytes left");
    }
    drop(neighbour);
    summary(server);
}

// --- NBD clients ----------------------------------------------------------------------------------------------------

/// A write of half a gigabyte of zeroes, all of which a power cut could undo, and a neighbour who wants a sector now and then.
#[test]
fn a_long_request_leaves_room_for_short_ones() {
    let setting = Setting::new("hostile-long");
    let control = format!("unix:{}", setting.path("control"));
    let server = setting.serve(&["--control", &control]);
    let mut neighbour = Neighbour::new(&setting);
    let mut long = transmit(connect(&setting.path("nbd")));
    long.write_all(&request(6, 1, 0, 512 << 20)).unwrap();
    long.set_nonblocking(true).unwrap();
    let (mut served, mut reply) = (0, [0; 16]);
    loop {
        neighbour.is_served();
        match long.read(&mut reply) {
            Ok(bytes) => break assert_eq!((bytes, &reply[4..8]), (16, &[0; 4][..])),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        served += 1;
    }
    assert!(served >= 5, "{served} requests of the neighbour's went before the end of one");
    drop((neighbour, long));
    let report = summary(server);
    assert_eq!(report["write_bytes"], 512 << 20, "all of it counts: {report}");
}

/// The most memory that the server has ever had.
fn peak_kib(server: &Server) -> u64 {
    let memory = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn memory_is_bounded_whatever_many_clients_do() {
    let setting = Setting::new("hostile-hoarders");
    let server = setting.serve(&[]);
    let mut neighbour = Neighbour::new(&setting);
    // Who asks for much and fetches nothing.
    let mut hoarders = Vec::new();
    for _ in 0..20 {
        let mut client = transmit(connect(&setting.path("nbd")));
        (0..64).for_each(|cookie| client.write_all(&request(0, cookie, 0, 1 << 20)).unwrap());
        hoarders.push(client);
        neighbour.is_served();
    }
    assert!(peak_kib(&server) < 256 << 10, "{} KiB for replies", peak_kib(&server));
    drop(hoarders);
    // Who announces much and does not send all of it. One of the first has no room left, and gets it.
    let mut hoarders = Vec::new();
    for _ in 0..14 {
        let client = transmit(connect(&setting.path("nbd")));
        client.set_nonblocking(true).unwrap();
        (&client).write_all(&request(1, 1, 0, 32 << 20)).unwrap();
        hoarders.push(client);
    }
    let piece = vec![1; 1 << 20];
    for _ in 0..60 {
        for client in &hoarders {
            // As much as goes in, but not the last mebibyte.
            let _ = rustix::net::send(client, &piece[..512 << 10], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        neighbour.is_served();
    }
    assert!(peak_kib(&server) < 384 << 10, "{} KiB for requests", peak_kib(&server));
    let mut good = transmit(connect(&setting.path("nbd")));
    good.write_all(&request(1, 1, 0, 32 << 20)).unwrap();
    (0..32).for_each(|_| good.write_all(&piece).expect("room is made for the next"));
    good.read_exact(&mut [0; 16]).unwrap();
    drop((neighbour, hoarders, good));
    summary(server);
}

/// Who comes and says nothing, or says it so slowly that it comes to the same.
#[test]
fn a_handshake_has_an_end() {
    let setting = Setting::new("hostile-handshake");
    let server = setting.serve(&[]);
    let mut neighbour = Neighbour::new(&setting);
    let (mut silent, slow) = (connect(&setting.path("nbd")), connect(&setting.path("nbd")));
    (&slow).write_all(&3_u32.to_be_bytes()).unwrap();
    // Options that the server does not know, without end.
    let ends = b"IHAVEOPT\0\0\0\x63\0\0\0\0".iter().cycle().take(600).any(|byte| {
        std::thread::sleep(Duration::from_millis(100));
        (&slow).write_all(&[*byte]).is_err()
    });
    assert!(ends, "a handshake goes on for ever");
    silent.read_to_end(&mut Vec::new()).expect("whoever says nothing is let go");
    neighbour.is_served();
    drop(neighbour);
    summary(server);
}

#[test]
fn a_full_house_says_so_and_idle_newcomers_give_way() {
    let setting = Setting::new("hostile-full");
    let control = format!("unix:{}", setting.path("control"));
    let server = setting.serve(&["--control", &control]);
    // Sixty-four who say nothing keep nobody out.
    let idle: Vec<UnixStream> = (0..64).map(|_| connect(&setting.path("nbd"))).collect();
    let mut clients = vec![Neighbour::new(&setting)];
    clients[0].is_served();
    drop(idle);
    while clients.len() < 64 {
        clients.push(Neighbour::new(&setting));
    }
    // Nobody of these gives way; the next one learns why it is not served.
    let mut late = connect(&setting.path("nbd"));
    let mut greeting = [0; 18];
    late.read_exact(&mut greeting).expect("it is greeted");
    late.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0").unwrap();
    let mut answer = [0; 20];
    late.read_exact(&mut answer).expect("it is answered");
    assert_eq!(answer[8..16], [0, 0, 0, 7, 0x80, 0, 0, 2], "GO is refused by policy");
    let mut reason = vec![0; usize::from(answer[19])];
    late.read_exact(&mut reason).unwrap();
    assert!(String::from_utf8(reason).unwrap().contains("clients"));
    let mut told = String::new();
    connect(&setting.path("control")).read_to_string(&mut told).unwrap();
    assert!(told.contains("\"error\"") && told.contains("clients"), "{told:?}");
    clients.iter_mut().for_each(Neighbour::is_served);
    // With one gone there is room again.
    clients.pop();
    drop(late);
    Neighbour::new(&setting).is_served();
    drop(clients);
    summary(server);
}
