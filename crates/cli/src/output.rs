//! Where output goes, and how it is coloured.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::Style;
use straddle_device::shown::is_hidden;
pub use straddle_device::shown::{printable, quote_path};

use crate::args::{Arguments, Colour};
use crate::exit::Exit;

/// Styles for text on stdout, which prints them if colour is on.
pub mod style {
    use anstyle::{AnsiColor, Style};

    /// Of errors.
    pub const ERROR: Style = AnsiColor::Red.on_default().bold();
    /// Of warnings.
    pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    /// Of advice.
    pub const ADVICE: Style = AnsiColor::Cyan.on_default();
    /// Of what is as it should be.
    pub const GOOD: Style = AnsiColor::Green.on_default();
    /// Of headings.
    pub const HEADING: Style = Style::new().bold();
    /// Of what matters less.
    pub const FAINT: Style = Style::new().dimmed();
}

impl Arguments {
    /// Turns colours on or off, as asked for.
    pub fn choose_colour(&self) {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        colour(match self.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => !no_color && !dumb && io::stdout().is_terminal(),
        });
    }
}

/// Returns `text` in `style`.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns standard output, buffered in large pieces and filtered so that text in it cannot control a terminal.
pub fn stdout() -> BufWriter<Net> {
    BufWriter::with_capacity(64 * 1024, Net::new())
}

const USUAL_WIDTH: usize = 80;

const MAX_WIDTH: usize = 110;

/// The least width used; a narrower terminal is treated as this wide.
const LEAST_WIDTH: usize = 60;

/// Returns the characters per line of stdout.
pub fn width() -> usize {
    terminal_width().map_or(USUAL_WIDTH, |width| width.min(MAX_WIDTH))
}

pub(crate) fn fits(columns: usize) -> bool {
    columns <= terminal_width().unwrap_or(USUAL_WIDTH)
}

/// Asked for once: every line that is wrapped needs it.
fn terminal_width() -> Option<usize> {
    static WIDTH: OnceLock<Option<usize>> = OnceLock::new();
    *WIDTH.get_or_init(|| width_of(io::stdout()))
}

/// The characters per line of a terminal or, where that is unknown, those that COLUMNS states.
fn width_of(stream: impl AsFd) -> Option<usize> {
    let terminal = terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0));
    let stated = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    terminal.or_else(stated).map(|width| width.max(LEAST_WIDTH))
}

/// Makes a text of several lines printable.
pub fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// Prints a message to stderr, not wrapped: a command in it is meant to be pasted.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "straddle: {}", printable_lines(message));
}

/// Escapes hidden characters in JSON. Outside of strings JSON has none except line feeds.
pub(crate) fn json_escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_hidden(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text += &format!("\\u{unit:04x}");
        }
    }
    text
}

/// Prints `value` as indented JSON, with which a command is done.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<Exit> {
    print(&(json_escaped(&serde_json::to_string_pretty(value)?) + "\n"))
}

/// Returns `1 partition`, `2 partitions`.
pub fn plural<N: PartialEq + From<u8> + std::fmt::Display>(count: N, noun: &str) -> String {
    if count == N::from(1) { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Prints `text`, with which a command is done.
///
/// # Errors
///
/// Returns why it cannot be written.
pub fn print(text: &str) -> anyhow::Result<Exit> {
    print_bytes(text.as_bytes())
}

pub(crate) fn print_bytes(text: &[u8]) -> anyhow::Result<Exit> {
    let mut out = stdout();
    out.write_all(text)?;
    out.flush()?;
    Ok(Exit::Success)
}

static COLOURED: AtomicBool = AtomicBool::new(false);

pub(super) fn colour(is_on: bool) {
    COLOURED.store(is_on, Ordering::Relaxed);
}

/// Standard output behind the filter.
pub struct Net {
    out: Stdout,
    /// The beginning of a line whose rest is still to come.
    line: Vec<u8>,
}

impl Net {
    pub(super) fn new() -> Self {
        Self { out: io::stdout(), line: Vec::new() }
    }

    fn print(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = screened(&String::from_utf8_lossy(bytes), COLOURED.load(Ordering::Relaxed));
        unless_closed(self.out.write_all(text.as_bytes()))
    }
}

impl Write for Net {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let held = self.line.len();
        self.line.extend_from_slice(bytes);
        // What is held has no line feed.
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(held + end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            self.print(&lines)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.line);
        self.print(&rest)?;
        unless_closed(self.out.flush())
    }
}

/// Drops what a pipe without a reader does not take (`straddle check … | head -1`): the verdict, and what is yet to
/// do, do not depend on who reads how much.
pub(crate) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

pub(crate) fn screened(text: &str, is_coloured: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = style(rest);
        match length {
            Some(length) if is_coloured => shown += &rest[..length],
            Some(_) => {}
            None if is_hidden(c) && !matches!(c, '\n' | '\t') => shown.extend(c.escape_default()),
            None => shown.push(c),
        }
        rest = &rest[length.unwrap_or(c.len_utf8())..];
    }
    shown
}

fn style(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// Returns a text with a capital first letter.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_get_out() {
        let text = "a\u{1b}[1;31mb\u{1b}[0m\t\u{202e}c\n\u{1b}]0;x\u{7}\u{1b}[2J\u{200b}é\u{1b}[3";
        let shown = "a\u{1b}[1;31mb\u{1b}[0m\t\\u{202e}c\n\\u{1b}]0;x\\u{7}\\u{1b}[2J\\u{200b}é\\u{1b}[3";
        assert_eq!(screened(text, true), shown);
        assert_eq!(screened(text, false), shown.replace("\u{1b}[1;31m", "").replace("\u{1b}[0m", ""));
    }
}
