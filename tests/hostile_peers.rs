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

use peers::*;
use rustix::event::EventfdFlags;
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

/// Violations of the ring protocol, each on a connection of its own.
#[test]
fn a_machine_that_damages_its_ring_harms_no_other() {
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
        println!("{name}");
        let machine = Machine::well(&setting, without);
        machine.a_read();
        attack(&machine);
        neighbour.is_served();
    }
    // A machine that does everything correctly.
    let machine = Machine::well(&setting, 0);
    machine.a_read();
    machine.offer(&[0], 1);
    assert!(comes(&machine.call) && machine.is_completed());
    drop(neighbour);
    summary(server);
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
    drop(neighbour);
    summary(server);
}

/// Endless requests whose replies are never read.
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
    drop(neighbour);
    summary(server);
}

#[test]
fn a_client_beyond_the_limit_is_served_when_another_has_left() {
    let setting = Setting::new("hostile-full");
    let server = setting.serve(&[]);
    let mut clients: Vec<Neighbour> = (0..64).map(|_| Neighbour::new(&setting)).collect();
    clients.iter_mut().for_each(Neighbour::is_served);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| Neighbour::new(&setting).is_served());
        clients.iter_mut().for_each(Neighbour::is_served);
        clients.pop();
        late.join().unwrap();
    });
    drop(clients);
    summary(server);
}
