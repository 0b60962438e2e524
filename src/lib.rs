//! How both programs start; what they do is in `straddle_cli` and `straddle_lab_cli`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use straddle_cli::args::{Arguments, as_options};
use straddle_cli::exit::{self, Errors, Exit};

/// Runs the command of this process's arguments, and returns its exit code.
pub fn start(run: fn(&Arguments) -> anyhow::Result<Exit>, errors: Errors) -> ExitCode {
    // Writing past a limit on file sizes (ulimit -f) is an error, EFBIG. The signal would end a run between
    // two writes.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let ran = Arguments::try_parse_from(as_options(std::env::args_os()))
        .map_or_else(exit::of_command_line, |arguments| run(&arguments));
    let exit = ran.unwrap_or_else(|error| exit::of_error(&error, errors));
    ExitCode::from(exit.code())
}
