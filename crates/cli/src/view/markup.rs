//! Text in markup, for SVG files and pages.

use std::time::SystemTime;

use straddle_device::shown::{is_hidden, quote};
use straddle_measure::real::format_moment;

use crate::hostname;

/// Says what each page and drawing says of itself: which version made it, on which host, when, and by which command.
pub(crate) fn made() -> String {
    let words = std::env::args_os().skip(1).map(|word| quote(&word.to_string_lossy()));
    let command = ["straddle".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    let host = hostname::own().map(|host| format!(" on {host}")).unwrap_or_default();
    let (version, now) = (env!("CARGO_PKG_VERSION"), format_moment(SystemTime::now()));
    format!("Made by straddle {version}{host}, {now}: {command}")
}

/// Escapes `text` for markup, so that the parser finds none in it. Hidden characters, line breaks included,
/// become blanks: most of them are not allowed in XML 1.0, even as a reference.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            hidden if is_hidden(hidden) => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
