//! What `efficiency --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Format, format_efficiency};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle efficiency --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle efficiency")]
pub(crate) struct EfficiencyReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The sector formats.
    formats: Vec<FormatReport>,
}

/// The format efficiency of one sector format.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SectorFormat")]
struct FormatReport {
    /// The bytes of data in a sector.
    data_bytes: u32,
    /// The bytes of gap, synchronisation and address mark of a sector.
    overhead_bytes: u32,
    /// The bytes of error-correcting code of a sector.
    ecc_bytes: u32,
    /// The bytes that a sector takes on the medium.
    total_bytes: u64,
    /// `data_bytes` over `total_bytes`, from 0 to 1.
    efficiency_ratio: f64,
}

impl EfficiencyReport {
    pub(crate) fn of(formats: &[Format]) -> Self {
        let report = |format: &Format| FormatReport {
            data_bytes: format.data,
            overhead_bytes: format.overhead,
            ecc_bytes: format.ecc,
            total_bytes: format.total(),
            efficiency_ratio: format_efficiency(*format),
        };
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            formats: formats.iter().map(report).collect(),
        }
    }
}
