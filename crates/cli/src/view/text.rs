//! Results as text for people, one module per command, and what they share: tables and wrapped lines.

pub(crate) mod bench;
pub(crate) mod check;
pub mod drive;
mod finding;
pub(crate) mod plan;
pub(crate) mod trace;
pub(crate) mod tree;

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use straddle_audit::Severity;
use straddle_measure::bench::Clock;
use textwrap::WordSplitter;

use crate::output::{self, paint, style};
pub(crate) use crate::view::text::check::{lines, map, summary, target};

/// Wraps `text` into lines of the width of stdout, each after `indent`.
pub fn wrap(text: &str, indent: &str) -> String {
    wrap_after(text, indent, indent)
}

pub(crate) fn wrap_after(text: &str, first: &str, indent: &str) -> String {
    wrap_to(output::width(), text, first, indent)
}

pub(crate) fn wrap_to(width: usize, text: &str, first: &str, indent: &str) -> String {
    let options = textwrap::Options::new(width).initial_indent(first).subsequent_indent(indent);
    // Sizes such as 4096-byte, and shares such as 50.0 %, stay whole.
    let joined = text.replace(" %", "\u{a0}%");
    textwrap::fill(&joined, options.break_words(false).word_splitter(WordSplitter::NoHyphenation))
        .replace("\u{a0}%", " %")
}

pub(crate) fn led(sentences: impl Iterator<Item = String>) -> String {
    let styles = [style::HEADING].into_iter().chain(std::iter::repeat(Style::new()));
    sentences.zip(styles).map(|(sentence, style)| paint(style, &sentence) + "\n").collect()
}

pub(crate) fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Error => style::ERROR,
        Severity::Warning => style::WARNING,
        Severity::Advice => style::ADVICE,
    }
}

/// Formats seconds as `1 h 14 min`, `2 min 5 s` or `7.5 s`.
pub fn duration(seconds: f64) -> String {
    let parts = |unit: f64| ((seconds / unit).floor(), seconds % unit);
    match seconds {
        _ if seconds >= 3600.0 => {
            format!("{:.0} h {:.0} min", parts(3600.0).0, (parts(3600.0).1 / 60.0).floor())
        }
        _ if seconds >= 60.0 => format!("{:.0} min {:.0} s", parts(60.0).0, parts(60.0).1.floor()),
        _ => format!("{seconds:.1} s"),
    }
}

/// Formats a number to four digits, without trailing zeros, or whole from 1000 on.
pub fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 1000.0 => return format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a share as `+3.4 %`.
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

pub(crate) const fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Virtual => "modelled, virtual time",
        Clock::Wall => "measured",
    }
}

/// Creates a table without lines.
pub fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    table
}

/// Without the first columns of `dispensable`: `always` of them, and as many more as leave lines that `fit`. The
/// first `numbers` columns are aligned to the right.
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

/// Returns a table's lines, with the heading in `style`. It is painted last: a table counts escape sequences as text.
pub fn headed(table: &Table, style: Style) -> String {
    let text = trimmed(table);
    let (heading, rows) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{}\n{rows}", paint(style, heading))
}
