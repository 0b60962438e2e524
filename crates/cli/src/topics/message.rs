//! Messages of other programs: which topic a text quotes, and the numbers in it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::topics::numbers::{Numbers, Said};
use crate::topics::{Explained, Topic, all};

/// The most words that a `*` stands for.
const MOST_WORDS: usize = 12;

/// What stands for advice to write, where another message of the text says to write nothing.
const FIRST_CHECK: &str = "One of these messages means that you must not write to the disk. Run straddle \
                           check DISK on each of these disks first.";

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Word(String),
    Number(String),
    /// One or more words.
    Words,
}

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
            parts.extend(words(before).map(|(_, word)| Part::Word(word)));
            let end = behind.find('}').filter(|_| behind.starts_with('{')).unwrap_or(0);
            parts.push(if end == 0 { Part::Words } else { Part::Number(behind[1..end].to_owned()) });
            rest = &behind[end + 1..];
        }
        parts.extend(words(rest).map(|(_, word)| Part::Word(word)));
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

fn words(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut behind = 0;
    text.split_inclusive(|c: char| !c.is_alphanumeric()).filter_map(move |piece| {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        let start = behind;
        behind += piece.len();
        (!word.is_empty()).then(|| (start..start + word.len(), word.to_lowercase()))
    })
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

struct Match {
    start: usize,
    topic: &'static Topic,
    quoted: String,
    /// What its numbers come to; nothing if it has none.
    said: Option<Vec<Said>>,
}

fn quoted(text: &str, part: Range<usize>) -> String {
    let closed = text[part.clone()].contains('(') && text[part.end..].starts_with(')');
    let words = text[part].split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if closed { line + ")" } else { line }
}

/// Returns every message in `text`, in their order. Where patterns overlap, the longest counts.
fn matches(text: &str) -> Vec<Match> {
    let (places, mut words): (Vec<Range<usize>>, Vec<String>) = words(text).unzip();
    // A pattern is tried where its first word stands: a long text takes no longer for every pattern.
    let mut stands: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, word) in words.iter().enumerate() {
        stands.entry(word.clone()).or_default().push(at);
    }
    let anywhere: Vec<usize> = (0..words.len()).collect();
    let mut found = Vec::new();
    for Pattern { topic, parts } in patterns() {
        let starts = match parts.first() {
            Some(Part::Word(word)) => stands.get(word).map_or(&[][..], Vec::as_slice),
            _ => &anywhere,
        };
        for &start in starts {
            let mut numbers = Numbers::default();
            let Some(used) = matched(parts, &words[start..], &mut numbers) else { continue };
            let end = start + used;
            // An empty word is in no pattern.
            words[start..end].iter_mut().for_each(String::clear);
            let said = topic.arithmetic.filter(|_| !numbers.is_empty());
            found.push(Match {
                start,
                topic,
                quoted: quoted(text, places[start].start..places[end - 1].end),
                said: said.map(|arithmetic| arithmetic.explain(&numbers)),
            });
        }
    }
    found.sort_by_key(|found| found.start);
    found
}

/// In their order, each with what every set of numbers comes to. Where one of them forbids to write, no other advises
/// it.
pub(super) fn explained(text: &str) -> Vec<Explained> {
    let matches = matches(text);
    let forbids = |said: &Said| matches!(said, Said::Forbids(_));
    let forbidden = matches.iter().flat_map(|found| found.said.iter().flatten()).any(forbids);
    let mut explained: Vec<Explained> = Vec::new();
    for Match { topic, .. } in &matches {
        if explained.iter().any(|known| std::ptr::eq(known.topic, *topic)) {
            continue;
        }
        let mut sets: Vec<(&str, &[Said])> = Vec::new();
        for found in matches.iter().filter(|found| std::ptr::eq(found.topic, *topic)) {
            let said = found.said.as_deref().filter(|said| sets.iter().all(|(_, known)| known != said));
            sets.extend(said.map(|said| (found.quoted.as_str(), said)));
        }
        let mut numbers = Vec::new();
        for (quoted, said) in &sets {
            for (index, said) in said.iter().enumerate() {
                let said = match said {
                    Said::Writes(_) if forbidden => FIRST_CHECK,
                    Said::Is(text) | Said::Writes(text) | Said::Forbids(text) => text,
                };
                let is_headed = index == 0 && sets.len() > 1;
                numbers.push(if is_headed { format!("\"{quoted}\": {said}") } else { said.to_owned() });
            }
        }
        let otherwise = sets.is_empty() || sets.iter().any(|(_, said)| said.is_empty());
        if forbidden && !(topic.writes.is_empty() && (topic.otherwise.is_empty() || !otherwise)) {
            numbers.push(FIRST_CHECK.to_owned());
        }
        explained.push(Explained::of(topic, numbers, !forbidden, otherwise && !forbidden));
    }
    explained
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
            let said: Vec<String> = words(text).map(|(_, word)| word).collect();
            let mut numbers = Numbers::default();
            matched(&pattern.parts, &said, &mut numbers).map(|used| (used, numbers.get("past")))
        };
        let said = "Warning: Device /dev/mapper/a-b is off by 512 bytes (max 4096B).";
        assert_eq!(of(said), Some((13, Some(512))));
        assert_eq!(of(&said.replace("512", "some")), None);
        assert_eq!(of(&said.replace("/dev/mapper/a-b", "")), None);
    }

    /// Each is explained by its topic alone, and its numbers come to what arithmetic makes of them.
    #[test]
    fn messages_are_explained_and_their_numbers_counted() {
        let said: HashMap<String, Vec<Vec<String>>> = toml::from_str(include_str!("said.toml")).unwrap();
        for row in &said["said"] {
            let [topic, message, parts @ ..] = &row[..] else { panic!("{row:?}") };
            let found = explained(message);
            let names: Vec<&str> = found.iter().map(|found| found.topic.name.as_str()).collect();
            assert_eq!(names, [topic], "{message}");
            let text = found[0].numbers.join(" ");
            assert_eq!(text.is_empty(), parts.is_empty(), "{message}: {text}");
            for part in parts {
                let has = |part: &str| text.contains(part);
                assert!(
                    part.strip_prefix('!').map_or_else(|| has(part), |part| !has(part)),
                    "{message}: {part}: {text}"
                );
            }
        }
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
        let text = "Disk x: 64 MiB\n1 not aligned: 63s % 2048s != 0s\n\
                    Partition 1 does not start on physical sector boundary.\n\
                    Partition 2 does not start on physical sector boundary.";
        let found = explained(text);
        let names: Vec<&str> = found.iter().map(|found| found.topic.name.as_str()).collect();
        assert_eq!(names, ["best-performance", "not-aligned"]);
        assert!(
            found[0].numbers[0].starts_with("63 is 63 past a multiple of 2048"),
            "{:?}",
            found[0].numbers
        );
        // The same again is said once, another start has its own paragraph.
        assert_eq!(explained(&format!("{text}\n{text}"))[0].numbers, found[0].numbers);
        let both = &explained(&format!("{text}\n1 not aligned: 34s % 2048s != 0s"))[0].numbers;

        assert!(both.len() == 2 && both[1].contains("34 is 34 past a multiple"), "{both:?}");
    }

    const GROWN: &str = "GPT PMBR size mismatch (131071 != 196607) will be corrected by write.";
    const OTHER_SECTORS: &str =
        "GPT PMBR size mismatch (732566645 != 5860533167) will be corrected by write.";
    const CUT_OFF: &str = "GPT PMBR size mismatch (20971519 != 10485759) will be corrected by write.";

    #[test]
    fn each_of_two_messages_of_a_pattern_is_explained() {
        let all = |texts: &[&str]| {
            let found = explained(&texts.join("\n"));
            found.into_iter().flat_map(|found| found.numbers).collect::<Vec<_>>()
        };
        let larger = GROWN.replace("196607", "262143");
        let two = all(&[GROWN, &larger]);
        assert!(two[0].starts_with(
            "\"PMBR size mismatch (131071 != 196607)\": With 512-byte sectors, the disk is larger"
        ));
        assert!(two[2].starts_with(
            "\"PMBR size mismatch (131071 != 262143)\": With 512-byte sectors, the disk is larger"
        ));
        assert!(two.iter().filter(|said| said.contains("--relocate-backup")).count() == 2, "{two:?}");
        for (texts, parts) in [
            (&[GROWN, OTHER_SECTORS][..], &["65536 sectors", "S030", "WRITE NOTHING"][..]),
            (&[OTHER_SECTORS, GROWN], &["65536 sectors", "S030", "WRITE NOTHING"]),
            (&[GROWN, CUT_OFF], &["65536 sectors", "S035", "Write nothing"]),
            (&[CUT_OFF, OTHER_SECTORS, GROWN], &["S035", "S030", "65536 sectors"]),
            (
                &[
                    "appears to be used, you can fix the GPT to use all of the space (an extra 7 blocks)",
                    CUT_OFF,
                ],
                &["S035"],
            ),
        ] {
            let said = all(texts);
            for text in texts {
                let quoted = quoted(text, text.find("PMBR").unwrap_or(0)..text.find(')').unwrap());
                assert!(said.iter().any(|said| said.starts_with(&format!("\"{quoted}\": "))), "{said:?}");
            }
            let said = said.join("\n");
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
            assert!(!said.contains("Nothing is lost") && !said.contains("--relocate-backup"), "{said}");
            assert!(said.contains(FIRST_CHECK), "{said}");
        }
    }

    /// Advice of another topic, and what applies where numbers decide nothing.
    #[test]
    fn no_topic_advises_to_write_where_a_message_forbids_it() {
        let corrupt = "The primary GPT table is corrupt, but the backup appears OK, so that will be used.";
        let undecided = "GPT PMBR size mismatch (7 != 7) will be corrected by write.";
        let about = |text: &str| {
            let found = explained(text);
            found
                .iter()
                .flat_map(|found| {
                    found.numbers.iter().chain(found.about.iter().copied()).cloned().collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
                .join("\n")
        };
        let advice = ["--repair", "with 'w'"];
        assert!(advice.iter().all(|part| about(&format!("{corrupt}\n{GROWN}")).contains(part)));
        assert!(about(&format!("{undecided}\n{GROWN}")).contains("the second number is larger"));
        for text in [corrupt, undecided] {
            let said = about(&format!("{text}\n{OTHER_SECTORS}"));
            assert!(said.contains("WRITE NOTHING") && said.contains(FIRST_CHECK), "{said}");
            assert!(!advice.iter().any(|part| said.contains(part)), "{said}");
        }
    }
}
