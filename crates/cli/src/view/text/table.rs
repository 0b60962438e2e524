//! Tables without lines, as all commands print them.

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::output::paint;

/// Creates a table without lines.
pub(crate) fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

/// Aligns these columns to the right, as for numbers.
pub(crate) fn right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Returns a table's lines without trailing blanks.
pub(crate) fn trimmed(table: &Table) -> String {
    table.trim_fmt()
}

/// Returns a table's lines, with the heading in `style`. It is painted last, because a table counts escape
/// sequences as text.
pub(crate) fn headed(table: &Table, style: Style) -> String {
    let text = trimmed(table);
    let (heading, rows) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{}\n{rows}", paint(style, heading))
}
