//! Results as text for people, one module per command, and what they share: tables and wrapped lines.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod copy;
pub mod drive;
mod finding;
pub(crate) mod fleet;
mod number;
mod partitions;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod realign;
pub(crate) mod record;
pub(crate) mod sim;
mod table;
pub(crate) mod topic;
mod topology;
pub(crate) mod trace;
pub(crate) mod tree;

use anstyle::Style;
use straddle_audit::Severity;
use textwrap::WordSplitter;

use crate::output::{self, style};
pub(crate) use check::{lines, map, summary, target};
pub(crate) use number::clock;
pub use number::{duration, number, percent};
pub(crate) use table::narrowed;
pub use table::{folded, headed, plain_table, right, trimmed};

/// Wraps `text` into lines of the width of stdout, each after `indent`.
pub fn wrap(text: &str, indent: &str) -> String {
    wrap_after(text, indent, indent)
}

/// As `wrap`, with a different indent before the first line.
pub(crate) fn wrap_after(text: &str, first: &str, indent: &str) -> String {
    wrap_to(output::width(), text, first, indent)
}

/// As `wrap_after`, for lines of at most `width`.
pub(crate) fn wrap_to(width: usize, text: &str, first: &str, indent: &str) -> String {
    let options = textwrap::Options::new(width).initial_indent(first).subsequent_indent(indent);
    // Sizes such as 4096-byte, and shares such as 50.0 %, stay whole.
    let joined = text.replace(" %", "\u{a0}%");
    textwrap::fill(&joined, options.break_words(false).word_splitter(WordSplitter::NoHyphenation))
        .replace("\u{a0}%", " %")
}

pub(crate) fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Error => style::ERROR,
        Severity::Warning => style::WARNING,
        Severity::Advice => style::ADVICE,
    }
}
