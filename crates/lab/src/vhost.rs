//! The device side of vhost-user for a block device.
//!
//! Invariants: it starts no thread, reads no clock and knows no drive. The owner of a
//! [`Connection`] tells it when there is a message to receive. It hands out requests, and returns their
//! completions to the guest when its owner says so. So the same code serves a machine in real time and a
//! kernel in virtual time. Nothing that the other side sends is trusted: no address, no length, not the order
//! of messages. Nothing here waits: not for a message, not for its rest, not for room in a descriptor. When a
//! guest damages a ring, its error descriptor is signalled and an error is returned here; the connection can
//! then not be used any more.
//!
//! Sources: the vhost-user protocol (QEMU, docs/interop/vhost-user.rst) and the block device of Virtio 1.2,
//! section 5.2.
//!
//! # How to use it
//!
//! Accept a connection on a Unix socket, create a [`Connection`] with an [`Offer`], and wait for
//! [`Connection::socket`] and, edge-triggered, for each of [`Connection::kicks`]. When the socket is
//! readable, call [`Connection::receive`]. When a kick is readable, call [`Connection::take`], which returns
//! [`BlockRequest`]s. Complete each with [`Connection::complete`] when its time has come, then call
//! [`Connection::signal`] once.

mod chain;
mod config;
mod connection;
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
