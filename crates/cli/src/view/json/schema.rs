//! The JSON Schemas of the commands' output.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::bench::BenchReport;
use super::check::Report;
use super::copy::CopyReport;
use super::drive::DrivesReport;
use super::efficiency::EfficiencyReport;
use super::explain::{ExplainReport, RmwReport};
use super::fleet::FleetReport;
use super::plan::PlanReport;
use super::probe::ProbeReport;
use super::realign::RealignOutput;
use super::record::RecordReport;
use super::sim::SimReport;
use super::trace::TraceReport;
use crate::args::SchemaOf;

/// The part of a schema's `$id` before its name and version.
const HOME: &str = "https://github.com/straddle/straddle/schema";

/// Returns the JSON Schema of a command's output; `None` if `straddle-lab` runs the command.
pub(crate) fn json_schema(command: SchemaOf) -> Option<Schema> {
    Some(match command {
        SchemaOf::Check => schema::<Report>("check", super::check::SCHEMA),
        SchemaOf::Plan => schema::<PlanReport>("plan", super::plan::SCHEMA),
        SchemaOf::Realign => schema::<RealignOutput>("realign", super::realign::SCHEMA),
        SchemaOf::RealignTo => schema::<CopyReport>("realign-to", super::copy::SCHEMA),
        SchemaOf::Bench => schema::<BenchReport>("bench", super::bench::SCHEMA),
        SchemaOf::Drive => schema::<DrivesReport>("drive", super::drive::SCHEMA),
        SchemaOf::Explain => schema::<ExplainReport>("explain", super::explain::SCHEMA),
        SchemaOf::ExplainRmw => schema::<RmwReport>("explain-rmw", super::explain::SCHEMA),
        SchemaOf::Efficiency => schema::<EfficiencyReport>("efficiency", super::efficiency::SCHEMA),
        SchemaOf::Trace => schema::<TraceReport>("trace", super::trace::SCHEMA),
        SchemaOf::TraceRecord => schema::<RecordReport>("trace-record", super::record::SCHEMA),
        SchemaOf::Sim => schema::<SimReport>("sim", super::sim::SCHEMA),
        SchemaOf::Probe => schema::<ProbeReport>("probe", super::probe::SCHEMA),
        SchemaOf::Report => schema::<FleetReport>("report", super::fleet::SCHEMA),
        SchemaOf::Serve | SchemaOf::Lab | SchemaOf::Reproduce | SchemaOf::DriveFit => return None,
    })
}

/// Returns the schema of a type with this name and version.
pub fn schema<T: JsonSchema>(name: &str, version: impl std::fmt::Display) -> Schema {
    // For output, a field that is left out when empty is not required.
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("{HOME}/{name}/{version}").into());
    schema
}
