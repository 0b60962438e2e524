//! What `trace record --json` prints.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_trace::tracefs::{Ended, Subject};
use straddle_trace::{Asked, Recorded};

/// What `straddle trace record --json` prints when the recording has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecordReport<'a> {
    #[serde(flatten)]
    recorded: &'a Recorded,
    /// The file of the recording.
    file: String,
    #[serde(flatten)]
    ended: &'a Ended,
    #[serde(flatten)]
    asked: &'a Asked,
}

impl<'a> RecordReport<'a> {
    /// The report on a recording in `to`.
    pub(crate) fn of(subject: &'a Subject, asked: &'a Asked, ended: &'a Ended, to: &Path) -> Self {
        Self { recorded: &subject.described, file: to.to_string_lossy().into_owned(), ended, asked }
    }
}
