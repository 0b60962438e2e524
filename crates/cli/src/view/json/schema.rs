//! The JSON Schemas of the commands' output.

use clap::ValueEnum;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use straddle_repair::Plan;
use straddle_repair::copy::Copy;

use super::Document;
use super::bench::BenchReport;
use super::check::Report;
use super::drive::DrivesReport;
use super::efficiency::EfficiencyReport;
use super::explain::{ExplainReport, RmwReport};
use super::probe::ProbeReport;
use super::realign::RealignOutput;
use super::record::RecordReport;
use super::sim::SimReport;
use super::trace::TraceReport;
use crate::args::SchemaOf;
use crate::fleet::Digest;

/// The part of a schema's `$id` before its name and version.
const HOME: &str = "https://github.com/straddle/straddle/schema";

/// Returns the JSON Schema of a command's output; `None` if `straddle-lab` runs the command.
pub(crate) fn json_schema(command: SchemaOf) -> Option<Schema> {
    Some(match command {
        SchemaOf::Check => schema::<Report>(command),
        SchemaOf::Plan => schema::<straddle_repair::Document<Plan>>(command),
        SchemaOf::Realign => schema::<RealignOutput>(command),
        SchemaOf::RealignTo => schema::<straddle_repair::Document<Copy>>(command),
        SchemaOf::Bench => document::<BenchReport<'_>>(command),
        SchemaOf::Drive => document::<DrivesReport>(command),
        SchemaOf::Explain => document::<ExplainReport>(command),
        SchemaOf::ExplainRmw => document::<RmwReport<'_>>(command),
        SchemaOf::Efficiency => document::<EfficiencyReport>(command),
        SchemaOf::Trace => document::<TraceReport>(command),
        SchemaOf::TraceRecord => document::<RecordReport<'_>>(command),
        SchemaOf::Sim => document::<SimReport<'_>>(command),
        SchemaOf::Probe => document::<ProbeReport<'_>>(command),
        SchemaOf::Report => document::<Digest<'_>>(command),
        SchemaOf::Serve | SchemaOf::Lab | SchemaOf::Reproduce | SchemaOf::DriveFit => return None,
    })
}

/// Returns the schema of a command's document with this body.
pub fn document<T: JsonSchema>(command: SchemaOf) -> Schema {
    let mut schema = schema::<Document<T>>(command);
    let title = format!("straddle {}", name(command).replace('-', " "));
    schema.insert("description".to_owned(), format!("What `{title} --json` prints.").into());
    schema.insert("title".to_owned(), title.into());
    schema
}

fn schema<T: JsonSchema>(command: SchemaOf) -> Schema {
    // For output, a field that is left out when empty is not required.
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("{HOME}/{}/{}", name(command), command.version()).into());
    schema
}

fn name(command: SchemaOf) -> String {
    command.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
