//! What `straddle-lab` does. Arguments, exit codes and output are those of `straddle_cli`.

mod fit;
mod lab;
mod recording;
mod reproduce;
mod serve;

use std::error::Error;

use anyhow::Result;
use schemars::Schema;
use straddle_cli::args::{Arguments, OfLab, SchemaOf};
use straddle_cli::exit::{Errors, Exit, UsageError};
use straddle_cli::view::json::document;
use straddle_cli::{exit, output};
use straddle_lab::reproduce::experiment::ExperimentError;
use straddle_lab::reproduce::fit::Fit;
use straddle_units::ErrorKind;

use crate::lab::LabReport;
use crate::reproduce::json::ReproduceReport;
use crate::serve::ServeReport;

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
            output::print_json(&json_schema(command))?;
            Ok(Exit::Success)
        }
        None => Err(UsageError(
            "straddle-lab runs only lab, serve, reproduce and drive fit; for other commands, use straddle"
                .into(),
        )
        .into()),
    }
}

/// The errors that this program knows.
pub const ERRORS: Errors =
    Errors { kind_of: |cause| kind_of(cause).or_else(|| (exit::ERRORS.kind_of)(cause)), name_of };

fn name_of<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a str> {
    match cause.downcast_ref() {
        Some(ExperimentError::Syntax { name, .. }) => Some(name),
        _ => (exit::ERRORS.name_of)(cause),
    }
}

straddle_cli::kinds! {
    straddle_lab::guest::GuestError,
    straddle_lab::media::MediaError,
    straddle_lab::media::StoreError,
    straddle_lab::reproduce::experiment::ExperimentError,
    straddle_lab::reproduce::fit::FitError,
    straddle_lab::reproduce::lab::input::InputError,
    straddle_lab::reproduce::lab::LabError,
    straddle_lab::reproduce::lab::ReproduceError,
    straddle_lab::serve::EndpointError,
    straddle_lab::serve::ServerError,
}

/// Returns the JSON Schema of a command's output; `None` if `straddle` runs the command.
pub(crate) fn json_schema(command: SchemaOf) -> Option<Schema> {
    match command {
        SchemaOf::DriveFit => Some(document::<Fit>(command)),
        SchemaOf::Lab => Some(document::<LabReport<'_>>(command)),
        SchemaOf::Reproduce => Some(document::<ReproduceReport<'_>>(command)),
        SchemaOf::Serve => Some(document::<ServeReport<'_>>(command)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use straddle_cli::exit::of_error;
    use straddle_lab::guest::GuestError;
    use straddle_lab::reproduce::lab::{LabError, ReproduceError};

    use super::*;

    #[test]
    fn the_outermost_error_with_a_kind_says_the_exit() {
        let machine = |source| ReproduceError::Machine { step: "a".into(), source };
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let guest = |source| GuestError::Io { doing: "reading".into(), source };
        let cases: [(anyhow::Error, Exit); 4] = [
            (guest(closed()).into(), Exit::Failed),
            (machine(LabError::Guest(guest(closed()))).into(), Exit::Failed),
            (machine(LabError::Guest(GuestError::Interrupted)).into(), Exit::INTERRUPTED),
            (UsageError("of the shared ones".into()).into(), Exit::Usage),
        ];
        for (error, exit) in cases {
            assert_eq!(of_error(&error, ERRORS), exit, "{error:?}");
        }
    }
}
