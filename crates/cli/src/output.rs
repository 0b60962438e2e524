//! Where output goes, and how it is coloured.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anstyle::{AnsiColor, Style};

use crate::args::Colour;

/// Styles for text on stdout; empty ones where colour is off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Styles {
    pub(crate) error: Style,
    pub(crate) warning: Style,
    pub(crate) advice: Style,
    pub(crate) good: Style,
    pub(crate) heading: Style,
    pub(crate) faint: Style,
}

impl Styles {
    /// The styles that `when` and the terminal ask for.
    pub(crate) fn choose(when: Colour) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let coloured = match when {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => !no_color && !dumb && io::stdout().is_terminal(),
        };
        if !coloured {
            return Self::default();
        }
        let colour = |c: AnsiColor| Style::new().fg_color(Some(c.into()));
        Self {
            error: colour(AnsiColor::Red).bold(),
            warning: colour(AnsiColor::Yellow).bold(),
            advice: colour(AnsiColor::Cyan),
            good: colour(AnsiColor::Green),
            heading: Style::new().bold(),
            faint: Style::new().dimmed(),
        }
    }
}

/// `text` in `style`.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Standard output, written in large pieces.
pub(crate) fn stdout() -> BufWriter<Stdout> {
    BufWriter::with_capacity(64 * 1024, io::stdout())
}

/// Text that is no terminal's is made for this width.
const USUAL_WIDTH: usize = 110;

/// The narrowest terminal that is made for.
const LEAST_WIDTH: usize = 60;

/// Characters in a line of stdout.
pub(crate) fn width() -> usize {
    terminal_width().unwrap_or(USUAL_WIDTH)
}

/// Whether `columns` of what is no running text fit into a line: always, where stdout is no terminal.
pub(crate) fn fits(columns: usize) -> bool {
    terminal_width().is_none_or(|width| columns <= width)
}

fn terminal_width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0).max(LEAST_WIDTH))
}

/// Says something on stderr. Where that cannot be written either, the exit code has to do.
pub(crate) fn complain(message: &str) {
    let told = format!("straddle: {message}");
    let width =
        terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0).max(LEAST_WIDTH));
    // A command stands on a line of its own, and stays whole.
    let (first, rest) = told.split_at(told.find('\n').unwrap_or(told.len()));
    let first =
        width.map_or_else(|| first.to_owned(), |width| crate::text::wrap_after(first, width, "", "  "));
    let _ = writeln!(io::stderr(), "{first}{rest}");
}

/// `text` for a terminal, with control characters as escapes: a name from anywhere must not be obeyed.
pub(crate) fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Prints `value` as indented JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = stdout();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// `1 partition`, `2 partitions`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
