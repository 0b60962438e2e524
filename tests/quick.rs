//! The tests that need no guest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

mod tools;

mod bench;
mod beside;
mod book;
mod cli;
mod config;
mod containers;
mod contrib;
mod copy;
mod errors;
mod expected;
mod fixes_run;
mod formats;
mod goldens;
mod hostile;
mod hostile_peers;
mod hostile_sequences;
mod house;
mod judgement;
mod kept;
mod lost;
mod offered;
mod others;
mod package;
mod parity;
mod pasted;
mod plan;
mod printed;
mod probe;
mod ready;
mod realign;
mod realign_shapes;
mod recipes;
mod remote;
mod report;
mod reports;
mod reproduce;
mod rmw_nbdkit;
mod scripts;
mod serve;
mod severity;
mod sim;
mod trace;
mod unfinished;
mod verdicts;
