//! What `straddle explain` knows besides rules: old partitioning tools, terms, and messages of other programs.
//!
//! Invariants: the text is data (`topics/*.toml`, compiled in), and every topic names its sources. A message is a
//! pattern in that data (`message`); the arithmetic of its numbers (`numbers`) says nothing where they do not decide.

mod message;
mod numbers;
mod search;

use std::collections::HashMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_audit::{RULES, Rule};

pub(crate) use crate::topics::search::{Found, Search, alike, search};

const LONGEST_NAME: usize = 8;

macro_rules! texts {
    ($($name:literal)*) => { &[$(include_str!(concat!("topics/", $name, ".toml"))),*] };
}

const TEXTS: &[&str] = texts! {
    "fdisk" "cfdisk" "parted" "gparted" "gdisk" "windows" "63" "not-aligned" "stacked-start"
    "best-performance" "sector-boundary" "cylinder" "3072-bytes" "33553920" "optimal-transfer" "io-size"
    "gpt-size" "gpt-corrupt" "gpt-signatures" "no-label" "table-overlaps" "overlapping" "too-long"
    "beyond-end" "recursive-partition" "non-gpt" "disk-order" "too-small" "ntfs-sectors" "udf"
    "exfat-checksum" "not-a-sector" "mixed-sectors" "blocks-too-big" "device-size" "image-size"
    "swap-misaligned" "stripes" "torn-log" "oracle-block" "sql-server" "units" "512e" "4kn-boot"
    "reliability" "smart" "read-modify-write" "ashift" "emmc" "ssd" "nvme" "atomic-write" "raid" "lvm"
    "zoned" "cloud" "jumper" "hybrid-mbr" "ldm" "dasd" "multipath" "exceptions"
};

/// Something that is explained: a tool, a term, a number or a message.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topic {
    /// Its name, such as "fdisk".
    pub(crate) name: String,
    /// What the topic is about.
    pub(crate) title: String,
    /// Other names by which the topic is found.
    #[serde(default)]
    pub(crate) words: Vec<String>,
    /// Messages of programs that the topic explains. `{name}` stands for a number, `*` for one or more words.
    #[serde(default)]
    pub(crate) messages: Vec<String>,
    /// What the numbers of these messages mean.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    arithmetic: Option<numbers::Arithmetic>,
    /// The paragraphs of the explanation.
    #[serde(skip_serializing)]
    about: Vec<String>,
    /// What to do where no numbers of a message decide it, a paragraph each.
    #[serde(default, skip_serializing)]
    otherwise: Vec<String>,
    /// What to write to the disk, a paragraph each: left out where a message of the same text forbids it.
    #[serde(default, skip_serializing)]
    writes: Vec<String>,
    /// Where the versions of a tool start partitions; empty if the topic is not a tool.
    #[serde(default, rename(deserialize = "version"))]
    pub(crate) versions: Vec<Version>,
    /// A drawing, in lines of at most 60 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drawing: Option<String>,
    /// The sources of the explanation.
    pub(crate) sources: Vec<String>,
}

/// Where some versions of a tool start partitions.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    /// The versions, such as "2.18 and later".
    pub(crate) of: String,
    /// Where these versions start partitions.
    pub(crate) starts: String,
    /// How to make these versions align partitions.
    pub(crate) right: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Rule(&'static Rule),
    Topic(Explained),
    Question(&'static Question),
}

/// A topic, with what follows from the numbers in the message that was asked about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExplainedTopic")]
pub(crate) struct Explained {
    #[serde(flatten)]
    pub(crate) topic: &'static Topic,
    /// What follows from the numbers in the message that was asked about, in paragraphs; empty if nothing
    /// does.
    pub(crate) numbers: Vec<String>,
    /// The paragraphs of the explanation.
    pub(crate) about: Vec<&'static String>,
}

impl Explained {
    /// Takes from the topic what to write, and what to do where numbers decide nothing, only if that applies.
    fn of(topic: &'static Topic, numbers: Vec<String>, writes: bool, otherwise: bool) -> Self {
        let writes = topic.writes.iter().filter(|_| writes);
        let about = topic.about.iter().chain(writes).chain(topic.otherwise.iter().filter(|_| otherwise));
        Self { topic, numbers, about: about.collect() }
    }
}

impl From<&'static Topic> for Explained {
    fn from(topic: &'static Topic) -> Self {
        Self::of(topic, Vec::new(), true, true)
    }
}

pub(crate) fn all() -> &'static [Topic] {
    static PARSED: OnceLock<Vec<Topic>> = OnceLock::new();
    // A test parses each text, so that none is left out here.
    PARSED.get_or_init(|| TEXTS.iter().filter_map(|text| toml::from_str(text).ok()).collect())
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.code.as_str()).chain(all().iter().map(|topic| topic.name.as_str()))
}

/// The messages in `words`; or else names, of which each may be several words (`3072 bytes`), in one argument or
/// more. The error is the first word that means nothing.
pub(crate) fn subjects(words: &[String]) -> Result<Vec<Subject>, String> {
    // The numbers of a message are not words of their own.
    if !words.iter().any(|word| straddle_audit::rule(word).is_some()) {
        let said = message::explained(&words.join(" "));
        if !said.is_empty() {
            return Ok(said.into_iter().map(Subject::Topic).collect());
        }
    }
    let mut subjects = Vec::new();
    let mut rest = words;
    while let Some(first) = rest.first() {
        let found = (1..=rest.len().min(LONGEST_NAME)).rev().find_map(|count| {
            let (asked, behind) = rest.split_at_checked(count)?;
            Some((subject(&asked.join(" "))?, behind))
        });
        match found {
            Some((subject, behind)) => {
                subjects.push(subject);
                rest = behind;
            }
            None => return Err(first.clone()),
        }
    }
    Ok(subjects)
}

fn subject(asked: &str) -> Option<Subject> {
    static NAMED: OnceLock<HashMap<String, Subject>> = OnceLock::new();
    if let Some(rule) = straddle_audit::rule(asked) {
        return Some(Subject::Rule(rule));
    }
    let named = NAMED.get_or_init(|| {
        let questions = terms().iter().chain(questions());
        let questions = questions.map(|question| (plain(&question.name), Subject::Question(question)));
        let topics = all().iter().flat_map(|topic| {
            let names = [&topic.name].into_iter().chain(&topic.words);
            names.map(move |name| (plain(name), Subject::Topic(topic.into())))
        });
        // A topic comes before a question or term of its name.
        questions.chain(topics).collect()
    });
    named.get(&plain(asked)).cloned()
}

/// Lower case, with single spaces for everything that is neither a letter nor a digit.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

const TEXT: &str = include_str!("../../../docs/faq.md");
const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

/// A question of the FAQ, or a term of the glossary.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Question {
    /// The anchor of the question's heading, such as "zfs-ashift", or the term.
    pub(crate) name: String,
    /// The question, or the term.
    pub(crate) title: String,
    /// The paragraphs of the answer.
    pub(crate) about: Vec<String>,
}

pub(crate) fn questions() -> &'static [Question] {
    static PARSED: OnceLock<Vec<Question>> = OnceLock::new();
    PARSED.get_or_init(|| TEXT.split("\n## ").skip(1).map(question).collect())
}

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
    fn every_text_is_a_topic_with_sources_and_its_own_words() {
        let mut words = Vec::new();
        for text in TEXTS {
            let topic: Topic = toml::from_str(text).unwrap();
            assert!(!topic.about.is_empty() && !topic.sources.is_empty(), "{}", topic.name);
            assert!(topic.drawing.iter().flat_map(|drawing| drawing.lines()).all(|line| line.len() <= 60));
            assert!(topic.arithmetic.is_none() || topic.messages.iter().any(|text| text.contains('{')));
            words.extend([&topic.name].into_iter().chain(&topic.words).map(|word| plain(word)));
        }
        let count = words.len();
        assert!(words.iter().all(|word| word.split(' ').count() <= LONGEST_NAME));
        words.sort();
        words.dedup();
        assert_eq!(words.len(), count, "a word has two meanings: {words:?}");
        assert!(words.iter().all(|word| straddle_audit::rule(word).is_none()));
        assert_eq!(all().len(), TEXTS.len());
    }

    #[test]
    fn words_belong_together_or_not() {
        let named = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let name = |subject: &Subject| match subject {
                Subject::Rule(rule) => rule.code.as_str().to_owned(),
                Subject::Topic(explained) => explained.topic.name.clone(),
                Subject::Question(question) => question.name.clone(),
            };
            subjects(&words).map(|all| all.iter().map(name).collect::<Vec<_>>().join(" "))
        };
        for (words, means) in [
            ("fdisk", "fdisk"),
            ("s001 FDISK", "S001 fdisk"),
            ("3072 bytes", "3072-bytes"),
            ("3072", "3072-bytes"),
            ("4Kn boot S001", "4kn-boot S001"),
            ("4Kn", "4kn-boot"),
            ("Windows XP", "windows"),
            ("512e", "512e"),
            ("USB", "512e"),
            ("SMART reliability", "smart reliability"),
            ("databases", "databases"),
            ("/dev/sdb1 alignment is offset by 512 bytes.", "3072-bytes"),
            ("Partition 1 does not end on cylinder boundary.", "cylinder"),
            ("GPT PMBR size mismatch (1 != 2) will be corrected by write.", "gpt-size"),
            ("[    1.2] sdb: GPT:Alternate GPT header not at the end of the disk.", "gpt-size"),
            ("Alternate GPT is invalid, using primary GPT.", "gpt-corrupt"),
        ] {
            assert_eq!(named(words).as_deref(), Ok(means), "{words}");
        }
        for (words, unknown) in [("S999", "S999"), ("fdisk nothing", "nothing"), ("by", "by"), ("", "")] {
            assert_eq!(named(words), Err(unknown.to_owned()), "{words}");
        }
    }

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
