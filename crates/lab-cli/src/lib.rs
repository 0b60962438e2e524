//! What `straddle-lab` does: modelled drives under a Linux guest, served to other programs, and in published experiments.
//!
//! `straddle` starts it. Arguments, exit codes and output are those of `straddle_cli`; the law of that crate applies.

mod exit;
mod fit;
mod lab;
mod recording;
mod reproduce;
mod serve;
mod target;
mod view;

use anyhow::Result;
use straddle_cli::args::{Arguments, OfLab};
use straddle_cli::{args, interrupt, output, output_file, progress, unfinished};

pub use exit::ERRORS;
use exit::{Exit, UsageError};

/// Runs the command that the arguments name.
///
/// # Errors
///
/// Returns why the command failed, also if it is one of `straddle`.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    arguments.choose_colour();
    match arguments.of_lab() {
        Some(OfLab::Lab(lab)) => lab::run(lab),
        Some(OfLab::Serve(serve)) => serve::run(serve),
        Some(OfLab::Reproduce(reproduce)) => reproduce::run(reproduce),
        Some(OfLab::Fit(fit)) => fit::run(fit),
        Some(OfLab::Schema(command)) => {
            output::print_json(&view::json::schema::json_schema(command))?;
            Ok(Exit::Success)
        }
        None => Err(UsageError(
            "straddle-lab runs lab, serve, reproduce and drive fit; straddle runs the rest".into(),
        )
        .into()),
    }
}
