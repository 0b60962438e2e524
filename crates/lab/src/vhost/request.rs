//! Requests of the block device, as encoded in a descriptor chain (Virtio 1.2, section 5.2.6).

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::vhost::config::SECTOR;

const HEADER_BYTES: usize = 16;
const RANGE_BYTES: usize = 16;
const SERIAL_BYTES: usize = 20;
/// The largest request accepted, in bytes. No guest uses more: 126 segments of 64 KiB are 8 MiB.
const LARGEST_REQUEST: u64 = 64 << 20;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data from the drive.
    Read,
    /// Data to the drive.
    Write,
    /// Earlier writes must become durable.
    Flush,
    /// The bytes are no longer needed.
    Discard,
    /// The bytes must read as zeroes.
    WriteZeroes,
}

/// The result of a request, as the status byte has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The request was carried out.
    Ok = 0,
    /// The request failed.
    Error = 1,
    /// The device does not support the request.
    Unsupported = 2,
}

/// A request that the guest waits for.
#[derive(Debug)]
pub struct BlockRequest {
    /// Its kind.
    pub kind: Kind,
    /// The first byte on the drive; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    pub(crate) queue: usize,
    pub(crate) head: u16,
    status: GuestAddress,
    /// The parts of the guest's memory that a write's data come from, or a read's data go to.
    data: Vec<Buffer>,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: GuestAddress,
    length: usize,
}

pub(crate) enum Taken {
    Request(BlockRequest),
    /// It is answered already: return the chain, with this number of bytes written to it.
    Answered(u32),
}

/// Parses the chain. An invalid request is answered with an error where it has room for a status.
pub(crate) fn take(
    head: u16,
    chain: &[Descriptor],
    memory: &GuestMemoryMmap,
    queue: usize,
    serial: &str,
) -> Taken {
    let (mut readable, mut writable) = (Vec::new(), Vec::new());
    for descriptor in chain {
        let parts = if descriptor.is_write_only() { &mut writable } else { &mut readable };
        let length = usize::try_from(descriptor.len()).unwrap_or(usize::MAX);
        parts.push(Buffer { address: descriptor.addr(), length });
    }
    // The status is the last writable byte.
    let Some(status) = cut_last_byte(&mut writable) else {
        return Taken::Answered(0);
    };
    let answered = |answer: Status, data: u32| {
        let written = if memory.write_obj(answer as u8, status).is_ok() { data + 1 } else { 0 };
        Taken::Answered(written)
    };
    let Some(header) = take_front::<HEADER_BYTES>(&mut readable, memory) else {
        return answered(Status::Error, 0);
    };
    let code = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let sector = u64::from_le_bytes(header[8..].try_into().unwrap_or_default());
    let request = |kind, offset, data: Vec<Buffer>, length| {
        Taken::Request(BlockRequest { kind, offset, length, queue, head, status, data })
    };
    match code {
        0 | 1 => {
            let (kind, data) = if code == 0 { (Kind::Read, writable) } else { (Kind::Write, readable) };
            match (sector.checked_mul(SECTOR), total(&data)) {
                (Some(offset), Some(length)) => request(kind, offset, data, length),
                _ => answered(Status::Error, 0),
            }
        }
        4 => request(Kind::Flush, 0, Vec::new(), 0),
        8 => match answer_serial(&writable, serial, memory) {
            Some(written) => answered(Status::Ok, written),
            None => answered(Status::Error, 0),
        },
        11 | 13 => {
            let kind = if code == 11 { Kind::Discard } else { Kind::WriteZeroes };
            // Only one range per request is offered.
            if total(&readable) != Some(RANGE_BYTES as u64) {
                return answered(Status::Unsupported, 0);
            }
            let Some(range) = take_front::<RANGE_BYTES>(&mut readable, memory) else {
                return answered(Status::Error, 0);
            };
            let first = u64::from_le_bytes(range[..8].try_into().unwrap_or_default());
            let sectors = u32::from_le_bytes(range[8..12].try_into().unwrap_or_default());
            match first.checked_mul(SECTOR) {
                Some(offset) => request(kind, offset, Vec::new(), u64::from(sectors) * SECTOR),
                None => answered(Status::Error, 0),
            }
        }
        _ => answered(Status::Unsupported, 0),
    }
}

impl BlockRequest {
    /// Copies the data of a write from the guest's memory; `None` where the guest has no such memory.
    pub(crate) fn fetch(&self, memory: &GuestMemoryMmap, into: &mut Vec<u8>) -> Option<()> {
        let length = usize::try_from(self.length).ok()?;
        into.clear();
        into.resize(length, 0);
        let mut rest = &mut into[..];
        for part in &self.data {
            let (now, later) = rest.split_at_mut(part.length);
            memory.read_slice(now, part.address).ok()?;
            rest = later;
        }
        Some(())
    }

    /// Also writes the status. Returns the number of bytes written.
    pub(crate) fn finish(&self, memory: &GuestMemoryMmap, mut status: Status, data: &[u8]) -> u32 {
        let mut written: u32 = 0;
        let mut rest = data;
        for part in if self.kind == Kind::Read && status == Status::Ok { &self.data[..] } else { &[] } {
            let (now, later) = rest.split_at(part.length.min(rest.len()));
            if memory.write_slice(now, part.address).is_err() {
                status = Status::Error;
                break;
            }
            written = written.saturating_add(u32::try_from(now.len()).unwrap_or(u32::MAX));
            rest = later;
        }
        match memory.write_obj(status as u8, self.status) {
            Ok(()) => written.saturating_add(1),
            Err(_) => 0,
        }
    }
}

fn total(parts: &[Buffer]) -> Option<u64> {
    let sum = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.length as u64))?;
    (sum <= LARGEST_REQUEST).then_some(sum)
}

fn cut_last_byte(parts: &mut Vec<Buffer>) -> Option<GuestAddress> {
    while parts.last().is_some_and(|part| part.length == 0) {
        parts.pop();
    }
    let last = parts.last_mut()?;
    last.length -= 1;
    let address = last.address.checked_add(last.length as u64)?;
    if last.length == 0 {
        parts.pop();
    }
    Some(address)
}

/// Removes and returns the first `N` bytes of the parts, however the guest has divided them.
fn take_front<const N: usize>(parts: &mut Vec<Buffer>, memory: &GuestMemoryMmap) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let part = parts.first_mut()?;
        let length = part.length.min(N - filled);
        memory.read_slice(&mut bytes[filled..filled + length], part.address).ok()?;
        filled += length;
        part.address = part.address.checked_add(length as u64)?;
        part.length -= length;
        if part.length == 0 {
            parts.remove(0);
        }
    }
    Some(bytes)
}

fn answer_serial(parts: &[Buffer], serial: &str, memory: &GuestMemoryMmap) -> Option<u32> {
    let mut name = [0; SERIAL_BYTES];
    let length = serial.len().min(SERIAL_BYTES);
    name[..length].copy_from_slice(&serial.as_bytes()[..length]);
    let part = parts.first().filter(|part| part.length >= SERIAL_BYTES)?;
    memory.write_slice(&name, part.address).ok()?;
    u32::try_from(SERIAL_BYTES).ok()
}
