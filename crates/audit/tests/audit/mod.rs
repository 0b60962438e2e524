//! The tests of this crate with real tools and files, through its public interface: they name it as its users do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

mod examples;
mod fix_places;
mod made_up;
mod order;
