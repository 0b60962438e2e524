//! Virtual machines that send random input to `straddle serve`: messages, rings, memory and descriptors,
//! generated from a seed.
//!
//! `SEQUENCES` is the number of sequences (150 by default), `SEQUENCE_SEED` the first seed. After each
//! sequence, a neighbour and a well-behaved machine have to be served. Memory and descriptors have to stay
//! bounded, and the server has to exit on a signal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/peers.rs"]
mod peers;
#[path = "tools/server.rs"]
mod server;

use std::fs::{self, File};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use peers::*;
use rustix::event::EventfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use server::{Server, Setting, summary};
use straddle_units::io::SplitMix64;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Numbers that find mistakes.
trait Edge {
    /// A number near a limit.
    fn edge(&mut self) -> u64;
}

impl Edge for SplitMix64 {
    fn edge(&mut self) -> u64 {
        let base = self.one_of(&[
            0,
            1,
            2,
            15,
            16,
            17,
            255,
            256,
            1024,
            0x7FFF,
            0x8000,
            0xFFFF,
            1 << 16,
            MEMORY,
            1 << 32,
            USER,
            USER + MEMORY,
            1 << 47,
            1 << 63,
            u64::MAX,
        ]);
        match self.below(4) {
            0 => base.wrapping_add(self.below(64)),
            1 => base.wrapping_sub(self.below(64)),
            2 => base & !0xFFF,
            _ => base,
        }
    }
}

/// Descriptors of every kind, including some that cause trouble when they are read, written, mapped or
/// closed.
fn zoo() -> Vec<OwnedFd> {
    let full = event(0, EventfdFlags::empty());
    rustix::io::write(&full, &(u64::MAX - 1).to_le_bytes()).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let (orphan, _) = std::io::pipe().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let (lonely, _) = UnixStream::pair().unwrap();
    let memory = |size: u64| {
        let file = File::from(rustix::fs::memfd_create("odd", rustix::fs::MemfdFlags::empty()).unwrap());
        file.set_len(size).unwrap();
        OwnedFd::from(file)
    };
    let open = |name: &str| OwnedFd::from(File::open(name).unwrap());
    let mut zoo =
        vec![full, reader.into(), writer.into(), orphan.into(), one.into(), other.into(), lonely.into()];
    zoo.extend([
        event(0, EventfdFlags::NONBLOCK),
        event(7, EventfdFlags::empty()),
        event(3, EventfdFlags::SEMAPHORE),
    ]);
    zoo.extend([memory(0), memory(1), memory(MEMORY / 2), memory(MEMORY), memory(1 << 40)]);
    zoo.extend([
        open("/dev/null"),
        open("/dev/zero"),
        open("/"),
        open("/proc/self/status"),
        open("/dev/full"),
    ]);
    zoo
}

/// Every request code that exists, and some that do not.
const CODES: [u64; 26] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 24, 25, 34, 40, 0xFFFF_FFFF];

struct Attacker<'a> {
    machine: Machine,
    random: SplitMix64,
    zoo: &'a [OwnedFd],
    is_open: bool,
}

impl Attacker<'_> {
    /// Sends as much as the socket takes at once.
    fn post(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = sendmsg(&self.machine.socket, &[IoSlice::new(bytes)], &mut control, flags);
        self.is_open &= sent.is_ok();
    }

    fn message(&mut self, code: u64, payload: &[u8], most_fds: u64) {
        let count = self.random.below(most_fds + 1);
        let zoo = self.zoo;
        let fds: Vec<BorrowedFd<'_>> =
            (0..count).map(|_| zoo[self.random.index(zoo.len())].as_fd()).collect();
        let flags = self.random.one_of(&[1, 1, 1, 9, 9, 0, 5, 0xFFFF_FFFF]);
        let length = payload.len() as u64;
        let size =
            self.random.one_of(&[length, length, length, length, length, length, 0, length + 1, 0xFFFF_FFFF]);
        let head = [code, flags, size]
            .map(|number| u32::try_from(number & 0xFFFF_FFFF).unwrap().to_le_bytes())
            .concat();
        let cut = self.random.below(20) == 0;
        let mut bytes = [&head[..], payload].concat();
        if cut {
            bytes.truncate(self.random.index(bytes.len() + 1));
        }
        self.post(&bytes, &fds);
    }

    fn numbers(&mut self, count: u64) -> Vec<u8> {
        (0..count).flat_map(|_| self.random.edge().to_le_bytes()).collect()
    }

    /// A memory table with regions that overlap, wrap around, are empty, are too many, or do not match their
    /// file.
    fn memory_table(&mut self) {
        let count = self.random.below(11);
        let mut payload = (count | self.random.one_of(&[0, 0, 0, 1 << 32])).to_le_bytes().to_vec();
        let most = self.random.one_of(&[count, count, count, 0, 8]);
        for _ in 0..most {
            for of in [
                &[0, 0, MEMORY, MEMORY / 2][..],
                &[MEMORY, MEMORY / 2, 4096, 0],
                &[USER, USER + MEMORY, 0],
                &[0, 4096],
            ] {
                let number =
                    if self.random.below(4) == 0 { self.random.edge() } else { self.random.one_of(of) };
                payload.extend(number.to_le_bytes());
            }
        }
        let good = self.machine.memory.try_clone().unwrap();
        let zoo = self.zoo;
        let fds: Vec<BorrowedFd<'_>> = (0..self.random.one_of(&[count, count, count + 1, 0]).min(12))
            .map(|_| {
                if self.random.below(2) == 0 {
                    good.as_fd()
                } else {
                    zoo[self.random.index(zoo.len())].as_fd()
                }
            })
            .collect();
        let size = u32::try_from(payload.len()).unwrap();
        let head = [5, self.random.one_of(&[1_u32, 9]), size].map(u32::to_le_bytes).concat();
        self.post(&[head, payload].concat(), &fds);
    }

    /// A queue set up as by a driver, except for one or two errors.
    fn queue(&mut self) {
        let queue = self.random.one_of(&[0, 0, 1, 3, 4, 255]);
        let far = queue << 16;
        let messages = [
            (8, vec![queue | self.random.one_of(&[16, 16, 16, 0, 15, 1, 32768, 65535]) << 32]),
            (10, vec![queue | self.random.one_of(&[0, 0, 0, 1, 0xFFFF]) << 32]),
            (9, vec![queue, USER + far, USER + USED + far, USER + AVAILABLE + far, 0]),
            (13, vec![queue]),
            (12, vec![queue]),
            (18, vec![queue | self.random.below(2) << 32]),
            (11, vec![queue]),
        ];
        for (code, mut numbers) in messages {
            if self.random.below(8) == 0 {
                let index = self.random.index(numbers.len());
                numbers[index] = self.random.edge();
            }
            let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            if matches!(code, 12 | 13) && self.random.below(3) > 0 {
                let fd =
                    if code == 12 { &self.machine.kick } else { &self.machine.call }.try_clone().unwrap();
                let head = [code, 1, 8].map(u32::to_le_bytes).concat();
                self.post(&[head, payload].concat(), &[fd.as_fd()]);
            } else if self.random.below(10) > 0 {
                self.message(code.into(), &payload, u64::from(matches!(code, 12 | 13)));
            }
        }
    }

    /// Random descriptors, chains and indices, followed by one kick or a thousand.
    fn ring(&mut self) {
        let far = self.random.below(2) << 16;
        for _ in 0..self.random.below(24) {
            let place = self.random.one_of(&[0, 0, TABLE]) + far + 16 * self.random.below(20);
            let address =
                self.random.one_of(&[HEADER, DATA, STATUS, TABLE, MEMORY - 1, MEMORY, u64::MAX - 8]);
            let length = self.random.one_of(&[0_u32, 1, 16, 16, 512, 512, 4096, 33, 0xFFFF_FFFF]);
            let flags = self.random.one_of(&[0_u16, 1, 1, 2, 3, 3, 4, 5, 7, 0xFFFF]);
            let next = self.random.one_of(&[0_u16, 1, 2, 3, 15, 16, 0xFFFF]);
            let _ = self.machine.memory.write_all_at(
                &[
                    &address.to_le_bytes()[..],
                    &length.to_le_bytes(),
                    &flags.to_le_bytes(),
                    &next.to_le_bytes(),
                ]
                .concat(),
                place,
            );
        }
        let request = [self.random.one_of(&[0, 1, 4, 8, 11, 13, 99, 0xFFFF_FFFF]), 0, self.random.edge()];
        let header = [&request[0].to_le_bytes()[..4], &[0; 4], &request[2].to_le_bytes()].concat();
        let _ = self.machine.memory.write_all_at(&header, HEADER);
        let heads: Vec<u8> = (0..16)
            .flat_map(|_| self.random.one_of(&[0_u16, 0, 1, 2, 5, 15, 16, 0xFFFF]).to_le_bytes())
            .collect();
        let index = self.random.one_of(&[1_u16, 1, 2, 16, 17, 0x8000, 0xFFFF]);
        let _ = self.machine.memory.write_all_at(&heads, AVAILABLE + far + 4);
        let _ = self.machine.memory.write_all_at(&index.to_le_bytes(), AVAILABLE + far + 2);
        for _ in 0..self.random.one_of(&[1, 1, 1, 1000]) {
            if rustix::io::write(&self.machine.kick, &1u64.to_le_bytes()).is_err() {
                break;
            }
        }
    }

    fn act(&mut self) {
        match self.random.below(15) {
            0..=2 => self.queue(),
            3..=6 => self.ring(),
            7 | 8 => self.memory_table(),
            9 => {
                let bytes: Vec<u8> =
                    (0..self.random.below(600)).map(|_| self.random.below(256).to_le_bytes()[0]).collect();
                self.post(&bytes, &[]);
            }
            10 => {
                // Reads the answers received so far.
                let _ = self.machine.socket.set_nonblocking(true);
                let mut bytes = [0; 4096];
                while (&self.machine.socket).read(&mut bytes).is_ok_and(|bytes| bytes > 0) {}
            }
            11 => {
                let (code, count) = (self.random.one_of(&CODES), self.random.below(6));
                let payload = self.numbers(count);
                (0..self.random.one_of(&[1, 200])).for_each(|_| self.message(code, &payload, 0));
            }
            _ => {
                let (code, count) = (self.random.one_of(&CODES), self.random.below(40));
                let payload = self.numbers(count);
                self.message(code, &payload, 10);
            }
        }
    }
}

fn status_kib(server: &Server, what: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn descriptors(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count()
}

/// Makes the good machine read once more.
fn reads(machine: &Machine, done: &mut u16) {
    // It asks to be woken by this read (the used_event after the ring).
    machine.write(AVAILABLE + 4 + 2 * u64::from(RING), &done.to_le_bytes());
    *done = done.wrapping_add(1);
    machine.offer(&[0; 16], *done);
    assert!(comes(&machine.call), "a good machine is served");
    let mut count = [0; 8];
    rustix::io::read(&machine.call, &mut count[..]).unwrap();
    assert_eq!(machine.u16(USED + 2), *done);
}

#[test]
fn whatever_a_machine_sends_others_are_served() {
    let (count, first) = (number("SEQUENCES", 150), number("SEQUENCE_SEED", 1));
    let setting = Setting::new("hostile-sequences");
    let server = setting.serve(&["--vhost-user", &setting.path("vhost")]);
    let mut neighbour = Neighbour::new(&setting);
    let good = Machine::well(&setting, 0);
    good.a_read();
    let mut done = 0;
    reads(&good, &mut done);
    let (zoo, before) = (zoo(), descriptors(&server));
    let mut kept = Vec::new();
    let mut acts = 0;
    for seed in first..first + count {
        let mut random = SplitMix64::new(seed);
        let mut machine = Machine::new(&setting);
        if random.below(8) > 0 {
            let (kick, call) = (machine.kick.try_clone().unwrap(), machine.call.try_clone().unwrap());
            machine.set_up(
                random.one_of(&[0, 0, INDIRECT_FEATURE, FLUSH_FEATURE]),
                kick.as_fd(),
                call.as_fd(),
            );
        }
        let mut attacker = Attacker { machine, random, zoo: &zoo, is_open: true };
        for _ in 0..10 + attacker.random.below(40) {
            attacker.act();
            acts += 1;
            if !attacker.is_open {
                break;
            }
        }
        neighbour.is_served();
        reads(&good, &mut done);
        assert!(status_kib(&server, "VmRSS:") < 256 << 10, "SEQUENCES=1 SEQUENCE_SEED={seed}: memory");
        match attacker.random.below(8) {
            0 if kept.len() < 16 => kept.push(attacker.machine),
            1 => {
                let _ = attacker.machine.socket.shutdown(Shutdown::Write);
            }
            2 => {
                let _ = (&attacker.machine.socket).write_all(&[5, 0, 0]);
            }
            _ => {}
        }
    }
    println!("{count} sequences, {acts} acts, {} KiB at most", status_kib(&server, "VmHWM:"));
    // Machines that stay connected to the end do not prevent the server from exiting.
    let most = kept.len() * 32;
    while descriptors(&server) > before + most {
        neighbour.is_served();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(neighbour);
    summary(server);
}
