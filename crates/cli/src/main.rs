//! `straddle`: finds, explains and fixes misaligned partitions.
//!
//! The law of this crate: it translates. Arguments become options, a domain crate is called once, and its answer
//! becomes text, JSON and an exit code.

mod args;
mod chart;
mod commands;
mod cost;
mod drive_target;
mod exit;
mod html;
mod limited;
mod measured;
mod modelled;
mod output;
mod progress;
mod report;
mod schema;
mod text;
mod tree;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    let exit = commands::run(&arguments).unwrap_or_else(|error| exit::of_error(&error));
    ExitCode::from(exit.code())
}
