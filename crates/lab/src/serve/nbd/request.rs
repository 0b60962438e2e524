//! A request's header, and its validation.

use crate::serve::nbd::{Export, LARGEST_REQUEST, Violation};

/// Error numbers of the protocol.
pub mod errno {
    /// The store or the drive failed.
    pub const EIO: u32 = 5;
    /// The export does not support this request.
    pub const EINVAL: u32 = 22;
    /// A write past the end, or a full store.
    pub const ENOSPC: u32 = 28;
    /// The server is shutting down.
    pub const ESHUTDOWN: u32 = 108;
}

pub(super) const REQUEST_BYTES: usize = 28;
const REQUEST_MAGIC: u32 = 0x2560_9513;

mod command {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const DISC: u16 = 2;
    pub(super) const FLUSH: u16 = 3;
    pub(super) const TRIM: u16 = 4;
    pub(super) const WRITE_ZEROES: u16 = 6;
}

const FUA: u16 = 1 << 0;
const NO_HOLE: u16 = 1 << 1;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data from the drive.
    Read,
    /// Data to the drive.
    Write {
        /// Whether they must be durable before the reply.
        fua: bool,
    },
    /// Zeroes to the drive.
    WriteZeroes {
        /// Whether they must be durable before the reply.
        fua: bool,
        /// Whether their space may be freed.
        hole: bool,
    },
    /// All writes that were answered before must become durable.
    Flush,
    /// The bytes are no longer needed.
    Trim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) payload: u32,
    pub(super) asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Request(Kind),
    /// To be answered with this error.
    Error(u32),
    Disconnect,
}

fn field<const N: usize>(bytes: &[u8; REQUEST_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

impl Header {
    /// The layout is magic, flags, type, cookie, offset, length: 32, 16, 16, 64, 64 and 32 bits.
    pub(super) fn parse(bytes: &[u8; REQUEST_BYTES], export: &Export) -> Result<Self, Violation> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != REQUEST_MAGIC {
            return Err(Violation::RequestMagic(magic));
        }
        let [flags, code] = [4, 6].map(|at| u16::from_be_bytes(field(bytes, at)));
        let [cookie, offset] = [8, 16].map(|at| u64::from_be_bytes(field(bytes, at)));
        let length = u32::from_be_bytes(field(bytes, 24));
        let payload = if code == command::WRITE { length } else { 0 };
        let asked = asked(flags, code, offset, length, export);
        Ok(Self { cookie, offset, length, payload, asked })
    }
}

fn asked(flags: u16, code: u16, offset: u64, length: u32, export: &Export) -> Asked {
    // Some clients set FUA on commands that write nothing, where it has no effect.
    let fua = flags & FUA != 0;
    let (kind, allowed, writes) = match code {
        command::READ => (Kind::Read, FUA, false),
        command::WRITE => (Kind::Write { fua }, FUA, true),
        command::DISC => return Asked::Disconnect,
        command::FLUSH => (Kind::Flush, FUA, false),
        command::TRIM if export.trim => (Kind::Trim, FUA, false),
        command::WRITE_ZEROES => (Kind::WriteZeroes { fua, hole: flags & NO_HOLE == 0 }, FUA | NO_HOLE, true),
        _ => return Asked::Error(errno::EINVAL),
    };
    if flags & !allowed != 0 {
        return Asked::Error(errno::EINVAL);
    }
    if kind == Kind::Flush {
        let reserved = offset == 0 && length == 0;
        return if reserved { Asked::Request(kind) } else { Asked::Error(errno::EINVAL) };
    }
    let large = length > LARGEST_REQUEST && matches!(kind, Kind::Read | Kind::Write { .. });
    let whole = (offset | u64::from(length)).is_multiple_of(u64::from(export.minimum_block.max(1)));
    if length == 0 || large || !whole {
        return Asked::Error(errno::EINVAL);
    }
    if offset.checked_add(length.into()).is_none_or(|end| end > export.size) {
        return Asked::Error(if writes { errno::ENOSPC } else { errno::EINVAL });
    }
    Asked::Request(kind)
}
