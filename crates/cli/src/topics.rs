//! What `straddle explain` knows besides rules: old partitioning tools, and words and numbers of messages.
//!
//! The law of this module: the text is data (`topics/*.toml`, compiled in), and every topic names its sources.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_audit::{RULES, Rule};

/// The topics, in the order in which they are listed.
const TEXTS: [&str; 14] = [
    include_str!("topics/fdisk.toml"),
    include_str!("topics/cfdisk.toml"),
    include_str!("topics/parted.toml"),
    include_str!("topics/gparted.toml"),
    include_str!("topics/gdisk.toml"),
    include_str!("topics/windows.toml"),
    include_str!("topics/63.toml"),
    include_str!("topics/cylinder.toml"),
    include_str!("topics/3072-bytes.toml"),
    include_str!("topics/33553920.toml"),
    include_str!("topics/units.toml"),
    include_str!("topics/4kn-boot.toml"),
    include_str!("topics/reliability.toml"),
    include_str!("topics/smart.toml"),
];

/// Something that is explained: a tool, a word or a number.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topic {
    /// Its name, such as "fdisk".
    pub(crate) name: String,
    /// What it is about.
    pub(crate) title: String,
    /// Other names, and phrases of messages that are about it.
    pub(crate) words: Vec<String>,
    /// The explanation, a paragraph each.
    pub(crate) about: Vec<String>,
    /// For a tool: where its versions start partitions.
    #[serde(default, rename(deserialize = "version"))]
    pub(crate) versions: Vec<Version>,
    /// A drawing, in lines of at most 60 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drawing: Option<String>,
    /// The sources of these statements.
    pub(crate) sources: Vec<String>,
}

/// Where versions of a tool start partitions.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    /// The versions.
    pub(crate) of: String,
    /// Where they start partitions.
    pub(crate) starts: String,
    /// How to make them start partitions right.
    pub(crate) right: String,
}

/// What a user can ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// A rule of the audit.
    Rule(&'static Rule),
    /// Something else.
    Topic(&'static Topic),
}

/// Returns every topic.
pub(crate) fn all() -> &'static [Topic] {
    static PARSED: OnceLock<Vec<Topic>> = OnceLock::new();
    // A test parses each text, so that none is left out here.
    PARSED.get_or_init(|| TEXTS.iter().filter_map(|text| toml::from_str(text).ok()).collect())
}

/// Returns the names that are worth completing: the codes of rules and the names of topics.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.code.as_str()).chain(all().iter().map(|topic| topic.name.as_str()))
}

/// Returns what `words` ask for. Words that belong together (`3072 bytes`) may be one argument or several, and a
/// whole message may be given. The error is the first word that means nothing.
pub(crate) fn subjects(words: &[String]) -> Result<Vec<Subject>, String> {
    let mut subjects = Vec::new();
    let mut rest = words;
    while let Some(first) = rest.first() {
        let found = (1..=rest.len()).rev().find_map(|count| {
            let (asked, behind) = rest.split_at_checked(count)?;
            Some((subject(&asked.join(" "))?, behind))
        });
        match found {
            Some((subject, behind)) => {
                subjects.push(subject);
                rest = behind;
            }
            None => {
                return quoted(words).map(|topic| vec![Subject::Topic(topic)]).ok_or_else(|| first.clone());
            }
        }
    }
    Ok(subjects)
}

fn subject(asked: &str) -> Option<Subject> {
    let by_code = straddle_audit::rule(asked).map(Subject::Rule);
    let asked = plain(asked);
    let is_meant =
        |topic: &&Topic| plain(&topic.name) == asked || topic.words.iter().any(|word| plain(word) == asked);
    by_code.or_else(|| all().iter().find(is_meant).map(Subject::Topic))
}

/// Returns the topic of a message: one whose phrase of several words is in it.
fn quoted(words: &[String]) -> Option<&'static Topic> {
    let message = format!(" {} ", plain(&words.join(" ")));
    let is_in = |phrase: &String| {
        let phrase = plain(phrase);
        phrase.split(' ').count() > 2 && message.contains(&format!(" {phrase} "))
    };
    all().iter().find(|topic| topic.words.iter().any(is_in))
}

/// Lower case, with single spaces for everything that is neither a letter nor a digit.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
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
            words.extend([&topic.name].into_iter().chain(&topic.words).map(|word| plain(word)));
        }
        let count = words.len();
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
                Subject::Topic(topic) => topic.name.clone(),
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
            ("SMART reliability", "smart reliability"),
            ("/dev/sdb1 alignment is offset by 512 bytes.", "3072-bytes"),
            ("Partition 1 does not end on cylinder boundary.", "cylinder"),
        ] {
            assert_eq!(named(words).as_deref(), Ok(means), "{words}");
        }
        for (words, unknown) in [("S999", "S999"), ("fdisk nothing", "nothing"), ("by", "by"), ("", "")] {
            assert_eq!(named(words), Err(unknown.to_owned()), "{words}");
        }
    }
}
