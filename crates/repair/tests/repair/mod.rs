//! The tests of this crate with real tools and files, through its public interface: they name it as its users do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

mod common;
mod support;

mod apply;
mod carry;
mod convert;
mod copy;
mod differential;
mod faults;
mod grub;
mod inner;
mod killed;
mod logical;
mod power;
mod preserve;
mod realign;
mod sparse;
mod traffic;
