//! The text after the options of a command's help, as sections of its man page.

use std::fmt::Write;

/// Returns the sections of a man page for `help`, in roff.
///
/// A line that ends with a colon starts a section if indented lines follow it; `Exit status:` may also be
/// followed by its text. Indented lines keep their breaks, all others are filled.
pub(super) fn sections(help: &str) -> String {
    let mut roff = String::new();
    let mut lines = help.lines().peekable();
    let (mut is_open, mut is_verbatim) = (false, false);
    while let Some(line) = lines.next() {
        let next_is_indented = lines.peek().is_some_and(|next| is_indented(next) || is_status(next));
        let heading = line.strip_suffix(':').filter(|_| !is_indented(line) && next_is_indented);
        let (heading, rest) = match (heading, line.split_once(": ")) {
            (Some(heading), _) => (Some(heading), ""),
            (None, Some(("Exit status", rest))) => (Some("Exit status"), rest),
            _ => (None, line),
        };
        let verbatim = is_indented(line) && !is_status(line);
        if is_verbatim && !verbatim {
            roff += ".fi\n.RE\n";
        } else if verbatim && !is_verbatim {
            roff += ".RS 2\n.nf\n";
        }
        is_verbatim = verbatim;
        if heading.is_some() || !is_open {
            let _ = writeln!(roff, ".SH {}", quoted(&heading.unwrap_or("Notes").to_uppercase()));
            is_open = true;
        }
        if let Some((status, meaning)) = status(line) {
            let _ = writeln!(roff, ".TP\n{status}\n{}", escaped(meaning));
        } else if rest.trim().is_empty() {
            roff += if heading.is_none() && !is_verbatim { ".PP\n" } else { "" };
        } else {
            let rest = if verbatim { rest.strip_prefix("  ").unwrap_or(rest) } else { rest };
            let rest = if rest.len() < line.len() && heading.is_some() {
                capitalised(rest)
            } else {
                rest.to_owned()
            };
            let _ = writeln!(roff, "{}", escaped(&rest));
        }
    }
    if is_verbatim {
        roff += ".fi\n.RE\n";
    }
    roff
}

/// Returns the text after a heading on the same line, as a sentence.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ") && !line.trim().is_empty()
}

fn is_status(line: &str) -> bool {
    status(line).is_some()
}

/// Returns an exit status and its meaning, from a line such as `  0  success`.
fn status(line: &str) -> Option<(u8, &str)> {
    let (number, meaning) = line.trim_start().split_once("  ")?;
    Some((number.parse().ok()?, meaning.trim_start()))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text).replace('"', "\\(dq"))
}

/// Escapes what roff would interpret.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::sections;

    #[test]
    fn headings_examples_and_statuses_become_sections() {
        let help = "Examples:\n  a --b 'c'   \\\n  d\n\nText that\nis filled.\n\nExit status:\n  0  fine\n130  interrupted\n\nMore: or less.";
        let expected = ".SH \"EXAMPLES\"\n.RS 2\n.nf\na \\-\\-b \\(aqc\\(aq   \\e\nd\n.fi\n.RE\n.PP\nText that\nis filled.\n.PP\n\
                        .SH \"EXIT STATUS\"\n.TP\n0\nfine\n.TP\n130\ninterrupted\n.PP\nMore: or less.\n";
        assert_eq!(sections(help), expected);
        assert_eq!(sections("Exit status: that of\nit"), ".SH \"EXIT STATUS\"\nThat of\nit\n");
        assert_eq!(sections("Of a text\n"), ".SH \"NOTES\"\nOf a text\n");
        assert_eq!(sections(""), "");
    }
}
