//! `straddle`: finds, explains and fixes misaligned partitions.

use std::process::ExitCode;

fn main() -> ExitCode {
    straddle_cli::start(straddle_cli::run, straddle_cli::exit::ERRORS)
}
