//! Messages of other programs: which topic a text quotes, and the numbers in it.

use std::sync::OnceLock;

use super::numbers::Numbers;
use super::{Explained, Topic, all};

/// The most words that a `*` stands for.
const MOST_WORDS: usize = 12;

/// A part of a pattern.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// This word.
    Word(String),
    /// A number, and its name.
    Number(String),
    /// One or more words.
    Words,
}

/// A message as a pattern.
#[derive(Debug)]
struct Pattern {
    topic: &'static Topic,
    parts: Vec<Part>,
}

impl Pattern {
    fn of(topic: &'static Topic, text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '*']) {
            let (before, behind) = rest.split_at(at);
            parts.extend(words(before).map(Part::Word));
            let end = behind.find('}').filter(|_| behind.starts_with('{')).unwrap_or(0);
            parts.push(if end == 0 { Part::Words } else { Part::Number(behind[1..end].to_owned()) });
            rest = &behind[end + 1..];
        }
        parts.extend(words(rest).map(Part::Word));
        Self { topic, parts }
    }

    /// How much of a message it fixes: of two with the same words, the one with more numbers.
    fn weight(&self) -> usize {
        let length = |part: &Part| match part {
            Part::Word(word) => word.len() + 1,
            Part::Number(_) => 2,
            Part::Words => 1,
        };
        self.parts.iter().map(length).sum()
    }
}

/// Returns the words of a text, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase();
    let words: Vec<String> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

fn patterns() -> &'static [Pattern] {
    static PATTERNS: OnceLock<Vec<Pattern>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        let of = |topic: &'static Topic| topic.messages.iter().map(move |text| Pattern::of(topic, text));
        let mut patterns: Vec<Pattern> = all().iter().flat_map(of).collect();
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.weight()));
        patterns
    })
}

/// Returns how many of the first words `parts` match, and adds the numbers among them.
fn matched(parts: &[Part], said: &[String], numbers: &mut Numbers) -> Option<usize> {
    let Some((part, rest)) = parts.split_first() else { return Some(0) };
    match part {
        Part::Word(word) => {
            let behind = said.split_first().filter(|(first, _)| *first == word)?.1;
            Some(1 + matched(rest, behind, numbers)?)
        }
        Part::Number(name) => {
            let (first, behind) = said.split_first()?;
            if !first.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let used = matched(rest, behind, numbers)?;
            numbers.add(name, first);
            Some(1 + used)
        }
        Part::Words => (1..=MOST_WORDS.min(said.len()))
            .find_map(|count| Some(count + matched(rest, &said[count..], numbers)?)),
    }
}

/// Returns the topics of the messages in `text`, in their order. Where patterns overlap, the longest counts.
pub(super) fn explained(text: &str) -> Vec<Explained> {
    let mut said: Vec<String> = words(text).collect();
    let mut found: Vec<(usize, Explained)> = Vec::new();
    for pattern in patterns() {
        let at = |start: usize| {
            let mut numbers = Numbers::default();
            let used = matched(&pattern.parts, &said[start..], &mut numbers)?;
            Some((start, used, numbers))
        };
        let Some((start, used, numbers)) = (0..said.len()).find_map(at) else { continue };
        // An empty word is in no pattern.
        said[start..start + used].iter_mut().for_each(String::clear);
        let topic = pattern.topic;
        let numbers = topic.arithmetic.map_or_else(Vec::new, |arithmetic| arithmetic.explain(&numbers));
        match found.iter_mut().find(|(_, known)| std::ptr::eq(known.topic, topic)) {
            Some((_, known)) => known.numbers.extend(numbers),
            None => found.push((start, Explained { topic, numbers })),
        }
    }
    found.sort_by_key(|(start, _)| *start);
    for (_, explained) in &mut found {
        let mut seen = Vec::new();
        explained.numbers.retain(|line| {
            !seen.contains(line) && {
                seen.push(line.clone());
                true
            }
        });
    }
    found.into_iter().map(|(_, explained)| explained).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_words_numbers_and_gaps() {
        let pattern = Pattern::of(&all()[0], "Warning: Device * is off by {past} bytes (max {})");
        let word = |word: &str| Part::Word(word.to_owned());
        let number = |name: &str| Part::Number(name.to_owned());
        let parts = [
            word("warning"),
            word("device"),
            Part::Words,
            word("is"),
            word("off"),
            word("by"),
            number("past"),
            word("bytes"),
            word("max"),
            number(""),
        ];
        assert_eq!(pattern.parts, parts);
        let of = |text: &str| {
            let said: Vec<String> = words(text).collect();
            let mut numbers = Numbers::default();
            matched(&pattern.parts, &said, &mut numbers).map(|used| (used, numbers.get("past")))
        };
        let said = "Warning: Device /dev/mapper/a-b is off by 512 bytes (max 4096B).";
        assert_eq!(of(said), Some((13, Some(512))));
        assert_eq!(of(&said.replace("512", "some")), None);
        assert_eq!(of(&said.replace("/dev/mapper/a-b", "")), None);
    }

    #[test]
    fn every_message_is_found_by_its_own_text() {
        for topic in all() {
            for text in &topic.messages {
                let parts = Pattern::of(topic, text).parts;
                assert!(parts.len() > 1, "{text}: too short to be a message");
                let said = parts.iter().map(|part| match part {
                    Part::Word(word) => word.as_str(),
                    Part::Number(_) => "4096",
                    Part::Words => "xyzzy",
                });
                let said = said.collect::<Vec<_>>().join(" ");
                let names: Vec<&str> =
                    explained(&said).iter().map(|found| found.topic.name.as_str()).collect();
                assert_eq!(names, [&topic.name], "{text}");
            }
        }
    }

    #[test]
    fn messages_of_a_longer_text_are_each_explained_once() {
        let text = "Disk x: 64 MiB\nSector size (logical/physical): 512 bytes / 4096 bytes\n\
                    I/O size (minimum/optimal): 4096 bytes / 4096 bytes\n\
                    Partition 1 does not start on physical sector boundary.\n\
                    Partition 2 does not start on physical sector boundary.";
        let names: Vec<&str> = explained(text).iter().map(|found| found.topic.name.as_str()).collect();
        assert_eq!(names, ["io-size", "not-aligned"]);
    }
}
