//! The errors that only these commands have, and their kinds.

use std::error::Error;

use straddle_cli::exit::{self, Errors};
pub(crate) use straddle_cli::exit::{Exit, UsageError};
use straddle_lab::reproduce::experiment::ExperimentError;
use straddle_units::ErrorKind;

/// The errors that this program knows.
pub const ERRORS: Errors = Errors { kind_of: either, name_of };

fn either(cause: &(dyn Error + 'static)) -> Option<ErrorKind> {
    kind_of(cause).or_else(|| (exit::ERRORS.kind_of)(cause))
}

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
            (machine(LabError::Interrupted).into(), Exit::INTERRUPTED),
            (UsageError("of the shared ones".into()).into(), Exit::Usage),
        ];
        for (error, exit) in cases {
            assert_eq!(of_error(&error, ERRORS), exit, "{error:?}");
        }
    }
}
