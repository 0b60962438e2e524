//! The document of `check --json`, written target by target.

use super::Report;
use crate::output::json_escaped;
use crate::view::json::TargetReport;
use crate::view::json::check::{self, Summary};

/// A JSON document, with a line for each target.
#[derive(Debug, Default)]
pub(crate) struct Json {
    host: Option<String>,
    summary: Summary,
}

impl Json {
    /// Returns the document of an audit of `host`.
    pub(crate) fn of(host: Option<String>) -> Self {
        Self { host, ..Self::default() }
    }
}

impl Report for Json {
    fn opening(&mut self) -> String {
        json_escaped(&check::opening(self.host.as_deref()))
    }

    fn target(&mut self, target: &TargetReport) -> String {
        let separator = if self.summary.targets == 0 { "\n" } else { ",\n" };
        self.summary.add(target.status);
        // The report has only strings, numbers and vectors of them, so serialising cannot fail.
        separator.to_owned() + &json_escaped(&serde_json::to_string(target).unwrap_or_default())
    }

    fn closing(&mut self) -> String {
        check::closing(self.summary).unwrap_or_default() + "\n"
    }
}
