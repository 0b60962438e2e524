//! What a step ran on.

pub(crate) use straddle_cli::target::{Drive, modelled};
use straddle_lab::reproduce::lab::StepOutcome;

/// Returns what a lab step ran on, as a target.
pub(crate) fn of_lab(outcome: &StepOutcome) -> String {
    outcome.device.as_ref().map_or_else(|| modelled(&outcome.drive), |device| device.display().to_string())
}
