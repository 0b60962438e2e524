//! The kind of zone in which a byte of a zoned device lies (BLKREPORTZONE, `include/uapi/linux/blkzoned.h`).

use std::os::fd::AsFd;

use rustix::ioctl::opcode;
use straddle_units::{ByteOffset, KERNEL_SECTOR};

use super::{IoctlError, Meant, call};

const CONVENTIONAL: u8 = 1;

/// `struct blk_zone_report` without zones; the request's number encodes its size.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Head {
    sector: u64,
    nr_zones: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Zone {
    start: u64,
    len: u64,
    wp: u64,
    kind: u8,
    cond: u8,
    non_seq: u8,
    reset: u8,
    resv: [u8; 4],
    capacity: u64,
    reserved: [u8; 24],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Report {
    head: Head,
    zone: Zone,
}

pub(crate) fn is_conventional(fd: impl AsFd, at: ByteOffset) -> Result<bool, IoctlError> {
    let sector = KERNEL_SECTOR.blocks_floor(straddle_units::ByteCount::new(at.get())).get();
    let mut report = Report { head: Head { sector, nr_zones: 1, flags: 0 }, zone: Zone::default() };
    let number = opcode::read_write::<Head>(0x12, 130);
    // SAFETY: the request reads and writes the head, and writes `nr_zones` (one) zones after it.
    unsafe { call(fd.as_fd(), Meant::Block, "BLKREPORTZONE", number, Some(&mut report)) }?;
    Ok(report.head.nr_zones == 1 && report.zone.kind == CONVENTIONAL)
}
