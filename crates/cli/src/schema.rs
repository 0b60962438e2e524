//! The form of a whole `check --json` document, and the JSON Schemas of all commands.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::args::SchemaOf;
use crate::report::bench::BenchReport;
use crate::report::drive::DrivesReport;
use crate::report::fit::FitReport;
use crate::report::lab::LabReport;
use crate::report::plan::PlanReport;
use crate::report::probe::ProbeReport;
use crate::report::reproduce::ReproduceReport;
use crate::report::serve::ServeReport;
use crate::report::sim::SimReport;
use crate::report::{SCHEMA, Status, TargetReport};

/// What `straddle check --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle check")]
pub(crate) struct Report {
    /// The version of this form. It grows when a field changes its meaning or goes; new fields do not count.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// Every target, in the order in which they were named.
    targets: Vec<TargetReport>,
    /// How many came out how.
    summary: Summary,
}

/// Counts over all targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Targets.
    pub(crate) targets: usize,
    /// Targets without a finding.
    pub(crate) ok: usize,
    /// Targets on which nothing is written.
    pub(crate) blank: usize,
    /// Targets with advice only.
    pub(crate) advice: usize,
    /// Targets with warnings, and no errors.
    pub(crate) warning: usize,
    /// Targets with errors.
    pub(crate) error: usize,
    /// Targets that were not judged.
    pub(crate) not_judged: usize,
    /// Targets that could not be audited.
    pub(crate) failed: usize,
}

impl Summary {
    /// Counts one more target.
    pub(crate) fn add(&mut self, status: Status) {
        self.targets += 1;
        match status {
            Status::Ok => self.ok += 1,
            Status::Blank => self.blank += 1,
            Status::Advice => self.advice += 1,
            Status::Warning => self.warning += 1,
            Status::Error => self.error += 1,
            Status::NotJudged => self.not_judged += 1,
            Status::Failed => self.failed += 1,
        }
    }
}

/// What stands before the targets: the document is written while they are audited.
pub(crate) fn opening() -> String {
    format!("{{\"schema\":{SCHEMA},\"straddle\":\"{}\",\"targets\":[", env!("CARGO_PKG_VERSION"))
}

/// What stands behind the targets.
pub(crate) fn closing(summary: Summary) -> Result<String, serde_json::Error> {
    Ok(format!("\n],\"summary\":{}}}", serde_json::to_string(&summary)?))
}

/// The JSON Schema of what a command prints.
pub(crate) fn json_schema(command: SchemaOf) -> schemars::Schema {
    // As written: a field that is left out when empty is not required.
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    match command {
        SchemaOf::Check => generator.into_root_schema_for::<Report>(),
        SchemaOf::Plan => generator.into_root_schema_for::<PlanReport>(),
        SchemaOf::Bench => generator.into_root_schema_for::<BenchReport>(),
        SchemaOf::Drive => generator.into_root_schema_for::<DrivesReport>(),
        SchemaOf::DriveFit => generator.into_root_schema_for::<FitReport>(),
        SchemaOf::Sim => generator.into_root_schema_for::<SimReport>(),
        SchemaOf::Serve => generator.into_root_schema_for::<ServeReport>(),
        SchemaOf::Lab => generator.into_root_schema_for::<LabReport>(),
        SchemaOf::Probe => generator.into_root_schema_for::<ProbeReport>(),
        SchemaOf::Reproduce => generator.into_root_schema_for::<ReproduceReport>(),
    }
}
