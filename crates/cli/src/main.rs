//! `straddle`: finds, explains and fixes misaligned partitions.
//!
//! The law of this crate: it translates. Arguments become options, a domain crate is called once, and its
//! answer becomes text, JSON and an exit code.

mod args;
mod closed;
mod commands;
mod config;
mod cost;
mod estimate;
mod exit;
mod fleet;
mod hostname;
mod input;
mod interrupt;
mod keep;
mod lasting;
mod limited;
mod measured;
mod output;
mod overlay;
mod progress;
mod random;
mod recording;
mod target;
mod topics;
mod unfinished;
mod view;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

fn main() -> ExitCode {
    // Writing past a limit on file sizes (ulimit -f) is an error, EFBIG. The signal would end a run between
    // two writes.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let run = args::Arguments::try_parse_from(args::as_options(std::env::args_os()))
        .map_or_else(exit::of_command_line, |arguments| commands::run(&arguments));
    let exit = run.unwrap_or_else(|error| exit::of_error(&error));
    ExitCode::from(exit.code())
}
