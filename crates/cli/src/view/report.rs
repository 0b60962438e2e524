//! Audits in the formats that the programs of build servers, spreadsheets and monitoring read.
//!
//! Invariants: it translates what `check --json` describes, and adds nothing. Each format is written target by
//! target, so that memory does not grow with their number, except for the one line a metric that Prometheus needs
//! grouped.

mod formats;

use straddle_units::ByteOffset;

use crate::commands::check::{CheckArguments, OutputFormat};
use crate::exit::Exit;
use crate::output::{json_escaped, printable};
use crate::view;
use crate::view::report::formats::{Github, Junit, Prometheus, Sarif};
use straddle_audit::Status;
use straddle_audit::form::check::{self, Summary, TargetReport};
use straddle_audit::form::finding::{FindingReport, IgnoredReport};

pub(crate) trait Report {
    fn opening(&mut self) -> String {
        String::new()
    }

    /// Returns the part of one target, or keeps it for the end. Its share in the exit status is `exit`; without
    /// findings it would be `unjudged`.
    fn target(&mut self, target: &TargetReport, exit: Exit, unjudged: Exit) -> String;

    fn closing(&mut self) -> String {
        String::new()
    }
}

pub(crate) fn is_wanted(arguments: &CheckArguments) -> bool {
    arguments.json || arguments.output_format.is_some()
}

pub(crate) fn of(arguments: &CheckArguments) -> Option<Box<dyn Report>> {
    Some(match arguments.output_format {
        Some(OutputFormat::Csv) => Box::new(Csv),
        Some(OutputFormat::Sarif) => Box::new(Sarif::default()),
        Some(OutputFormat::Junit) => Box::new(Junit { least: arguments.fails_from() }),
        Some(OutputFormat::Github) => Box::new(Github),
        Some(OutputFormat::Prometheus) => Box::new(Prometheus::default()),
        None if arguments.json => {
            Box::new(Json { host: view::audited_host(arguments), summary: Summary::default() })
        }
        None => return None,
    })
}

fn unjudged(target: &TargetReport) -> Option<String> {
    let reason = target.reason.as_deref();
    match target.status {
        Status::Failed => Some(format!("failed: {}", target.error.as_deref().unwrap_or_default())),
        Status::NotJudged => Some(format!("not judged: {}", reason.unwrap_or_default())),
        _ => reason.map(str::to_owned),
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
    lines.extend(fix.warning().map(str::to_owned));
    lines.extend(fix.caution.clone());
    lines.extend(fix.commands.iter().map(|command| command.line.clone()));
    lines
}

const HEADER: &str = "target,status,code,severity,partition,layer,offset_bytes,boundary,boundary_bytes,past_bytes,\
                      message,fix,risk,caution,commands,ignored";
const COLUMNS: usize = 16;

fn row(cells: &[String]) -> String {
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n"
}

struct Csv;

impl Report for Csv {
    fn opening(&mut self) -> String {
        format!("{HEADER}\n")
    }

    fn target(&mut self, target: &TargetReport, _: Exit, _: Exit) -> String {
        let status = target.status.word().replace(' ', "_");
        let cells = |finding, ignored| row(&cells(&target.target, &status, finding, ignored));
        let mut rows: Vec<String> = target.findings.iter().map(|finding| cells(finding, None)).collect();
        rows.extend(target.ignored.iter().map(|ignored| cells(&ignored.finding, Some(ignored))));
        if rows.is_empty() {
            let why = target.error.as_ref().or(target.reason.as_ref()).cloned().unwrap_or_default();
            let mut cells = [const { String::new() }; COLUMNS];
            (cells[0], cells[1], cells[10]) = (target.target.clone(), status, why);
            rows.push(row(&cells));
        }
        rows.concat()
    }
}

/// Returns the cells of a finding; the last one is the reason, if it is ignored.
fn cells(
    target: &str,
    status: &str,
    finding: &FindingReport,
    ignored: Option<&IgnoredReport>,
) -> Vec<String> {
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let missed = finding.missed.as_ref();
    let fix = finding.fix.as_ref();
    let commands: Vec<&str> =
        fix.iter().flat_map(|fix| &fix.commands).map(|command| command.line.as_str()).collect();
    vec![
        target.to_owned(),
        status.to_owned(),
        finding.code.to_string(),
        finding.severity.to_string(),
        number(finding.partition.map(u64::from)),
        finding.layer.clone().unwrap_or_default(),
        number(finding.at.map(ByteOffset::get)),
        missed.map(|missed| missed.name.to_owned()).unwrap_or_default(),
        number(missed.map(|missed| missed.boundary.size().get())),
        number(missed.map(|missed| missed.past.get())),
        finding.message.clone(),
        fix.map(|fix| fix.summary.clone()).unwrap_or_default(),
        fix.and_then(|fix| fix.risk).map(|risk| risk.to_string()).unwrap_or_default(),
        fix.and_then(|fix| fix.caution.clone()).unwrap_or_default(),
        commands.join("\n"),
        ignored.map(|ignored| ignored.why.to_string()).unwrap_or_default(),
    ]
}

/// A spreadsheet would take a cell that begins with one of four characters for a formula; names on a disk are chosen by
/// others, so a tab goes before it.
pub(crate) fn quoted(cell: &str) -> String {
    let lines: Vec<String> = cell.split('\n').map(printable).collect();
    let mut text = lines.join("\n");
    if text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\t');
    }
    if text.contains(['"', ',', '\n', '\t']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

struct Json {
    host: Option<String>,
    summary: Summary,
}

impl Report for Json {
    fn opening(&mut self) -> String {
        json_escaped(&check::opening(self.host.as_deref()))
    }

    fn target(&mut self, target: &TargetReport, _: Exit, _: Exit) -> String {
        let separator = if self.summary.targets == 0 { "\n" } else { ",\n" };
        self.summary.add(target.status);
        // The report has only strings, numbers and vectors of them, so serialising cannot fail.
        separator.to_owned() + &json_escaped(&serde_json::to_string(target).unwrap_or_default())
    }

    fn closing(&mut self) -> String {
        check::closing(self.summary).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn every_column_has_a_name() {
        assert_eq!(HEADER.split(',').count(), COLUMNS);
    }

    #[test]
    fn cells_stay_cells() {
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(quoted("=1+1"), "\"\t=1+1\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
