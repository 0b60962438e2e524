//! What `straddle explain` knows besides rules: old partitioning tools, and words and numbers of messages.
//!
//! The law of this module: the text is data (`topics/*.toml`, compiled in), and every topic names its sources.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_audit::{RULES, Rule};
use straddle_drive::Profile;

/// The topics, in the order in which they are listed.
const TEXTS: [&str; 27] = [
    include_str!("topics/fdisk.toml"),
    include_str!("topics/cfdisk.toml"),
    include_str!("topics/parted.toml"),
    include_str!("topics/gparted.toml"),
    include_str!("topics/gdisk.toml"),
    include_str!("topics/windows.toml"),
    include_str!("topics/63.toml"),
    include_str!("topics/not-aligned.toml"),
    include_str!("topics/best-performance.toml"),
    include_str!("topics/sector-boundary.toml"),
    include_str!("topics/cylinder.toml"),
    include_str!("topics/3072-bytes.toml"),
    include_str!("topics/33553920.toml"),
    include_str!("topics/io-size.toml"),
    include_str!("topics/gpt-size.toml"),
    include_str!("topics/gpt-corrupt.toml"),
    include_str!("topics/disk-order.toml"),
    include_str!("topics/blocks-too-big.toml"),
    include_str!("topics/device-size.toml"),
    include_str!("topics/units.toml"),
    include_str!("topics/512e.toml"),
    include_str!("topics/4kn-boot.toml"),
    include_str!("topics/reliability.toml"),
    include_str!("topics/smart.toml"),
    include_str!("topics/read-modify-write.toml"),
    include_str!("topics/ashift.toml"),
    include_str!("topics/emmc.toml"),
];

/// Something that is explained: a tool, a word or a number.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topic {
    /// Its name, such as "fdisk".
    pub(crate) name: String,
    /// What it is about.
    pub(crate) title: String,
    /// Other names, and phrases of messages that are about it, in which the numbers stand for any.
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
    // The numbers of a message are not words of their own.
    let has_code = words.iter().any(|word| straddle_audit::rule(word).is_some());
    if let Some(topic) = quoted(words).filter(|_| !has_code) {
        return Ok(vec![Subject::Topic(topic)]);
    }
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
            None => return Err(first.clone()),
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

/// Returns the topic of a message: one whose phrase of several words is in it, whatever the numbers are. Of several
/// the longest decides.
fn quoted(words: &[String]) -> Option<&'static Topic> {
    let message = format!(" {} ", numberless(&words.join(" ")));
    let length = |phrase: &String| {
        let phrase = numberless(phrase);
        let is_in = phrase.split(' ').count() > 2 && message.contains(&format!(" {phrase} "));
        if is_in { phrase.len() } else { 0 }
    };
    let longest = |topic: &'static Topic| (topic.words.iter().map(length).max().unwrap_or(0), topic);
    let (length, topic) = all().iter().map(longest).rev().max_by_key(|(length, _)| *length)?;
    (length > 0).then_some(topic)
}

/// Returns a message in plain words, with one word for every number, with or without a unit.
fn numberless(text: &str) -> String {
    let plain = plain(text);
    let words =
        plain.split(' ').map(|word| if word.starts_with(|c: char| c.is_ascii_digit()) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the shipped drive whose name is among the words, as a drive reports it or as it is modelled:
/// `WDC WD10EARS-00Y5B1`.
pub(crate) fn drive(words: &[String]) -> Option<&'static str> {
    let is_of = |word: &str, name: &str| {
        let rest = word.strip_prefix("drive:").unwrap_or(word).strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ',']))
    };
    let lower = words.join(" ").to_lowercase();
    lower.split_whitespace().find_map(|word| Profile::names().find(|name| is_of(word, name)))
}

/// How alike two words are for one to be suggested for the other, of 1.
const ALIKE: f64 = 0.84;

/// The most suggestions.
const SUGGESTED: usize = 3;

/// Returns the names of what words may be meant for, the most likely first: those that are spelt much alike, and topics
/// of messages with most of the same words.
pub(crate) fn alike(words: &[String]) -> Vec<&'static str> {
    let asked = plain(&words.join(" "));
    let spelt = |name: &str| {
        let name = plain(name);
        let of_word = |word: &str| strsim::jaro_winkler(word, &name);
        asked.split(' ').filter(|word| word.len() > 2).map(of_word).fold(of_word(&asked), f64::max)
    };
    let of_topic = |topic: &'static Topic| {
        let names = [&topic.name].into_iter().chain(&topic.words);
        let best = names.map(|name| spelt(name).max(shared(&asked, name))).fold(0.0, f64::max);
        (best, topic.name.as_str())
    };
    let named = RULES.iter().map(|rule| rule.code.as_str()).chain(Profile::names());
    let mut found: Vec<(f64, &'static str)> =
        named.map(|name| (spelt(name), name)).chain(all().iter().map(of_topic)).collect();
    found.retain(|(likeness, _)| *likeness >= ALIKE);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, name)| name).take(SUGGESTED).collect()
}

/// Returns how alike a message is to a phrase, by the share of the phrase's words that it has: at least two thirds
/// count as alike.
fn shared(asked: &str, phrase: &str) -> f64 {
    let (asked, phrase) = (numberless(asked), numberless(phrase));
    let has: Vec<&str> = asked.split(' ').collect();
    let (all, found) = phrase
        .split(' ')
        .fold((0_u32, 0_u32), |(all, found), word| (all + 1, found + u32::from(has.contains(&word))));
    let is_alike = all > 3 && 3 * found >= 2 * all;
    if is_alike { ALIKE.max(f64::from(found) / f64::from(all)) } else { 0.0 }
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
            ("512e", "512e"),
            ("USB", "512e"),
            ("SMART reliability", "smart reliability"),
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
    fn near_misses_are_suggested_and_drives_are_found() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (asked, name) in [
            ("fdsik", "fdisk"),
            ("S0001", "S001"),
            ("windos", "windows"),
            ("wd10eras", "wd10ears"),
            ("the partition is not properly aligned for performance", "best-performance"),
        ] {
            assert!(alike(&words(asked)).contains(&name), "{asked}: {:?}", alike(&words(asked)));
        }
        assert!(alike(&words("xyzzy")).is_empty() && alike(&words("")).is_empty());
        for (asked, name) in [
            ("WD10EARS", Some("wd10ears")),
            ("WDC WD10EARS-00Y5B1", Some("wd10ears")),
            ("drive:wd10ears,jumper=on", Some("wd10ears")),
            ("WD10EARX", None),
            ("", None),
        ] {
            assert_eq!(drive(&words(asked)), name, "{asked}");
        }
    }
}
