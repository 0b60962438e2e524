//! `straddle`: finds, explains and fixes misaligned partitions.
//!
//! The law of this crate: it translates. Arguments become options, a domain crate is called once, and its
//! answer becomes text, JSON and an exit code.

mod args;
mod closed;
mod commands;
mod cost;
mod drive_target;
mod exit;
mod input;
mod keep;
mod limited;
mod measured;
mod output;
mod overlay;
mod progress;
mod target;
mod view;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let run = args::Arguments::try_parse()
        .map_or_else(exit::of_command_line, |arguments| commands::run(&arguments));
    let exit = run.unwrap_or_else(|error| exit::of_error(&error));
    ExitCode::from(exit.code())
}
