//! Audits in the formats that the programs of build servers, spreadsheets and monitoring read.
//!
//! The law of this module: it translates what `check --json` describes, and adds nothing to it. Each format is
//! written target by target, so that memory does not grow with their number, except for the one line a metric
//! that Prometheus needs grouped.

mod csv;
mod github;
mod json;
mod junit;
mod prometheus;
mod sarif;

use straddle_audit::Severity;

use self::csv::Csv;
use self::github::Github;
use self::json::Json;
use self::junit::Junit;
use self::prometheus::Prometheus;
use self::sarif::Sarif;
use super::json::finding::FindingReport;
use super::json::{Status, TargetReport};
use crate::args::{CheckArguments, OutputFormat};
use crate::hostname;

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

/// Whether a report is written in place of text.
pub(crate) fn is_wanted(arguments: &CheckArguments) -> bool {
    arguments.json || arguments.output_format.is_some()
}

/// Returns the report that was asked for; `None` for text.
pub(crate) fn of(arguments: &CheckArguments) -> Option<Box<dyn Report>> {
    let least = arguments.fails_from();
    let severities = [Severity::Error, Severity::Warning, Severity::Advice];
    let fails = severities.into_iter().filter(|severity| *severity >= least);
    Some(match arguments.output_format {
        None if arguments.json => Box::new(Json::of(hostname::audited(arguments))),
        None => return None,
        Some(OutputFormat::Sarif) => Box::new(Sarif::default()),
        Some(OutputFormat::Junit) => Box::new(Junit { fails: fails.map(|one| one.to_string()).collect() }),
        Some(OutputFormat::Github) => Box::new(Github),
        Some(OutputFormat::Csv) => Box::new(Csv),
        Some(OutputFormat::Prometheus) => Box::new(Prometheus::default()),
    })
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
