//! The questions of docs/faq.md and the terms of docs/glossary.md, as `straddle explain` prints them.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;

const TEXT: &str = include_str!("../../../../docs/faq.md");
const GLOSSARY: &str = include_str!("../../../../docs/glossary.md");

/// A question of the FAQ, or a term of the glossary.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Question {
    /// The name of its heading, such as "zfs-ashift".
    pub(crate) name: String,
    /// The question.
    pub(crate) title: String,
    /// The answer, a paragraph each.
    pub(crate) about: Vec<String>,
}

pub(crate) fn questions() -> &'static [Question] {
    static PARSED: OnceLock<Vec<Question>> = OnceLock::new();
    PARSED.get_or_init(|| TEXT.split("\n## ").skip(1).map(question).collect())
}

/// Returns the terms of the glossary, also those that share an entry: `512n, 512e, 4Kn`.
pub(crate) fn terms() -> &'static [Question] {
    static PARSED: OnceLock<Vec<Question>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let entries = GLOSSARY.split("\n- **").skip(1).filter_map(|entry| entry.split_once("**: "));
        let named = entries.flat_map(|(terms, meaning)| terms.split(", ").map(move |term| (term, meaning)));
        let term = |(term, meaning): (&str, &str)| Question {
            name: term.split(" (").next().unwrap_or(term).to_owned(),
            title: term.to_owned(),
            about: vec![unmarked(meaning)],
        };
        named.map(term).collect()
    })
}

fn question(section: &str) -> Question {
    let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
    let named = heading.trim_end().strip_suffix('}').and_then(|heading| heading.split_once(" {#"));
    let (title, name) = match named {
        Some((title, name)) => (title, name.to_owned()),
        None => (heading, anchor(heading)),
    };
    let about = body.replace("\n- ", "\n\n- ");
    let about = about.split("\n\n").map(unmarked).filter(|paragraph| !paragraph.is_empty());
    Question { name, title: unmarked(title), about: about.collect() }
}

/// Returns the name that mdBook gives a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    };
    heading.chars().filter_map(kept).collect()
}

/// Returns Markdown as a line of text: links as what they are called, and no marks.
fn unmarked(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some(at) = rest.find("](") {
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        let (before, named) = rest[..at].rsplit_once('[').unwrap_or((&rest[..at], ""));
        text = text + before + named;
        rest = &rest[end..];
    }
    text += rest;
    text.replace(['`', '*'], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_of_the_glossary_has_a_name_and_a_meaning() {
        let names: Vec<&str> = terms().iter().map(|term| term.name.as_str()).collect();
        assert!(
            ["512n", "4Kn", "read-modify-write", "stripe", "marker"].iter().all(|name| names.contains(name))
        );
        assert!(GLOSSARY.lines().filter(|line| line.starts_with("- **")).count() <= 30, "{names:?}");
        assert!(terms().iter().all(|term| !term.about[0].is_empty() && !term.about[0].contains("**")));
    }

    #[test]
    fn every_heading_is_a_question_with_an_answer_without_marks() {
        let headings = TEXT.lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!(questions().len(), headings);
        for question in questions() {
            let text = format!("{} {}", question.title, question.about.join(" "));
            assert!(!question.about.is_empty() && !question.name.is_empty(), "{text}");
            assert!(!text.contains("](") && !text.contains('`') && !text.contains("{#"), "{text}");
        }
        let names: Vec<&str> = questions().iter().map(|question| question.name.as_str()).collect();
        assert!(names.contains(&"zfs-ashift") && names.contains(&"is-sector-2048-always-right"), "{names:?}");
        assert_eq!(unmarked("see [S001](rules/a.md#S001),\n`x` and **y**."), "see S001, x and y.");
    }
}
