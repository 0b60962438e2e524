//! What `straddle` does, and what `straddle-lab` shares with it: the arguments, where output goes, the views.
//!
//! Invariants: it translates. Arguments become options, a domain crate is called once, and its
//! answer becomes text, JSON and an exit code.

pub mod args;
mod commands;
mod config;
mod cost;
mod durability;
mod estimate;
pub mod exit;
mod fleet;
mod folder;
mod hostname;
mod input;
pub mod interrupt;
mod measured;
pub mod output;
pub mod output_file;
mod overlay;
pub mod progress;
mod random;
pub mod recording;
pub mod target;
mod timeout;
mod topics;
pub mod unfinished;
pub mod view;

pub use commands::run;
