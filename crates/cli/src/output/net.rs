//! The last filter before stdout: it makes names printable that no earlier code did.
//!
//! Invariants: of everything that controls a terminal, only line feeds, tabs and, if colours are
//! on, colours pass. A reader that has closed the pipe changes nothing: the command goes on as if it still read.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use straddle_device::shown::is_hidden;

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

/// Drops what a pipe without a reader does not take (`straddle check … | head -1`): the verdict, and what the
/// command has yet to do, do not depend on who reads how much.
pub(crate) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Returns the filtered text, with its colours or without.
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

/// Returns the length of the style (`ESC [ 1 ; 31 m`) at the start of `text`.
fn style(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
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
