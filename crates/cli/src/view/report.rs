//! Audits in the formats that the programs of build servers, spreadsheets and monitoring read.
//!
//! Invariants: it translates what `check --json` describes, and adds nothing to it. Each format is
//! written target by target, so that memory does not grow with their number, except for the one line a metric
//! that Prometheus needs grouped.

mod formats;

use straddle_layout::types;
use straddle_units::ByteOffset;

use crate::commands::check::{CheckArguments, OutputFormat};
use crate::exit::{Exit, UsageError};
use crate::output::{json_escaped, printable, style};
use crate::view;
use crate::view::report::formats::{Github, Junit, Prometheus, Sarif};
use crate::view::text::{headed, plain_table, right};
use straddle_audit::Status;
use straddle_audit::form::check::Summary;
use straddle_audit::form::check::{self, TargetReport};
use straddle_audit::form::finding::{FindingReport, IgnoredReport};
use straddle_audit::form::table::PartitionReport;

/// Returns the indexes in `all` of the columns `asked` for, in that order; `usual` come first after a `+`.
/// Case does not matter.
fn picked(asked: &[String], all: &[&str], usual: &[&str]) -> Result<Vec<usize>, UsageError> {
    let at = |name: &str| all.iter().position(|one| one.eq_ignore_ascii_case(name));
    let mut picked = Vec::new();
    for (index, name) in asked.iter().enumerate() {
        let added = name.strip_prefix('+').filter(|_| index == 0);
        if added.is_some() {
            picked.extend(usual.iter().filter_map(|name| at(name)));
        }
        let name = added.unwrap_or(name);
        let unknown = || UsageError(format!("unknown column '{name}'; the columns are {}", all.join(", ")));
        picked.push(at(name).ok_or_else(unknown)?);
    }
    Ok(picked)
}

pub(crate) trait Report {
    fn opening(&mut self) -> String {
        String::new()
    }

    /// Returns the part of one target, or keeps it for the end. Its share in the exit status is `exit`;
    /// `unjudged` is what it would be without findings.
    fn target(&mut self, target: &TargetReport, exit: Exit, unjudged: Exit) -> String;

    fn closing(&mut self) -> String {
        String::new()
    }
}

pub(crate) fn is_wanted(arguments: &CheckArguments) -> bool {
    arguments.json || arguments.output_format.is_some() || !arguments.columns.is_empty()
}

/// Returns the report that was asked for; `None` for text.
pub(crate) fn of(arguments: &CheckArguments) -> Result<Option<Box<dyn Report>>, UsageError> {
    let columns = &arguments.columns;
    Ok(Some(match arguments.output_format {
        Some(OutputFormat::Csv) => Box::new(Csv::of(columns)?),
        Some(_) if !columns.is_empty() => {
            return Err(UsageError(
                "--columns applies only to tables (text and --output-format csv)".to_owned(),
            ));
        }
        Some(OutputFormat::Sarif) => Box::new(Sarif::default()),
        Some(OutputFormat::Junit) => Box::new(Junit { least: arguments.fails_from() }),
        Some(OutputFormat::Github) => Box::new(Github),
        Some(OutputFormat::Prometheus) => Box::new(Prometheus::default()),
        None if !columns.is_empty() => Box::new(Table::of(columns)?),
        None if arguments.json => {
            Box::new(Json { host: view::audited_host(arguments), summary: Summary::default() })
        }
        None => return Ok(None),
    }))
}

/// Returns the names of the columns from which `--columns` chooses, of all forms.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    names().chain(HEADER.split(','))
}

/// Why a target has no verdict.
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

/// A column: its name, whether it holds numbers, and its cell.
type Column = (&'static str, bool, fn(&TargetReport, Option<&PartitionReport>) -> Option<String>);

/// All columns. Those of the same name as in lsblk have its meaning, but START counts in the sectors of the
/// table.
const ALL: [Column; 15] = [
    ("TARGET", false, |target, _| Some(target.target.clone())),
    ("STATUS", false, |target, _| Some(target.status.word().to_owned())),
    ("PARTN", true, |_, part| Some(part?.partition.number.to_string())),
    ("START", true, |_, part| Some(part?.partition.start.get().to_string())),
    ("START-BYTE", true, |_, part| Some(part?.partition.span.start().to_string())),
    ("SECTORS", true, |_, part| Some(part?.partition.count.get().to_string())),
    ("SIZE", true, |_, part| Some(part?.partition.span.len().to_string())),
    ("SIZE-BYTE", true, |_, part| Some(part?.partition.span.len().get().to_string())),
    ("PARTTYPE", false, |_, part| types::code(&part?.partition.kind)),
    ("TYPE", false, |_, part| types::name(&part?.partition.kind).map(str::to_owned)),
    ("PARTLABEL", false, |_, part| Some(part?.partition.attributes.name.clone())),
    ("PARTUUID", false, |_, part| part?.partition.attributes.guid.map(types::guid_text)),
    ("CONTENT", false, |_, part| Some(part?.partition.content?.name().to_owned())),
    ("VERDICT", false, |_, part| Some(part?.verdict_word())),
    ("CODES", false, |target, part| Some(codes(target, part))),
];

/// The columns to which `+NAME` adds.
const USUAL: [&str; 8] = ["TARGET", "PARTN", "START", "START-BYTE", "SIZE", "TYPE", "CONTENT", "VERDICT"];

fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, ..)| *name)
}

/// Returns the codes of the findings about a partition, or about the rest of the target; each once.
fn codes(target: &TargetReport, partition: Option<&PartitionReport>) -> String {
    let number = partition.map(|judged| judged.partition.number);
    let about = target.findings.iter().filter(|finding| finding.partition == number);
    let mut codes: Vec<&str> = about.map(|finding| finding.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.join(",")
}

/// The table. Its columns are as wide as their longest cells, so it is printed at the end.
struct Table {
    columns: Vec<&'static Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn of(asked: &[String]) -> Result<Self, UsageError> {
        let columns = picked(asked, &names().collect::<Vec<_>>(), &USUAL)?;
        let columns = columns.into_iter().filter_map(|index| ALL.get(index)).collect();
        Ok(Self { columns, rows: Vec::new() })
    }

    fn add(&mut self, target: &TargetReport, partition: Option<&PartitionReport>) {
        let cell = |(_, _, cell): &&Column| {
            let text = cell(target, partition).filter(|text| !text.is_empty());
            printable(&text.unwrap_or_else(|| "-".to_owned()))
        };
        self.rows.push(self.columns.iter().map(cell).collect());
    }
}

impl Report for Table {
    fn target(&mut self, target: &TargetReport, _: Exit, _: Exit) -> String {
        target.partitions.iter().for_each(|partition| self.add(target, Some(partition)));
        if target.partitions.is_empty() {
            self.add(target, None);
        }
        String::new()
    }

    fn closing(&mut self) -> String {
        let mut table = plain_table(&self.columns.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        table.add_rows(std::mem::take(&mut self.rows));
        let numbers = self.columns.iter().enumerate().filter(|(_, (_, is_number, _))| *is_number);
        right(&mut table, numbers.map(|(index, _)| index));
        headed(&table, style::FAINT).trim_end().to_owned() + "\n"
    }
}

const HEADER: &str = "target,status,code,severity,partition,layer,offset_bytes,boundary,boundary_bytes,past_bytes,\
                      message,fix,risk,caution,commands,ignored";
const COLUMNS: usize = 16;

struct Csv {
    /// Their indexes in the header.
    columns: Vec<usize>,
}

impl Csv {
    fn of(asked: &[String]) -> Result<Self, UsageError> {
        let all: Vec<&str> = HEADER.split(',').collect();
        let columns = if asked.is_empty() { (0..all.len()).collect() } else { picked(asked, &all, &all)? };
        Ok(Self { columns })
    }

    fn row(&self, cells: &[String]) -> String {
        let cells = self.columns.iter().filter_map(|index| cells.get(*index));
        cells.map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n"
    }
}

impl Report for Csv {
    fn opening(&mut self) -> String {
        self.row(&HEADER.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    fn target(&mut self, target: &TargetReport, _: Exit, _: Exit) -> String {
        let status = target.status.word().replace(' ', "_");
        let cells = |finding, ignored| self.row(&cells(&target.target, &status, finding, ignored));
        let mut rows: Vec<String> = target.findings.iter().map(|finding| cells(finding, None)).collect();
        rows.extend(target.ignored.iter().map(|ignored| cells(&ignored.finding, Some(ignored))));
        if rows.is_empty() {
            let why = target.error.as_ref().or(target.reason.as_ref()).cloned().unwrap_or_default();
            let mut cells = [const { String::new() }; COLUMNS];
            (cells[0], cells[1], cells[10]) = (target.target.clone(), status, why);
            rows.push(self.row(&cells));
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
        fix.filter(|fix| !fix.commands.is_empty()).map(|fix| fix.risk.to_string()).unwrap_or_default(),
        fix.and_then(|fix| fix.caution.clone()).unwrap_or_default(),
        commands.join("\n"),
        ignored.map(|ignored| ignored.why.to_string()).unwrap_or_default(),
    ]
}

/// Quotes a cell where needed. A spreadsheet takes a cell that begins with one of four characters for a
/// formula; names on a disk are chosen by others, so a tab goes before it.
pub(crate) fn quoted(cell: &str) -> String {
    let lines: Vec<String> = cell.split('\n').map(printable).collect();
    let mut text = lines.join("\n");
    if text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\t');
    }
    if text.contains(['"', ',', '\n', '\t']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A JSON document, with a line for each target.
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
    fn columns_are_picked_in_order_and_added_as_by_lsblk() {
        let pick = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            picked(&asked, &["A", "B", "C"], &["A", "B"]).map_err(|error| error.0)
        };
        assert_eq!(pick(&["c", "A"]).unwrap(), [2, 0]);
        assert_eq!(pick(&["+C"]).unwrap(), [0, 1, 2]);
        assert_eq!(pick(&["A", "+C"]).unwrap_err(), "unknown column '+C'; the columns are A, B, C");
    }

    #[test]
    fn the_usual_columns_exist() {
        assert!(USUAL.iter().all(|usual| names().any(|name| name == *usual)));
    }

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
