//! Topics and questions of `straddle explain` as text.

use std::fmt::Write;

use crate::output::{paint, style};
use crate::topics::{Explained, Question};
use crate::view::text::{wrap, wrap_after};

/// Returns a heading, and below it the paragraphs.
fn headed<'a>(title: &str, paragraphs: impl Iterator<Item = &'a String>) -> String {
    let mut text = format!("{}\n", paint(style::HEADING, &wrap_after(title, "", "  ")));
    for paragraph in paragraphs {
        let _ = write!(text, "\n{}\n", wrap(paragraph, "  "));
    }
    text
}

pub(crate) fn question(question: &Question) -> String {
    headed(&question.title, question.about.iter())
}

/// Returns the explanation in full: first what the numbers of the message come to.
pub(crate) fn topic(explained: &Explained) -> String {
    let heading = |text: &str| paint(style::HEADING, text);
    let topic = explained.topic;
    let mut text = headed(&topic.title, explained.numbers.iter().chain(explained.about()));
    for (index, line) in topic.drawing.iter().flat_map(|drawing| drawing.lines()).enumerate() {
        text += if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{}", format!("  {line}").trim_end());
    }
    for version in &topic.versions {
        let _ = writeln!(text, "\n{}", heading(&wrap_after(&version.of, "", "  ")));
        let _ = writeln!(text, "{}", wrap_after(&format!("starts  {}", version.starts), "  ", "          "));
        let _ = writeln!(text, "{}", wrap_after(&format!("right   {}", version.right), "  ", "          "));
    }
    let _ = write!(text, "\n{}\n", heading("Sources"));
    for source in &topic.sources {
        let _ = writeln!(text, "{}", wrap_after(source, "  ", "    "));
    }
    text
}
