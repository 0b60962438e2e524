//! Tables without lines, as all commands print them.

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::output::{self, paint};

/// Creates a table without lines.
pub fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

/// Returns a table of `rows` without the first columns of `dispensable`: `always` of them, and as many more as leave
/// lines that `fit`. The first `numbers` columns are aligned to the right.
pub(crate) fn narrowed<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    numbers: usize,
    dispensable: &[&str],
    always: usize,
    fits: impl Fn(usize) -> bool,
) -> String {
    let drawn = |left_out: &[&str]| {
        let shown: Vec<usize> = (0..N).filter(|index| !left_out.contains(&header[*index])).collect();
        let mut table = plain_table(&shown.iter().map(|index| header[*index]).collect::<Vec<_>>());
        for row in rows {
            table.add_row(shown.iter().map(|index| row[*index].clone()));
        }
        right(&mut table, 0..shown.iter().filter(|index| **index < numbers).count());
        trimmed(&table)
    };
    let fits = |text: &String| text.lines().all(|line| fits(line.chars().count()));
    let mut tried = (always..dispensable.len()).map(|count| drawn(&dispensable[..count]));
    tried.find(fits).unwrap_or_else(|| drawn(dispensable))
}

/// Wraps the cells of a table that is wider than stdout.
pub fn folded(table: &mut Table) {
    let width = output::width();
    let is_wider = trimmed(table).lines().any(|line| line.chars().count() > width);
    if let Some(width) = u16::try_from(width).ok().filter(|_| is_wider) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
}

/// Aligns these columns to the right, as for numbers.
pub fn right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Returns a table's lines without trailing blanks.
pub fn trimmed(table: &Table) -> String {
    table.trim_fmt()
}

/// Returns a table's lines, with the heading in `style`. It is painted last, because a table counts escape
/// sequences as text.
pub fn headed(table: &Table, style: Style) -> String {
    let text = trimmed(table);
    let (heading, rows) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{}\n{rows}", paint(style, heading))
}
