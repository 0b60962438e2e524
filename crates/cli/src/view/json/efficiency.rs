//! What `efficiency --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Format, format_efficiency};

/// What `straddle efficiency --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EfficiencyReport {
    /// The sector formats.
    formats: Vec<Efficiency>,
}

/// The format efficiency of one sector format.
#[derive(Debug, Serialize, JsonSchema)]
struct Efficiency {
    #[serde(flatten)]
    format: Format,
    /// The bytes that a sector takes on the medium.
    total_bytes: u64,
    /// `data_bytes` over `total_bytes`, from 0 to 1.
    efficiency_ratio: f64,
}

impl EfficiencyReport {
    pub(crate) fn of(formats: &[Format]) -> Self {
        let efficiency = |format: &Format| Efficiency {
            format: *format,
            total_bytes: format.total(),
            efficiency_ratio: format_efficiency(*format),
        };
        Self { formats: formats.iter().map(efficiency).collect() }
    }
}
