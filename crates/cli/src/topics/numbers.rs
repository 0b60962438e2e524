//! The arithmetic of the numbers in messages.
//!
//! Invariants: a function says what follows from the numbers and nothing else. Where they fit several causes it names
//! each, and what tells them apart; where they decide nothing it returns nothing.

mod tables;

use serde::Deserialize;
use straddle_units::ByteCount;

const SMALL: u64 = 512;
const LARGE: u64 = 4096;

const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arithmetic {
    /// `table` and `disk`: the last sectors by a table and of the disk. `header` and `last`: the same, of a table that
    /// was found in the disk's sectors. `extra`: sectors behind a table.
    GptSize,
    /// `main` and `backup`: blocks of a partition that the table needs.
    TableOverlap,
    /// `length`, `start` and `maximum` in sectors.
    TooLong,
    /// `offset`: bytes up to the next boundary.
    OffsetBy,
    /// `start`, `grain` and `past` in sectors.
    Grain,
    /// `size` or `start` of a partition, in sectors of 512 bytes. `blocks` of a file system, and those `present`. `sector` and `count`, or `want`, of an access, and the `limit`.
    BeyondEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Is(String),
    /// What to write to the disk.
    Writes(String),
    /// To write nothing to the disk.
    Forbids(String),
}

impl Arithmetic {
    pub(super) fn explain(self, numbers: &Numbers) -> Vec<Said> {
        let said = match self {
            Self::GptSize => tables::gpt_size(numbers),
            Self::TableOverlap => tables::table_overlap(numbers),
            Self::TooLong => tables::too_long(numbers),
            Self::BeyondEnd => tables::beyond_end(numbers),
            Self::Grain => tables::grain(numbers),
            Self::OffsetBy => tables::offset_by(numbers),
        };
        said.unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<(String, Option<u64>)>);

impl Numbers {
    /// Adds a number as it stands in a message; a unit of bytes is multiplied in.
    pub(super) fn add(&mut self, name: &str, text: &str) {
        self.0.push((name.to_owned(), parsed(text)));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(own, _)| own == name)?.1
    }

    pub(super) fn positive(&self, name: &str) -> Option<u64> {
        self.get(name).filter(|number| *number > 0)
    }
}

fn parsed(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let scale = match unit {
        "" | "s" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => MIB,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

fn bytes(count: u64) -> String {
    if count < 10_000 {
        format!("{count} bytes")
    } else {
        format!("{count} bytes ({})", ByteCount::new(count))
    }
}

fn sectors(count: u64, size: u64) -> Option<String> {
    let noun = if count == 1 { "sector" } else { "sectors" };
    Some(format!("{count} {noun} of {size} bytes, {}", bytes(count.checked_mul(size)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_unit_of_its_text_or_none_that_is_known() {
        for (text, number) in [
            ("63s", Some(63)),
            ("512b", Some(512)),
            ("256kib", Some(262_144)),
            ("0x20d0", Some(8400)),
            ("2nd", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parsed(text), number, "{text}");
        }
    }

    /// No number makes any arithmetic panic, and what lacks a number says nothing.
    #[test]
    fn any_number_is_explained_without_a_panic() {
        let numbers =
            [0, 1, 7, 511, 512, 4095, 4096, 65_535, u64::from(u32::MAX), 1 << 32, u64::MAX - 1, u64::MAX];
        let names = |text: &'static String| {
            text.split('{').skip(1).map(|part| part.split('}').next().unwrap()).collect::<Vec<_>>()
        };
        for topic in super::super::all() {
            let Some(arithmetic) = topic.arithmetic else { continue };
            let of = |given: &[(&str, u64)]| {
                let mut all = Numbers::default();
                given.iter().for_each(|(name, number)| all.add(name, &number.to_string()));
                arithmetic.explain(&all)
            };
            assert_eq!(of(&[]), [], "{arithmetic:?}");
            let all: Vec<&str> = topic.messages.iter().flat_map(names).collect();
            for (first, second) in numbers.iter().flat_map(|one| numbers.map(|two| (*one, two))) {
                of(&all
                    .iter()
                    .zip([first, second].into_iter().cycle())
                    .map(|(name, n)| (*name, n))
                    .collect::<Vec<_>>());
                all.iter().for_each(|name| drop(of(&[(name, first)])));
            }
        }
    }
}
