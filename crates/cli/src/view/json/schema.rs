//! The JSON Schemas of the commands' output.

use schemars::generate::SchemaSettings;

use super::bench::BenchReport;
use super::check::Report;
use super::copy::CopyReport;
use super::drive::DrivesReport;
use super::efficiency::EfficiencyReport;
use super::explain::{ExplainReport, RmwReport};
use super::fit::FitReport;
use super::fleet::FleetReport;
use super::lab::LabReport;
use super::plan::PlanReport;
use super::probe::ProbeReport;
use super::realign::RealignOutput;
use super::record::RecordReport;
use super::reproduce::ReproduceReport;
use super::serve::ServeReport;
use super::sim::SimReport;
use super::trace::TraceReport;
use crate::args::SchemaOf;

/// The part of a schema's `$id` before its name and version.
const HOME: &str = "https://github.com/straddle/straddle/schema";

/// Returns the JSON Schema of a command's output.
pub(crate) fn json_schema(command: SchemaOf) -> schemars::Schema {
    // For output, a field that is left out when empty is not required.
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let (mut schema, name, version) = match command {
        SchemaOf::Check => (generator.into_root_schema_for::<Report>(), "check", super::check::SCHEMA),
        SchemaOf::Plan => (generator.into_root_schema_for::<PlanReport>(), "plan", super::plan::SCHEMA),
        SchemaOf::Realign => {
            (generator.into_root_schema_for::<RealignOutput>(), "realign", super::realign::SCHEMA)
        }
        SchemaOf::RealignTo => {
            (generator.into_root_schema_for::<CopyReport>(), "realign-to", super::copy::SCHEMA)
        }
        SchemaOf::Bench => (generator.into_root_schema_for::<BenchReport>(), "bench", super::bench::SCHEMA),
        SchemaOf::Drive => (generator.into_root_schema_for::<DrivesReport>(), "drive", super::drive::SCHEMA),
        SchemaOf::DriveFit => {
            (generator.into_root_schema_for::<FitReport>(), "drive-fit", super::fit::SCHEMA)
        }
        SchemaOf::Explain => {
            (generator.into_root_schema_for::<ExplainReport>(), "explain", super::explain::SCHEMA)
        }
        SchemaOf::ExplainRmw => {
            (generator.into_root_schema_for::<RmwReport>(), "explain-rmw", super::explain::SCHEMA)
        }
        SchemaOf::Efficiency => {
            (generator.into_root_schema_for::<EfficiencyReport>(), "efficiency", super::efficiency::SCHEMA)
        }
        SchemaOf::Trace => (generator.into_root_schema_for::<TraceReport>(), "trace", super::trace::SCHEMA),
        SchemaOf::TraceRecord => {
            (generator.into_root_schema_for::<RecordReport>(), "trace-record", super::record::SCHEMA)
        }
        SchemaOf::Sim => (generator.into_root_schema_for::<SimReport>(), "sim", super::sim::SCHEMA),
        SchemaOf::Serve => (generator.into_root_schema_for::<ServeReport>(), "serve", super::serve::SCHEMA),
        SchemaOf::Lab => (generator.into_root_schema_for::<LabReport>(), "lab", super::lab::SCHEMA),
        SchemaOf::Probe => (generator.into_root_schema_for::<ProbeReport>(), "probe", super::probe::SCHEMA),
        SchemaOf::Report => (generator.into_root_schema_for::<FleetReport>(), "report", super::fleet::SCHEMA),
        SchemaOf::Reproduce => {
            (generator.into_root_schema_for::<ReproduceReport>(), "reproduce", super::reproduce::SCHEMA)
        }
    };
    schema.insert("$id".to_owned(), format!("{HOME}/{name}/{version}").into());
    schema
}
