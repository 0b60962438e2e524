//! Audits in the formats that the programs of build servers, spreadsheets and monitoring read.
//!
//! The law of this module: it translates what `check --json` describes, and adds nothing to it. Each format is
//! written target by target, so that memory does not grow with their number, except for the one line a metric
//! that Prometheus needs grouped.

mod csv;
mod github;
mod junit;
mod prometheus;
mod sarif;

use super::json::finding::FindingReport;
use super::json::{Status, TargetReport};

pub(crate) use self::csv::Csv;
pub(crate) use self::github::Github;
pub(crate) use self::junit::Junit;
pub(crate) use self::prometheus::Prometheus;
pub(crate) use self::sarif::Sarif;

/// A format of reports.
pub(crate) trait Report {
    /// Returns what comes before the targets.
    fn opening(&mut self) -> String {
        String::new()
    }

    /// Returns the part of one target, or keeps it for the end.
    fn target(&mut self, target: &TargetReport) -> String;

    /// Returns what comes after the targets.
    fn closing(&mut self) -> String {
        String::new()
    }
}

/// Returns why a target has no verdict.
fn unjudged(target: &TargetReport) -> Option<(&'static str, &str)> {
    match target.status {
        Status::Failed => Some(("failed", target.error.as_deref().unwrap_or_default())),
        Status::NotJudged => Some(("not judged", target.reason.as_deref().unwrap_or_default())),
        _ => None,
    }
}

/// Returns the place of a finding inside its target: `partition 2`, a path of layers, or `disk`.
fn place(finding: &FindingReport) -> String {
    match (&finding.layer, finding.partition) {
        (Some(layer), _) => layer.clone(),
        (None, Some(number)) => format!("partition {number}"),
        (None, None) => "disk".to_owned(),
    }
}

/// Returns the fix in words and its commands, a line each; empty without a fix.
fn fix_lines(finding: &FindingReport) -> Vec<String> {
    let Some(fix) = &finding.fix else { return Vec::new() };
    let mut lines = vec![format!("fix: {}", fix.summary)];
    lines.extend(fix.warning.map(str::to_owned));
    lines.extend(fix.caution.clone());
    lines.extend(fix.commands.iter().map(|command| command.line.clone()));
    lines
}
