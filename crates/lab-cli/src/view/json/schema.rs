//! The JSON Schemas of the commands' output.

use schemars::Schema;
use straddle_cli::view::json::schema::schema;

use super::fit::FitReport;
use super::lab::LabReport;
use super::reproduce::ReproduceReport;
use super::serve::ServeReport;
use crate::args::SchemaOf;

/// Returns the JSON Schema of a command's output; `None` if `straddle` runs the command.
pub(crate) fn json_schema(command: SchemaOf) -> Option<Schema> {
    match command {
        SchemaOf::DriveFit => Some(schema::<FitReport>("drive-fit", super::fit::SCHEMA)),
        SchemaOf::Lab => Some(schema::<LabReport>("lab", super::lab::SCHEMA)),
        SchemaOf::Reproduce => Some(schema::<ReproduceReport>("reproduce", super::reproduce::SCHEMA)),
        SchemaOf::Serve => Some(schema::<ServeReport>("serve", super::serve::SCHEMA)),
        _ => None,
    }
}
