//! The tests that boot QEMU.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

mod tools;

mod boots;
mod machines;
