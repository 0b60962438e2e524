//! What `realign --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_repair::realign::Realign;
use straddle_repair::{Document, SCHEMA};

/// What `straddle realign --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "straddle realign")]
#[serde(untagged)]
pub(crate) enum RealignOutput {
    /// A plan.
    Plan(Box<Document<Realign>>),
    /// No partition has to move.
    Nothing(NothingReport),
}

/// What is printed if no partition has to move; no plan is saved then.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NothingToDo")]
pub(crate) struct NothingReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// No moves.
    moves: [(); 0],
    /// Why partitions stay that start off a boundary.
    notes: Vec<String>,
}

impl NothingReport {
    pub(crate) fn of(notes: Vec<String>) -> Self {
        Self { schema: SCHEMA, straddle: env!("CARGO_PKG_VERSION"), moves: [], notes }
    }
}
