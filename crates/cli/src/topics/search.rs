//! Words that name nothing: where they stand in the rules, the topics and the FAQ, and names that are spelt alike.

use std::sync::OnceLock;

use straddle_audit::RULES;

use crate::topics::{Subject, all, plain, questions};

const MAX_FOUND: usize = 9;

/// The most words that are searched for, and the longest: no text has longer ones, and more decide no better.
const MOST_WORDS: usize = 24;
const LONGEST_WORD: usize = 40;

const COMMON: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "does", "for",
    "from", "has", "have", "how", "i", "if", "in", "is", "it", "its", "me", "my", "no", "not", "of", "on",
    "or", "should", "so", "that", "the", "there", "this", "to", "was", "what", "when", "which", "why",
    "will", "with", "you",
];

#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) subject: Subject,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
}

struct Document {
    found: Found,
    /// The words of its name and title, and of what else it is called.
    names: Vec<String>,
    text: Vec<String>,
}

fn split(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let words = |text: &str| plain(text).split(' ').map(str::to_owned).collect::<Vec<_>>();
    texts.into_iter().flat_map(|text| words(text.as_ref())).collect()
}

fn documents() -> &'static [Document] {
    static DOCUMENTS: OnceLock<Vec<Document>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let rules = RULES.iter().map(|rule| Document {
            found: Found { subject: Subject::Rule(rule), name: rule.code.as_str(), title: &rule.title },
            names: split([rule.code.as_str(), &rule.title]),
            text: split([&rule.what, &rule.why, &rule.cost, &rule.fix]),
        });
        let topics = all().iter().map(|topic| Document {
            found: Found { subject: Subject::Topic(topic.into()), name: &topic.name, title: &topic.title },
            names: split([&topic.name, &topic.title].into_iter().chain(&topic.words).chain(&topic.messages)),
            text: split(topic.about.iter().chain(&topic.writes).chain(&topic.otherwise)),
        });
        let questions = questions().iter().map(|question| Document {
            found: Found {
                subject: Subject::Question(question),
                name: &question.name,
                title: &question.title,
            },
            names: split([&question.name, &question.title]),
            text: split(&question.about),
        });
        topics.chain(questions).chain(rules).collect()
    })
}

/// Whether a word of a text is the one asked for, in another form perhaps.
fn is_form(word: &str, asked: &str) -> bool {
    let stem = asked.strip_suffix('s').filter(|stem| stem.len() > 3).unwrap_or(asked);
    word == asked || (stem.len() > 3 && word.starts_with(stem))
}

fn asked(words: &[String]) -> Vec<String> {
    let all = words.iter().flat_map(|word| word.split(|c: char| !c.is_alphanumeric()));
    let all = all.filter(|word| (2..=LONGEST_WORD).contains(&word.len())).map(str::to_lowercase);
    all.filter(|word| !COMMON.contains(&word.as_str())).take(MOST_WORDS).collect()
}

pub(crate) struct Search {
    /// What has the most of the words, the best first.
    pub(crate) found: Vec<&'static Found>,
    pub(crate) all: bool,
}

/// Returns the best of what has all of the words; if nothing has, of what has the most of them, and a third at least.
pub(crate) fn search(words: &[String]) -> Search {
    let mut search = best(words);
    search.found.truncate(MAX_FOUND);
    search
}

fn best(words: &[String]) -> Search {
    let mut asked = asked(words);
    asked.sort();
    asked.dedup();
    if asked.iter().any(|word| !word.starts_with(|c: char| c.is_ascii_digit())) {
        // Other numbers stand in the same message elsewhere, but for those that name a topic.
        asked.retain(|word| word.parse::<u64>().is_err() || super::subject(word).is_some());
    }
    let has = |words: &[String], asked: &str| words.iter().any(|word| is_form(word, asked));
    // A word counts for the more, the fewer texts have it, and three times where it is part of a name.
    let mut ranked = vec![(0_usize, 0_usize); documents().len()];
    for word in &asked {
        let points: Vec<usize> = documents()
            .iter()
            .map(|document| match (has(&document.names, word), has(&document.text, word)) {
                (true, _) => 3,
                (false, true) => 1,
                (false, false) => 0,
            })
            .collect();
        let common = points.iter().filter(|points| **points > 0).count();
        for (rank, points) in ranked.iter_mut().zip(points) {
            rank.0 += usize::from(points > 0);
            rank.1 += points * 1000 / common.max(1);
        }
    }
    let most = ranked.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let mut found: Vec<(usize, &Found)> = documents()
        .iter()
        .zip(ranked)
        .filter(|(_, (count, _))| *count > 0 && *count == most && 3 * most >= asked.len())
        .map(|(document, (_, points))| (points, &document.found))
        .collect();
    found.sort_by_key(|(points, _)| std::cmp::Reverse(*points));
    Search { found: found.into_iter().map(|(_, found)| found).collect(), all: most == asked.len() }
}

/// How alike two words are for one to be suggested for the other, of 1.
const ALIKE: f64 = 0.84;

const SUGGESTED: usize = 3;

/// Returns the names that the words, or one of them, are spelt much like, the most likely first.
pub(crate) fn alike(words: &[String]) -> Vec<&'static str> {
    let mut spellings = asked(words);
    if words.len() <= MOST_WORDS {
        spellings.push(plain(&words.join(" ")));
    }
    spellings.retain(|word| (3..=LONGEST_WORD).contains(&word.len()));
    let spelt = |name: &str| {
        let name = plain(name);
        spellings.iter().map(|word| strsim::jaro_winkler(word, &name)).fold(0.0, f64::max)
    };
    let of_topic = |topic: &'static super::Topic| {
        let names = [&topic.name].into_iter().chain(&topic.words);
        (names.map(|name| spelt(name)).fold(0.0, f64::max), topic.name.as_str())
    };
    let codes = RULES.iter().map(|rule| rule.code.as_str());
    let mut found: Vec<(f64, &'static str)> =
        codes.map(|code| (spelt(code), code)).chain(all().iter().map(of_topic)).collect();
    found.retain(|(likeness, name)| *likeness >= ALIKE && !spellings.contains(&plain(name)));
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, name)| name).take(SUGGESTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn near_misses_are_suggested() {
        for (asked, name) in [("fdsik", "fdisk"), ("S0001", "S001"), ("windos", "windows")] {
            assert!(alike(&words(asked)).contains(&name), "{asked}: {:?}", alike(&words(asked)));
        }
        assert!(alike(&words("xyzzy")).is_empty() && alike(&words("")).is_empty());
    }

    /// Whatever word stands in a rule, a topic or the FAQ, the search finds it there.
    #[test]
    fn every_word_is_found_where_it_stands() {
        let mut count = 0;
        for document in documents() {
            for word in document.names.iter().chain(&document.text).step_by(7) {
                if word.len() < 2 || COMMON.contains(&word.as_str()) {
                    continue;
                }
                let Search { found, all } = best(std::slice::from_ref(word));
                let is_there = |found: &&Found| std::ptr::eq(*found, &document.found);
                assert!(all && found.iter().any(is_there), "{word} of {}", document.found.name);
                count += 1;
            }
        }
        assert!(count > 1000, "{count}");
    }

    #[test]
    fn a_rare_word_and_a_name_come_first() {
        for (asked, name) in [
            ("fastboot", "image-size"),
            ("hibernated", "windows-dual-boot"),
            ("the partition is not properly aligned for performance", "best-performance"),
            ("postgresql", "databases"),
            ("jumper pins", "jumper"),
        ] {
            let Search { found, all } = search(&words(asked));
            assert_eq!((found.first().map(|found| found.name), all), (Some(name), true), "{asked}");
        }
        // What has not all of the words has most of them.
        for (asked, name) in [("ssd xyzzy", "ssd"), ("xyzzy jumper pins", "jumper")] {
            let Search { found, all } = search(&words(asked));
            assert_eq!((found.first().map(|found| found.name), all), (Some(name), false), "{asked}");
        }
        assert!(search(&words("of the")).found.is_empty() && search(&words("xyzzy")).found.is_empty());
        assert!(search(&words("aaa bbbb cccc ssd")).found.is_empty());
    }
}
