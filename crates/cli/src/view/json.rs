//! What `--json` prints: a result, with the version of its form. The forms of results are in the crates of their subjects;
//! those here put several results together.

pub(crate) mod bench;
pub(crate) mod efficiency;
pub(crate) mod explain;
pub(crate) mod probe;
pub(crate) mod realign;
pub(crate) mod record;
pub mod schema;
pub(crate) mod sim;

use schemars::JsonSchema;
use serde::Serialize;

use crate::args::SchemaOf;
use crate::output;

pub(crate) use straddle_audit::Status;
pub(crate) use straddle_audit::form::check::TargetReport;
pub(crate) use straddle_audit::form::{check, finding, table};
pub(crate) use straddle_drive::form as drive;
pub(crate) use straddle_trace::form as trace;

impl SchemaOf {
    /// Returns the version of its schema. It is incremented when the meaning of a field changes or a field is removed, not
    /// when a field is added.
    pub const fn version(self) -> u32 {
        match self {
            Self::Check => check::SCHEMA,
            Self::Plan | Self::Realign | Self::RealignTo => straddle_repair::SCHEMA,
            Self::Efficiency | Self::Report | Self::Drive | Self::Trace => 1,
            Self::Bench
            | Self::DriveFit
            | Self::Explain
            | Self::ExplainRmw
            | Self::TraceRecord
            | Self::Sim
            | Self::Serve
            | Self::Lab
            | Self::Probe => 2,
            Self::Reproduce => 3,
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

    /// Prints it.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be written.
    pub fn print(&self) -> anyhow::Result<()> {
        output::print_json(self)
    }
}
