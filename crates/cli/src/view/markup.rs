//! Text in markup: in SVG files and in pages.

use straddle_device::shown::is_hidden;

/// `text` where markup is read: it says what it said, and nothing to the parser. What is hidden (line breaks too) becomes a
/// blank: most of it is not allowed in XML 1.0, even as a reference.
pub(crate) fn escaped(text: &str) -> String {
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
