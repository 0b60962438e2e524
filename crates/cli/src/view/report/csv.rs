//! Comma-separated values (RFC 4180, with line feeds only): a line for each finding, and one for each target without any.

use straddle_units::ByteOffset;

use super::{Report, nothing, unjudged};
use crate::args::Columns;
use crate::exit::UsageError;
use crate::output::printable;
use crate::view::json::TargetReport;
use crate::view::json::finding::{FindingReport, IgnoredReport};

const HEADER: &str = "target,status,code,severity,partition,layer,offset_bytes,boundary,boundary_bytes,past_bytes,\
                      message,fix,risk,caution,commands,ignored";
const COLUMNS: usize = 16;

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    HEADER.split(',')
}

#[derive(Debug)]
pub(crate) struct Csv {
    /// Their indexes in the header.
    columns: Vec<usize>,
}

impl Csv {
    pub(super) fn of(asked: Option<&Columns<'_>>) -> Result<Self, UsageError> {
        let all: Vec<&str> = names().collect();
        let columns = match asked {
            Some(asked) => asked.pick(&all, &all)?,
            None => (0..all.len()).collect(),
        };
        Ok(Self { columns })
    }

    fn row(&self, cells: &[String]) -> String {
        let cells: Vec<String> =
            self.columns.iter().filter_map(|index| cells.get(*index)).map(|cell| quoted(cell)).collect();
        cells.join(",") + "\n"
    }
}

impl Report for Csv {
    fn opening(&mut self) -> String {
        self.row(&names().map(str::to_owned).collect::<Vec<_>>())
    }

    fn target(&mut self, target: &TargetReport) -> String {
        let status = target.status.word().replace(' ', "_");
        let cells = |finding, ignored| self.row(&cells(&target.target, &status, finding, ignored));
        let mut rows: Vec<String> = target.findings.iter().map(|finding| cells(finding, None)).collect();
        rows.extend(target.ignored.iter().map(|ignored| cells(&ignored.finding, Some(ignored))));
        if rows.is_empty() {
            let why = unjudged(target).map(|(_, why)| why).or(nothing(target)).unwrap_or_default().to_owned();
            let mut cells = vec![String::new(); COLUMNS];
            let filled = [(0, target.target.clone()), (1, status), (10, why)];
            for (column, text) in filled {
                if let Some(cell) = cells.get_mut(column) {
                    *cell = text;
                }
            }
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

#[cfg(test)]
mod tests {
    use super::{COLUMNS, HEADER, quoted};

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
