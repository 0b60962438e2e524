//! The JSON Schemas of the commands' output.

use schemars::Schema;
use straddle_cli::view::json::schema::schema;

use super::Document;
use super::fit::FitReport;
use super::lab::LabReport;
use super::reproduce::ReproduceReport;
use super::serve::ServeReport;
use crate::args::SchemaOf;

/// Returns the JSON Schema of a command's output; `None` if `straddle` runs the command.
pub(crate) fn json_schema(command: SchemaOf) -> Option<Schema> {
    match command {
        SchemaOf::DriveFit => Some(schema::<Document<FitReport<'_>>>(command)),
        SchemaOf::Lab => Some(schema::<Document<LabReport<'_>>>(command)),
        SchemaOf::Reproduce => Some(schema::<Document<ReproduceReport<'_>>>(command)),
        SchemaOf::Serve => Some(schema::<Document<ServeReport<'_>>>(command)),
        _ => None,
    }
}
