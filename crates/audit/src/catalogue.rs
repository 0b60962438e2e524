//! The rules: the list of their codes and, by subject in the modules below, the text that `straddle explain`
//! prints for each. A code never changes its meaning. New rules take new numbers: S00x placement, S02x the device, S03x and
//! S04x the table, S05x and S06x layers and file systems, S07x image containers, S08x the running kernel.
//!
//! A rule is a line of the list, a definition, and a place that finds it; the compiler rejects one without the others.
//! Findings are made with the names listed here ([`START_STRADDLES`]) and compared by code
//! ([`Code::START_STRADDLES`]), so that a comparison does not count as a use.

mod container;
mod device;
mod filesystems;
mod layers;
mod live;
mod placement;
mod rule;
mod table;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use rule::{About, Definition};
pub use rule::{Kind, Rule, Severity};

/// Defines [`Code`], [`RULES`] and the names with which findings are made from one list.
macro_rules! rules {
    ($($subject:ident { $($code:ident $name:ident,)* })*) => {
        /// The code of a rule. Variants are in order, and the name of each is the text of its code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        #[schemars(with = "String")]
        pub enum Code {
            $($(
                #[doc = concat!("The rule `", stringify!($name), "`.")]
                $code,
            )*)*
        }

        impl Code {
            /// The code as text, such as `S001`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$code => stringify!($code),)*)*
                }
            }
        }

        #[allow(dead_code, reason = "not every rule is compared with")]
        impl Code {
            $($(
                #[doc = concat!("The code `", stringify!($code), "`.")]
                pub(crate) const $name: Self = Self::$code;
            )*)*
        }

        mod list {
            use super::{Code, Rule};

            $($(pub(super) static $name: Rule =
                Rule { code: Code::$code, definition: &super::$subject::$name };)*)*
        }

        /// Every rule, in order of code.
        pub static RULES: &[&Rule] = &[$($(&list::$name,)*)*];

        $($(
            #[deny(dead_code, reason = "a rule that no finding is made with")]
            pub(crate) const $name: &Rule = &list::$name;
        )*)*
    };
}

rules! {
    placement {
        S001 START_STRADDLES,
        S002 END_STRADDLES,
        S003 OFF_IO_MIN,
        S004 OFF_INDIRECTION_UNIT,
        S005 OFF_STRIPE,
        S006 OFF_IO_OPT,
        S007 OFF_ERASE_BLOCK,
        S008 OFF_GRAIN,
        S009 ATOMIC_LOST,
        S010 DOS_START,
    }
    device {
        S020 KERNEL_MISALIGNED,
        S021 BOGUS_IO_OPT,
        S022 KNOWN_LIAR,
        S023 FIRMWARE_OFFSET,
        S024 SOURCES_DISAGREE,
        S025 FASTER_FORMAT,
        S026 LARGER_SECTOR,
        S027 GUEST_SHOWN_SMALLER,
    }
    table {
        S030 OTHER_SECTOR_SIZE,
        S031 GPT_PRIMARY_DAMAGED,
        S032 GPT_BACKUP_DAMAGED,
        S033 GPT_UNUSABLE,
        S034 GPT_BACKUP_MISPLACED,
        S035 GPT_PAST_END,
        S036 GPT_COPIES_DIFFER,
        S037 PROTECTIVE_MBR,
        S038 HYBRID_DIFFERS,
        S040 EBR_DAMAGED,
        S041 OVERLAP,
        S042 OUT_OF_RANGE,
        S043 BAD_ENTRY,
        S044 TOO_MANY,
        S045 MBR_REACH,
        S046 PAST_2_32,
        S047 UNFINISHED_MOVE,
        S048 CUT_SHORT,
        S049 TABLE_INSIDE,
    }
    layers {
        S050 MD_DATA_STRADDLES,
        S051 PV_DATA_STRADDLES,
        S052 LV_SEGMENT_STRADDLES,
        S053 LUKS_PAYLOAD_STRADDLES,
        S054 PAYLOAD_STRADDLES,
        S055 LAYER_OFF_UNIT,
        S056 LAYERS_CANCEL,
        S057 OFF_ARRAY_STRIPE,
        S058 MD_CHUNK_SMALL,
    }
    filesystems {
        S060 LUKS_SECTOR_SMALL,
        S061 FS_BLOCK_SMALL,
        S062 FS_BLOCK_BELOW_UNIT,
        S063 DATA_AREA_OFF,
        S064 HINTS_CONTRADICT,
        S065 ASHIFT_SMALL,
        S066 PAGE_STRADDLES,
        S067 PAGE_NOT_ATOMIC,
        S068 HIDDEN_SECTORS,
        S069 UNFIT,
    }
    container {
        S070 CONTAINER_OFF,
        S071 CONTAINER_UNIT_SMALL,
        S072 IMAGE_SIZE,
    }
    live {
        S080 VIEWS_DISAGREE,
        S081 UNREADABLE,
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The rule with this code, in upper or lower case.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.code.as_str().eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(RULES.windows(2).all(|pair| pair[0].code.as_str() < pair[1].code.as_str()));
    }

    #[test]
    fn a_rule_finds_what_can_be_wrong_with_what_it_looks_at() {
        for rule in RULES {
            let kinds: &[Kind] = match rule.about {
                About::Device => &[Kind::Device, Kind::Alignment],
                About::Table => &[Kind::Table],
                // The boot sector's record of its position may contradict the table.
                About::Placement => &[Kind::Alignment, Kind::Layers],
                About::Layer => &[Kind::Alignment, Kind::Granularity, Kind::Atomicity],
                About::FileSystem => &[Kind::Alignment, Kind::Granularity, Kind::Layers, Kind::Fit],
                About::Container => &[Kind::Alignment, Kind::Granularity],
                About::Kernel => &[Kind::Layers],
                About::Medium => &[Kind::Unreadable],
            };
            assert!(kinds.contains(&rule.kind), "{} is {:?} about {:?}", rule.code, rule.kind, rule.about);
        }
    }

    #[test]
    fn every_rule_is_reported_in_full() {
        for rule in RULES {
            for text in [rule.title, rule.what, rule.why, rule.cost, rule.fix] {
                assert!(!text.is_empty(), "{}", rule.code);
            }
            assert!(!rule.sources.is_empty(), "{} has no source", rule.code);
        }
    }
}
