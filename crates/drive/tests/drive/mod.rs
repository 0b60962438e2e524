//! The tests of this crate with real tools and files, through its public interface: they name it as its users do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

mod common;

mod dt01aca300;
mod durability;
mod geometry;
mod hostile;
mod mechanics;
mod planted;
mod streams;
mod time;
mod work;
