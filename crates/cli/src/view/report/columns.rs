//! A table of partitions in columns of the user's choice: a line for each, and one for each target without any.

use straddle_layout::types;

use super::Report;
use crate::args::Columns;
use crate::exit::UsageError;
use crate::output::{printable, style};
use crate::view::json::TargetReport;
use crate::view::json::table::PartitionReport;
use crate::view::text::{headed, plain_table, right};

/// A column: its name, whether it holds numbers, and its cell.
type Column = (&'static str, bool, fn(&TargetReport, Option<&PartitionReport>) -> Option<String>);

/// All columns. Those of the same name as in lsblk have its meaning, but START counts in the sectors of the table.
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

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
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
pub(crate) struct Table {
    columns: Vec<&'static Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table of the columns asked for.
    pub(crate) fn of(asked: &Columns) -> Result<Self, UsageError> {
        let columns = asked.pick(&names().collect::<Vec<_>>(), &USUAL)?;
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
    fn target(&mut self, target: &TargetReport) -> String {
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

#[cfg(test)]
mod tests {
    use super::{USUAL, names};

    #[test]
    fn the_usual_columns_exist() {
        assert!(USUAL.iter().all(|usual| names().any(|name| name == *usual)));
    }
}
