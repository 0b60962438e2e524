//! The device side of vhost-user for a block device.
//!
//! Invariants: it starts no thread, reads no clock and knows no drive, so it serves machines in real time and kernels
//! in virtual time. Whatever the other side sends, nothing here panics, takes memory without bound, or waits: not for
//! a message, not for its rest, not for room in a descriptor. After an error the connection cannot be used.
//!
//! The owner accepts a connection, waits for [`Connection::socket`] and, edge-triggered, for each of
//! [`Connection::kicks`], and calls [`Connection::receive`] or [`Connection::take`]. It returns each request by
//! [`Connection::complete`] when its time has come, and then calls [`Connection::signal`] once.
//!
//! Sources: the vhost-user protocol (QEMU, docs/interop/vhost-user.rst) and Virtio 1.2, section 5.2.

mod config;
mod connection;
mod message;
mod request;
mod ring;

pub use config::Offer;
pub use connection::{Connection, Received, VhostError};
pub use request::{BlockRequest, Kind, Status};
