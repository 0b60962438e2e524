//! Malicious peers of `straddle serve`: virtual machines and NBD clients, written here byte by byte.
//!
//! During every attack a well-behaved neighbour has to be served. A server that an attack stops no longer
//! answers; then the neighbour's request times out, and the test fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/peers.rs"]
mod peers;
#[path = "tools/server.rs"]
mod server;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use peers::*;
use rustix::event::EventfdFlags;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::SendFlags;
use server::{Server, Setting, request, summary, transmit};

fn serve(setting: &Setting) -> Server {
    setting.serve(&["--vhost-user", &setting.path("vhost")])
}

/// A full ring of the largest possible requests, all in the same memory, and a neighbour that reads a sector
/// now and then.
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
    // 62 MiB are read into a single page of the guest.
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
    assert_eq!(summary(server)["broken_clients"], 0);
}

/// Violations of the ring protocol, each on a connection of its own: the driver is notified and disconnected.
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
        assert!(comes(&machine.error), "{name}: the driver gets no interrupt");
        assert!(machine.is_let_go(), "{name}");
    }
    // A machine that does everything correctly.
    let machine = Machine::well(&setting, 0);
    machine.a_read();
    machine.offer(&[0], 1);
    assert!(comes(&machine.call) && machine.is_completed());
    drop(neighbour);
    let report = summary(server);
    assert_eq!(report["broken_clients"], attacks.len(), "{report}");
}

/// Descriptors passed by a machine on which a read or write would block.
#[test]
fn descriptors_that_block_block_nobody() {
    let setting = Setting::new("hostile-descriptors");
    let server = serve(&setting);
    let mut neighbour = Neighbour::new(&setting);

    // A counter without room for another interrupt, and a full pipe.
    let full = event(0, EventfdFlags::empty());
    rustix::io::write(&full, &(u64::MAX - 1).to_le_bytes()).unwrap();
    let (_reader, pipe) = std::io::pipe().unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&pipe).unwrap();
    rustix::io::write(&pipe, &vec![0; size]).unwrap();
    // A full socket.
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

    // One counter shared by two queues: a second read of it would block.
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

    // A descriptor that is neither a counter nor a pipe nor a socket is refused.
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

/// Endless requests whose replies are never read; and a message that arrives one byte at a time.
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

/// The memory is a file of the machine's, which can shrink it at any time.
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
    // Huge pages that the system does not have, in a file sealed against shrinking; and more addresses than
    // exist.
    for (flags, size) in [(MemfdFlags::HUGETLB, 1_u64 << 30), (MemfdFlags::empty(), 16 << 40)] {
        let mut machine = Machine::new(&setting);
        let features = machine.ask(1);
        machine.tell(2, &[features], &[]);
        let Ok(memory) = rustix::fs::memfd_create("huge", flags | MemfdFlags::ALLOW_SEALING) else {
            continue;
        };
        rustix::fs::ftruncate(&memory, size).unwrap();
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
        let table: Vec<u64> = (0..8)
            .flat_map(|at| [at * (size / 8), size / 8, USER + at * (size / 8), at * (size / 8)])
            .collect();
        machine.tell(5, &[&[8][..], &table].concat(), &[memory.as_fd(); 8]);
        let (kick, call) = (machine.kick.try_clone().unwrap(), machine.call.try_clone().unwrap());
        if size < 1 << 40 {
            machine.place(0, kick.as_fd(), call.as_fd());
            rustix::io::write(&machine.kick, &1u64.to_le_bytes()).unwrap();
            neighbour.is_served();
            // On a system with huge pages, this machine is like any other.
            continue;
        }
        neighbour.is_served();
        assert!(machine.is_let_go(), "{size} bytes are lent");
    }
    drop(neighbour);
    summary(server);
}

// --- NBD clients ----------------------------------------------------------------------------------------------------

/// A write of 512 MiB of zeroes, all of which a power cut could undo, and a neighbour that reads a sector now
/// and then.
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

/// The server's peak memory.
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
    // Clients that request much and read no replies.
    let mut hoarders = Vec::new();
    for _ in 0..20 {
        let mut client = transmit(connect(&setting.path("nbd")));
        (0..64).for_each(|cookie| client.write_all(&request(0, cookie, 0, 1 << 20)).unwrap());
        hoarders.push(client);
        neighbour.is_served();
    }
    assert!(peak_kib(&server) < 256 << 10, "{} KiB for replies", peak_kib(&server));
    drop(hoarders);
    // Clients that announce large writes and do not send all of the data. A client that comes later finds no
    // room at first, and then room is made for it.
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
            // As much as the socket takes, but never the last mebibyte.
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

/// Clients that connect and send nothing, or send so slowly that it makes no difference.
#[test]
fn a_handshake_has_an_end() {
    let setting = Setting::new("hostile-handshake");
    let server = setting.serve(&[]);
    let mut neighbour = Neighbour::new(&setting);
    let (mut silent, slow) = (connect(&setting.path("nbd")), connect(&setting.path("nbd")));
    (&slow).write_all(&3_u32.to_be_bytes()).unwrap();
    // Endless options that the server does not know.
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
    // 64 silent clients do not keep others out.
    let idle: Vec<UnixStream> = (0..64).map(|_| connect(&setting.path("nbd"))).collect();
    let mut clients = vec![Neighbour::new(&setting)];
    clients[0].is_served();
    drop(idle);
    // Neither do 64 clients that have finished their handshake and request nothing, however long they have
    // been connected.
    let silent: Vec<Neighbour> = (0..64).map(|_| Neighbour::new(&setting)).collect();
    Neighbour::new(&setting).is_served();
    clients[0].is_served();
    drop(silent);
    while clients.len() < 64 {
        clients.push(Neighbour::new(&setting));
        clients.last_mut().unwrap().is_served();
    }
    // None of these gives way; the next client learns why it is not served.
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
    let mut refusal = String::new();
    connect(&setting.path("control")).read_to_string(&mut refusal).unwrap();
    assert!(refusal.contains("\"error\"") && refusal.contains("clients"), "{refusal:?}");
    clients.iter_mut().for_each(Neighbour::is_served);
    // When one of them has gone, there is room again.
    clients.pop();
    drop(late);
    Neighbour::new(&setting).is_served();
    drop(clients);
    let ended = server.stop();
    assert_eq!(ended.err.matches("rejected (--max-clients)").count(), 1, "{}", ended.err);
}

#[test]
fn a_house_is_as_large_as_is_asked_for() {
    let setting = Setting::new("hostile-larger");
    let server = setting.serve(&["--max-clients", "80"]);
    let mut clients: Vec<Neighbour> = (0..80)
        .map(|_| {
            let mut client = Neighbour::new(&setting);
            client.is_served();
            client
        })
        .collect();
    clients.iter_mut().for_each(Neighbour::is_served);
    drop(clients);
    summary(server);
}
