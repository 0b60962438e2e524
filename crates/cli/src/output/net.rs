//! The last filter before stdout: it makes names printable that no earlier code did.
//!
//! Invariants: of everything that controls a terminal, only line feeds, tabs and, if colours are
//! on, colours pass. A reader that has closed the pipe changes nothing: the command goes on as if it still read.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use straddle_device::shown::is_hidden;

/// Whether colours are on.
static STYLES: AtomicBool = AtomicBool::new(false);

pub(super) fn allow_styles(are_on: bool) {
    STYLES.store(are_on, Ordering::Relaxed);
}

/// Standard output behind the filter.
pub struct Net {
    out: Stdout,
    /// The beginning of a character or of a style whose rest is still to come.
    tail: Vec<u8>,
}

impl Net {
    pub(super) fn new() -> Self {
        Self { out: io::stdout(), tail: Vec::new() }
    }
}

impl Write for Net {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tail.extend_from_slice(bytes);
        let (text, done) = screened(&self.tail, STYLES.load(Ordering::Relaxed));
        self.tail.drain(..done);
        unless_closed(self.out.write_all(text.as_bytes()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = String::from_utf8_lossy(&self.tail).chars().map(shown).collect::<String>();
        self.tail.clear();
        unless_closed(self.out.write_all(rest.as_bytes()).and_then(|()| self.out.flush()))
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

fn shown(c: char) -> String {
    if is_hidden(c) && !matches!(c, '\n' | '\t') { c.escape_default().to_string() } else { c.to_string() }
}

/// Returns the filtered text, and how many of `bytes` it covers: an incomplete sequence at the end waits for
/// the rest.
fn screened(bytes: &[u8], styles: bool) -> (String, usize) {
    let (mut text, mut done) = (String::with_capacity(bytes.len()), 0);
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(c) = rest.chars().next() {
            match style(rest).filter(|_| styles && c == '\u{1b}') {
                Some(0) => return (text, done),
                Some(length) => {
                    text += &rest[..length];
                    (rest, done) = (&rest[length..], done + length);
                }
                None => {
                    if is_hidden(c) && !matches!(c, '\n' | '\t') {
                        text.extend(c.escape_default());
                    } else {
                        text.push(c);
                    }
                    (rest, done) = (&rest[c.len_utf8()..], done + c.len_utf8());
                }
            }
        }
        let invalid = chunk.invalid();
        // This may be the start of a character of up to four bytes.
        if !invalid.is_empty() {
            if done + invalid.len() == bytes.len()
                && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none())
            {
                return (text, done);
            }
            text.push(char::REPLACEMENT_CHARACTER);
            done += invalid.len();
        }
    }
    (text, done)
}

/// Returns the length of the style (`ESC [ 1 ; 31 m`) at the start of `text`; 0 if it may be one whose end is
/// still to come.
fn style(text: &str) -> Option<usize> {
    let parameters = match text.strip_prefix("\u{1b}[") {
        Some(parameters) => parameters,
        None => return (text == "\u{1b}").then_some(0),
    };
    match parameters.find(|c: char| !c.is_ascii_digit() && c != ';') {
        Some(end) => parameters[end..].starts_with('m').then_some(2 + end + 1),
        None => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pieces: &[&[u8]], styles: bool) -> String {
        let (mut out, mut tail) = (String::new(), Vec::new());
        for piece in pieces {
            tail.extend_from_slice(piece);
            let (text, done) = screened(&tail, styles);
            tail.drain(..done);
            out += &text;
        }
        out + &String::from_utf8_lossy(&tail).chars().map(shown).collect::<String>()
    }

    #[test]
    fn only_colours_get_out_wherever_the_pieces_end() {
        let text = "a\u{1b}[1;31mb\u{1b}[0m\t\u{202e}c\n\u{1b}]0;x\u{7}\u{1b}[2J\u{200b}é\u{1b}[3".as_bytes();
        let wanted = "a\u{1b}[1;31mb\u{1b}[0m\t\\u{202e}c\n\\u{1b}]0;x\\u{7}\\u{1b}[2J\\u{200b}é\\u{1b}[3";
        for at in 0..=text.len() {
            assert_eq!(through(&[&text[..at], &text[at..]], true), wanted, "{at}");
        }
        assert!(!through(&[text], false).contains('\u{1b}'));
        assert_eq!(through(&[b"a\xff\xc3", b"\xa9\xc3"], true), "a\u{fffd}é\u{fffd}");
    }
}
