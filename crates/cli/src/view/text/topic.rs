//! A topic of `straddle explain` as text.

use std::fmt::Write;

use crate::output::{Styles, paint};
use crate::topics::Topic;
use crate::view::text::{wrap, wrap_after};

/// Returns the explanation in full, for a terminal of `width` characters.
pub(crate) fn topic(topic: &Topic, width: usize, styles: Styles) -> String {
    let heading = |text: &str| paint(styles.heading, text);
    let mut text = format!("{}\n", heading(&wrap_after(&topic.title, width, "", "  ")));
    for paragraph in &topic.about {
        let _ = write!(text, "\n{}\n", wrap(paragraph, width, "  "));
    }
    for (index, line) in topic.drawing.iter().flat_map(|drawing| drawing.lines()).enumerate() {
        text += if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{}", format!("  {line}").trim_end());
    }
    for version in &topic.versions {
        let _ = writeln!(text, "\n{}", heading(&wrap_after(&version.of, width, "", "  ")));
        let _ = writeln!(
            text,
            "{}",
            wrap_after(&format!("starts  {}", version.starts), width, "  ", "          ")
        );
        let _ = writeln!(
            text,
            "{}",
            wrap_after(&format!("right   {}", version.right), width, "  ", "          ")
        );
    }
    let _ = write!(text, "\n{}\n", heading("Sources"));
    for source in &topic.sources {
        let _ = writeln!(text, "{}", wrap_after(source, width, "  ", "    "));
    }
    text
}
