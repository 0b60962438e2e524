//! What `--json` prints: a result, with the version of its form. The forms of results are in the crates of their
//! subjects; those here put several results together.

pub(crate) mod bench;

use clap::ValueEnum;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use straddle_repair::Plan;
use straddle_repair::copy::Copy;

use crate::commands::efficiency::EfficiencyReport;
use crate::commands::explain::{ExplainReport, RmwReport};
use crate::commands::probe::ProbeReport;
use crate::commands::realign::RealignOutput;
use crate::commands::sim::SimReport;
use crate::commands::trace::record::RecordReport;
use crate::exit::Exit;
use crate::fleet::Digest;
use crate::output;
use crate::shared::SharedReport;
use crate::view::json::bench::BenchReport;
use straddle_audit::form::check::{self, Report};
use straddle_drive::form::DrivesReport;
use straddle_trace::form::TraceReport;

impl SchemaOf {
    /// Returns the version of its schema, incremented when the meaning of a field changes or a field is removed, not
    /// when one is added.
    pub const fn version(self) -> u32 {
        match self {
            Self::Check => check::SCHEMA,
            Self::Plan | Self::Realign | Self::RealignTo => straddle_repair::SCHEMA,
            Self::Efficiency | Self::Report | Self::Drive | Self::Trace | Self::ProbeShare => 1,
            Self::Bench | Self::DriveFit | Self::Explain | Self::ExplainRmw | Self::TraceRecord => 2,
            Self::Sim | Self::Serve | Self::Lab | Self::Probe => 2,
            Self::Reproduce => 4,
        }
    }
}

/// A document, as a command prints it with `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<T> {
    /// The schema version of this output. It is incremented when the meaning of a field changes or a field is
    /// removed, not when a field is added.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    #[serde(flatten)]
    body: T,
}

impl<T: Serialize> Document<T> {
    /// Returns the document of a command with this body.
    pub const fn of(command: SchemaOf, body: T) -> Self {
        Self { schema: command.version(), straddle: env!("CARGO_PKG_VERSION"), body }
    }

    /// Prints it, with which the command is done.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be written.
    pub fn print(&self) -> anyhow::Result<Exit> {
        output::print_json(self)
    }
}

/// The commands whose JSON has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// `check --json`.
    Check,
    /// `plan --json`.
    Plan,
    /// `realign --json`.
    Realign,
    /// `realign --to --json`.
    RealignTo,
    /// `explain --json`.
    Explain,
    /// `explain rmw --json`.
    ExplainRmw,
    /// `efficiency --json`.
    Efficiency,
    /// `bench --json`.
    Bench,
    /// `drive list --json` and `drive show --json`.
    Drive,
    /// `drive fit --json`.
    DriveFit,
    /// `trace --json`.
    Trace,
    /// `trace record --json`.
    TraceRecord,
    /// `sim --json`.
    Sim,
    /// `serve --json`.
    Serve,
    /// `lab --json`.
    Lab,
    /// `probe --json`.
    Probe,
    /// `probe --share`.
    ProbeShare,
    /// `reproduce --json`.
    Reproduce,
    /// `report --json`.
    Report,
}

impl SchemaOf {
    pub(crate) fn is_of_lab(self) -> bool {
        matches!(self, Self::Serve | Self::Lab | Self::Reproduce | Self::DriveFit)
    }
}

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
        SchemaOf::ProbeShare => document::<SharedReport<'_>>(command),
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
