//! What `probe --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_measure::bench::Description;
use straddle_measure::probe::Report;

/// What `straddle probe --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProbeReport<'a> {
    /// What was probed.
    target: &'a Description,
    /// What to know of the figures: what was measured if the target is a file.
    notes: &'a [String],
    #[serde(flatten)]
    report: &'a Report,
    /// Whether the drive reports another unit than was found; absent if that cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    misreports: Option<bool>,
}

impl<'a> ProbeReport<'a> {
    pub(crate) fn of(target: &'a Description, report: &'a Report, notes: &'a [String]) -> Self {
        Self { target, notes, report, misreports: report.misreports() }
    }
}
