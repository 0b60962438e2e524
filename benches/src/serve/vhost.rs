//! A front-end of vhost-user-blk: the half that belongs to a virtual machine, without the machine.
//!
//! It has one ring of 128 in shared memory. As with a machine, eventfds kick the server and interrupt the
//! client, with the event index, and the client sleeps until it is interrupted.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use straddle_units::io::SplitMix64;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

use super::{BLOCK, Load, SECONDS, offset};

const RING: u16 = 128;
/// Descriptors per request: a header, the data, and the status.
const DESCRIPTORS_EACH: u16 = 3;

// Offsets in the shared memory.
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const HEADERS: u64 = 0x4000;
const HEADER_EACH: u64 = 64;
const STATUS_IN_HEADER: u64 = 32;
const DATA: u64 = 0x10_0000;
const MEMORY: usize = 2 << 20;
/// The event indices, after the rings (Virtio 1.2, section 2.7).
const USED_EVENT: u64 = AVAILABLE + 4 + 2 * RING as u64;
const AVAILABLE_EVENT: u64 = USED + 4 + 8 * RING as u64;
/// The address of that memory in messages about the ring: the front-end's own address, with an arbitrary
/// value.
const USER: u64 = 1 << 40;

// Descriptor flags.
const NEXT: u16 = 1;
const WRITABLE: u16 = 2;

/// VERSION_1, PROTOCOL_FEATURES and RING_EVENT_IDX.
const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 << 29;
/// Message codes, named as in the protocol's specification.
const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;
const VERSION: u32 = 1;

/// How long a server may be silent before it counts as dead.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

pub(super) struct FrontEnd {
    /// Kept open, because closing it would end the device.
    socket: UnixStream,
    memory: GuestMemoryMmap,
    kick: File,
    call: File,
    random: SplitMix64,
    /// Requests submitted and completed, as the ring counts.
    available: u16,
    used: u16,
    /// Requests that the server has been notified of.
    notified: u16,
}

impl FrontEnd {
    pub(super) fn connect(path: &Path) -> Result<Self> {
        let socket = super::connect(path)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let shared = File::from(rustix::fs::memfd_create("ring", MemfdFlags::CLOEXEC)?);
        shared.set_len(MEMORY as u64)?;
        let part = FileOffset::new(shared.try_clone()?, 0);
        let memory = GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), MEMORY, Some(part))])?;
        let new = || Ok::<_, rustix::io::Errno>(File::from(eventfd(0, EventfdFlags::CLOEXEC)?));
        let (kick, call) = (new()?, new()?);
        let random = SplitMix64::new(1);
        let mut front = Self { socket, memory, kick, call, random, available: 0, used: 0, notified: 0 };
        front.set_up(&shared)?;
        Ok(front)
    }

    fn set_up(&mut self, shared: &File) -> Result<()> {
        self.send(SET_OWNER, &[], None)?;
        let offered = self.ask(GET_FEATURES)?;
        if offered & FEATURES != FEATURES {
            bail!("a server offers the features {offered:#x}, and not {FEATURES:#x}");
        }
        self.ask(GET_PROTOCOL_FEATURES)?;
        self.send(SET_PROTOCOL_FEATURES, &[0], None)?;
        self.send(SET_FEATURES, &[FEATURES], None)?;
        self.send(SET_MEM_TABLE, &[1, 0, MEMORY as u64, USER, 0], Some(shared.as_fd()))?;
        // The first number packs two of 32 bits: the index of the ring, which is 0, and its size.
        self.send(SET_VRING_NUM, &[u64::from(RING) << 32], None)?;
        self.send(SET_VRING_BASE, &[0], None)?;
        self.send(SET_VRING_ADDR, &[0, USER + DESCRIPTORS, USER + USED, USER + AVAILABLE, 0], None)?;
        self.send(SET_VRING_CALL, &[0], Some(self.call.as_fd()))?;
        self.send(SET_VRING_KICK, &[0], Some(self.kick.as_fd()))?;
        self.send(SET_VRING_ENABLE, &[1 << 32], None)
    }

    fn send(&self, code: u32, payload: &[u64], file: Option<BorrowedFd<'_>>) -> Result<()> {
        let mut bytes = Vec::new();
        for word in [code, VERSION, u32::try_from(payload.len() * 8)?] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        payload.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files: Vec<_> = file.into_iter().collect();
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
            bail!("there is no room for a file descriptor");
        }
        let parts = [std::io::IoSlice::new(&bytes)];
        let sent = rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL)?;
        if sent != bytes.len() {
            bail!("a server takes {sent} of {} bytes", bytes.len());
        }
        Ok(())
    }

    fn ask(&mut self, code: u32) -> Result<u64> {
        self.send(code, &[], None)?;
        let mut answer = [0; 20];
        self.socket.read_exact(&mut answer).with_context(|| format!("no answer to message {code}"))?;
        Ok(u64::from_le_bytes(answer[12..].try_into()?))
    }

    /// Writes each of the first `bytes` once, so that no arm finds holes.
    pub(super) fn fill(&mut self, bytes: u64) -> Result<()> {
        self.prepare(true)?;
        for offset in (0..bytes).step_by(BLOCK) {
            self.submit(0, offset)?;
            self.tell()?;
            self.wait(|_, _| Ok(()))?;
        }
        Ok(())
    }

    /// Writes the parts that all requests have in common.
    fn prepare(&self, write: bool) -> Result<()> {
        for slot in 0..RING / DESCRIPTORS_EACH {
            let header = HEADERS + u64::from(slot) * HEADER_EACH;
            let data = DATA + u64::from(slot) * BLOCK as u64;
            let kind: u32 = write.into();
            self.memory.write_obj(kind, GuestAddress(header))?;
            self.memory.write_slice(&[0x5a; BLOCK], GuestAddress(data))?;
            let of_data = if write { NEXT } else { NEXT | WRITABLE };
            let first = slot * DESCRIPTORS_EACH;
            self.describe(first, header, 16, NEXT)?;
            self.describe(first + 1, data, u32::try_from(BLOCK)?, of_data)?;
            self.describe(first + 2, header + STATUS_IN_HEADER, 1, WRITABLE)?;
        }
        Ok(())
    }

    fn describe(&self, index: u16, address: u64, length: u32, flags: u16) -> Result<()> {
        let at = DESCRIPTORS + u64::from(index) * 16;
        self.memory.write_obj(address, GuestAddress(at))?;
        self.memory.write_obj(length, GuestAddress(at + 8))?;
        self.memory.write_obj(flags, GuestAddress(at + 12))?;
        Ok(self.memory.write_obj(index + 1, GuestAddress(at + 14))?)
    }

    /// Puts a request into the ring; [`Self::tell`] makes it visible.
    fn submit(&mut self, slot: u16, offset: u64) -> Result<()> {
        let header = HEADERS + u64::from(slot) * HEADER_EACH;
        self.memory.write_obj(offset / 512, GuestAddress(header + 8))?;
        self.memory.write_obj(0xff_u8, GuestAddress(header + STATUS_IN_HEADER))?;
        let entry = AVAILABLE + 4 + 2 * u64::from(self.available % RING);
        self.memory.write_obj(slot * DESCRIPTORS_EACH, GuestAddress(entry))?;
        self.available = self.available.wrapping_add(1);
        Ok(())
    }

    /// Makes the requests visible to the server, and wakes the server if it has asked for that.
    fn tell(&mut self) -> Result<()> {
        self.memory.store(self.available, GuestAddress(AVAILABLE + 2), Ordering::Release)?;
        fence(Ordering::SeqCst);
        let wanted: u16 = self.memory.load(GuestAddress(AVAILABLE_EVENT), Ordering::Acquire)?;
        // Whether the server wants to be woken for one of the requests added since the last time (Virtio 1.2,
        // section 2.7.10.1).
        let passed = self.available.wrapping_sub(wanted).wrapping_sub(1);
        if passed < self.available.wrapping_sub(self.notified) {
            self.kick.write_all(&1_u64.to_ne_bytes())?;
        }
        self.notified = self.available;
        Ok(())
    }

    /// Sleeps until a request completes, and hands over the slots that have become free.
    fn wait(&mut self, mut freed: impl FnMut(&mut Self, u16) -> Result<()>) -> Result<()> {
        loop {
            let done: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire)?;
            if done != self.used {
                while self.used != done {
                    let entry = USED + 4 + 8 * u64::from(self.used % RING);
                    let head: u32 = self.memory.read_obj(GuestAddress(entry))?;
                    self.used = self.used.wrapping_add(1);
                    let slot = u16::try_from(head)? / DESCRIPTORS_EACH;
                    let status = HEADERS + u64::from(slot) * HEADER_EACH + STATUS_IN_HEADER;
                    if self.memory.read_obj::<u8>(GuestAddress(status))? != 0 {
                        bail!("a request failed");
                    }
                    freed(self, slot)?;
                }
                return Ok(());
            }
            self.memory.store(self.used, GuestAddress(USED_EVENT), Ordering::Release)?;
            fence(Ordering::SeqCst);
            let done: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire)?;
            if done == self.used {
                if poll(&mut [PollFd::new(&self.call, PollFlags::IN)], Some(&PATIENCE))? == 0 {
                    bail!("a server does not answer");
                }
                self.call.read_exact(&mut [0; 8])?;
            }
        }
    }

    /// Runs a load; returns the time per request.
    pub(super) fn run(&mut self, load: &Load) -> Result<Duration> {
        self.prepare(load.write)?;
        let begun = Instant::now();
        for slot in 0..u16::try_from(load.depth)? {
            let offset = offset(&mut self.random);
            self.submit(slot, offset)?;
        }
        self.tell()?;
        let (mut sent, mut answered) = (u32::try_from(load.depth)?, 0);
        while answered < sent {
            let goes_on = begun.elapsed().as_secs_f64() < SECONDS;
            self.wait(|front, slot| {
                answered += 1;
                if goes_on {
                    let offset = offset(&mut front.random);
                    front.submit(slot, offset)?;
                    sent += 1;
                }
                Ok(())
            })?;
            self.tell()?;
        }
        Ok(begun.elapsed() / answered.max(1))
    }
}
