//! Audits in the formats that the programs of build servers, spreadsheets and monitoring read.
//!
//! Invariants: it translates what `check --json` describes, and adds nothing to it. Each format is
//! written target by target, so that memory does not grow with their number, except for the one line a metric
//! that Prometheus needs grouped.

mod columns;
pub(crate) mod csv;
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
use crate::args::{CheckArguments, Columns, OutputFormat};
use crate::exit::UsageError;
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

pub(crate) fn is_wanted(arguments: &CheckArguments) -> bool {
    arguments.json || arguments.output_format.is_some() || !arguments.columns.is_empty()
}

/// Returns the report that was asked for; `None` for text.
pub(crate) fn of(arguments: &CheckArguments) -> Result<Option<Box<dyn Report>>, UsageError> {
    let columns = Some(Columns(&arguments.columns)).filter(|columns| !columns.0.is_empty());
    let least = arguments.fails_from();
    let severities = [Severity::Error, Severity::Warning, Severity::Advice];
    let fails = severities.into_iter().filter(|severity| *severity >= least);
    Ok(Some(match (arguments.output_format, columns) {
        (None, Some(columns)) => Box::new(columns::Table::of(&columns)?),
        (Some(OutputFormat::Csv), columns) => Box::new(Csv::of(columns.as_ref())?),
        (Some(_), Some(_)) => {
            return Err(UsageError("--columns is for tables: text and --output-format csv".to_owned()));
        }
        (None, None) if arguments.json => Box::new(Json::of(hostname::audited(arguments))),
        (None, None) => return Ok(None),
        (Some(OutputFormat::Sarif), None) => Box::new(Sarif::default()),
        (Some(OutputFormat::Junit), None) => {
            Box::new(Junit { fails: fails.collect(), fails_blank: arguments.fails_blank() })
        }
        (Some(OutputFormat::Github), None) => Box::new(Github { fails_blank: arguments.fails_blank() }),
        (Some(OutputFormat::Prometheus), None) => Box::new(Prometheus::default()),
    }))
}

/// Returns the names of the columns from which `--columns` chooses, of all forms.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    columns::names().chain(csv::names())
}

/// Returns why a target has no verdict.
fn unjudged(target: &TargetReport) -> Option<(&'static str, &str)> {
    match target.status {
        Status::Failed => Some(("failed", target.error.as_deref().unwrap_or_default())),
        Status::NotJudged => Some(("not judged", target.reason.as_deref().unwrap_or_default())),
        _ => None,
    }
}

/// Returns why a target holds nothing to judge.
fn nothing(target: &TargetReport) -> Option<&str> {
    target.reason.as_deref().filter(|_| target.status != Status::NotJudged)
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
    lines.extend(fix.warning().map(str::to_owned));
    lines.extend(fix.caution.clone());
    lines.extend(fix.commands.iter().map(|command| command.line.clone()));
    lines
}
