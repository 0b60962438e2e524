//! The JSON Schemas of the commands' output.

use schemars::Schema;
use straddle_cli::view::json::schema::document;

use super::fit::FitReport;
use super::lab::LabReport;
use super::reproduce::ReproduceReport;
use super::serve::ServeReport;
use crate::args::SchemaOf;

/// Returns the JSON Schema of a command's output; `None` if `straddle` runs the command.
pub(crate) fn json_schema(command: SchemaOf) -> Option<Schema> {
    match command {
        SchemaOf::DriveFit => Some(document::<FitReport<'_>>(command)),
        SchemaOf::Lab => Some(document::<LabReport<'_>>(command)),
        SchemaOf::Reproduce => Some(document::<ReproduceReport<'_>>(command)),
        SchemaOf::Serve => Some(document::<ServeReport<'_>>(command)),
        _ => None,
    }
}
