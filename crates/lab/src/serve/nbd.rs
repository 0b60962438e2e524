//! The server's half of the NBD protocol, as bytes in and bytes out: it does no I/O and knows no drive.
//!
//! It implements the fixed newstyle negotiation with EXPORT_NAME, GO, INFO, LIST and ABORT, and answers with simple
//! replies. TLS, structured replies and block status are refused as the protocol specifies. A client that violates
//! the protocol is disconnected. One that requests what the drive cannot do gets an error.
//!
//! Source: the NBD project's doc/proto.md.

mod buffer;
mod negotiation;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub use negotiation::Violation;
pub use request::{Kind, errno};
pub use session::{Session, Wanted};

/// The largest read or write in bytes.
pub const LARGEST_REQUEST: u32 = 32 << 20;

/// The description of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name refers to it as well.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// Its size in bytes.
    pub size: u64,
    /// Requests must be multiples of this many bytes.
    pub minimum_block: u32,
    /// Requests should be multiples of this many bytes.
    pub preferred_block: u32,
    /// Whether it reports to be a rotational drive.
    pub rotational: bool,
    /// Whether TRIM is supported.
    pub trim: bool,
}

mod flag {
    pub(super) const HAS_FLAGS: u16 = 1 << 0;
    pub(super) const SEND_FLUSH: u16 = 1 << 2;
    pub(super) const SEND_FUA: u16 = 1 << 3;
    pub(super) const ROTATIONAL: u16 = 1 << 4;
    pub(super) const SEND_TRIM: u16 = 1 << 5;
    pub(super) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(super) const CAN_MULTI_CONN: u16 = 1 << 8;
}

impl Export {
    /// All connections share one cache, so a flush on one is a flush on all.
    fn flags(&self) -> u16 {
        let always = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_WRITE_ZEROES
            | flag::CAN_MULTI_CONN;
        let optional = [(self.rotational, flag::ROTATIONAL), (self.trim, flag::SEND_TRIM)];
        optional.into_iter().filter(|(has, _)| *has).fold(always, |flags, (_, flag)| flags | flag)
    }
}
