//! What kind of thing a rule finds, so that only a missed boundary is called misaligned.

use std::fmt;

use crate::finding::Rule;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Data is off a boundary, or is written in pieces smaller than a unit.
    Alignment,
    /// What the device says of itself cannot be true, or contradicts itself.
    Device,
    /// The partition table is damaged, or made for another disk.
    Table,
    /// Two layers, or the kernel and the disk, say different things.
    Layers,
    /// What is written there cannot be read.
    Unreadable,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alignment => "alignment",
            Self::Device => "device claims",
            Self::Table => "table damage",
            Self::Layers => "layers disagree",
            Self::Unreadable => "cannot be read",
        })
    }
}

impl Rule {
    /// The kind of its findings, by its number: the tens tell the rooms apart (see the catalogue).
    pub fn kind(&self) -> Kind {
        match self.code {
            // Stripe hints that contradict the array below; a boot sector that contradicts the table.
            "S064" | "S068" => Kind::Layers,
            crate::UNREADABLE_CODE => Kind::Unreadable,
            code => match code.as_bytes() {
                [_, _, b'2', digit] if *digit != b'0' => Kind::Device,
                [_, _, b'3' | b'4', _] => Kind::Table,
                [_, _, b'8', _] => Kind::Layers,
                _ => Kind::Alignment,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RULES;

    /// What a rule says is what it is: who speaks of damage is no misalignment, and who speaks of a boundary is.
    #[test]
    fn the_kind_of_a_rule_is_that_of_its_title() {
        let says = |title: &str, words: &[&str]| words.iter().any(|word| title.contains(word));
        for rule in RULES {
            let title = rule.title;
            if says(title, &["GPT", "MBR", "overlap", "past the disk", "entry", "chain"]) {
                assert_eq!(rule.kind(), Kind::Table, "{title}");
            }
            if says(title, &["straddle", " off ", "inside a physical", "smaller than"]) {
                assert_eq!(rule.kind(), Kind::Alignment, "{title}");
            }
            if says(title, &["disagree", "contradict"]) && rule.code != "S024" {
                assert_eq!(rule.kind(), Kind::Layers, "{title}");
            }
        }
    }
}
