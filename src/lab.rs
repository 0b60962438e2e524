//! `straddle-lab`: modelled drives under Linux, served to other programs, and in published experiments.

use std::process::ExitCode;

fn main() -> ExitCode {
    straddle_cli::start(straddle_lab_cli::run, straddle_lab_cli::ERRORS)
}
