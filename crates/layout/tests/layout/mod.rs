//! The tests of this crate with real tools and files, through its public interface: they name it as its users do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

#[macro_use]
mod common;

mod filesystems;
mod gpt;
mod hostile;
mod leftover;
mod live_guest;
mod mbr;
mod members;
mod named;
mod signatures;
mod tools;
mod unreadable;
mod uuids;
mod volumes;
mod volumes_guest;
mod volumes_hostile;
