//! A vhost-user block device, the half of it that the drive has.
//!
//! The law of this crate: it starts no thread, reads no clock and knows no drive. A [`Connection`] is told when there is
//! a message to receive; it hands out requests, and puts back their completions when its owner says so. So one piece of
//! code serves a machine in real time and a kernel in virtual time. Nothing that the other side sends is trusted: not an
//! address, not a length, not the order of messages. Nothing here waits: not for a message, not for its rest, not for room in a
//! descriptor. Who damages a ring gets its error descriptor signalled and an error here; the connection is then of no more use.
//!
//! Sources: the vhost-user protocol (QEMU, docs/interop/vhost-user.rst) and the block device of Virtio 1.2, section 5.2.
//!
//! # How to use it
//!
//! Accept on a Unix socket, make a [`Connection`] with an [`Offer`], and wait for [`Connection::socket`] and, by edges, for each
//! of [`Connection::kicks`]. When the socket is readable, call [`Connection::receive`]. When a kick is, call
//! [`Connection::take`], which hands out [`BlockRequest`]s. Answer each with [`Connection::complete`] when its time has come,
//! then call [`Connection::signal`] once.

mod chain;
mod config;
mod connection;
mod error_kind;
mod guard;
mod memory;
mod message;
mod notifier;
mod request;
mod ring;

pub use chain::Damage;
pub use config::Offer;
pub use connection::{Connection, Received, VhostError};
pub use request::{BlockRequest, Kind, Status};
