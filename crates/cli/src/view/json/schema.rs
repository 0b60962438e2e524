//! The JSON Schemas of the commands' output.

use clap::ValueEnum;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::Document;
use super::bench::BenchReport;
use super::check::Report;
use super::copy::CopyReport;
use super::drive::DrivesReport;
use super::efficiency::EfficiencyReport;
use super::explain::{ExplainReport, RmwReport};
use super::plan::PlanReport;
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
        SchemaOf::Plan => schema::<PlanReport>(command),
        SchemaOf::Realign => schema::<RealignOutput>(command),
        SchemaOf::RealignTo => schema::<CopyReport>(command),
        SchemaOf::Bench => schema::<Document<BenchReport<'_>>>(command),
        SchemaOf::Drive => schema::<Document<DrivesReport>>(command),
        SchemaOf::Explain => schema::<Document<ExplainReport>>(command),
        SchemaOf::ExplainRmw => schema::<Document<RmwReport<'_>>>(command),
        SchemaOf::Efficiency => schema::<Document<EfficiencyReport>>(command),
        SchemaOf::Trace => schema::<Document<TraceReport>>(command),
        SchemaOf::TraceRecord => schema::<Document<RecordReport<'_>>>(command),
        SchemaOf::Sim => schema::<Document<SimReport<'_>>>(command),
        SchemaOf::Probe => schema::<Document<ProbeReport<'_>>>(command),
        SchemaOf::Report => schema::<Document<Digest<'_>>>(command),
        SchemaOf::Serve | SchemaOf::Lab | SchemaOf::Reproduce | SchemaOf::DriveFit => return None,
    })
}

/// Returns the schema of what a command prints.
pub fn schema<T: JsonSchema>(command: SchemaOf) -> Schema {
    // For output, a field that is left out when empty is not required.
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    let name = command.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let title = format!("straddle {}", name.replace('-', " ").replace(" to", " --to"));
    schema.insert("description".to_owned(), format!("What `{title} --json` prints.").into());
    schema.insert("title".to_owned(), title.into());
    schema.insert("$id".to_owned(), format!("{HOME}/{name}/{}", command.version()).into());
    schema
}
