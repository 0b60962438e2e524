//! Text in markup, for SVG files and pages.

use straddle_device::shown::is_hidden;

/// What the head of each page has, and what each drawing says of itself: by these they are known as made by this program.
pub(crate) const GENERATOR: &str = "<meta name=\"generator\" content=\"straddle\">";
pub(crate) const MADE_BY: &str = "Made by straddle.";

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
