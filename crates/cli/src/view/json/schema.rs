//! The JSON Schemas of what the commands print.

use schemars::generate::SchemaSettings;

use super::bench::BenchReport;
use super::check::Report;
use super::drive::DrivesReport;
use super::fit::FitReport;
use super::lab::LabReport;
use super::plan::PlanReport;
use super::probe::ProbeReport;
use super::reproduce::ReproduceReport;
use super::serve::ServeReport;
use super::sim::SimReport;
use crate::args::SchemaOf;

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
