//! The rules. A code never changes its meaning. New rules take new numbers: S00x placement, S02x the device, S03x
//! and S04x the table, S05x and S06x layers and file systems, S07x image containers, S08x the running kernel.
//!
//! A rule is a line of the list, a text (`catalogue/CODE.toml`), and a place that finds it; the compiler rejects one
//! without the others. Findings are made with the names listed here ([`START_STRADDLES`]) and compared by code
//! ([`Code::START_STRADDLES`]), so that a comparison does not count as a use.

mod rule;

use std::fmt;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use rule::About;
pub use rule::{Kind, Rule, Severity};

/// One list of rules: the code, the name, the usual severity, the kind of its findings, and what it examines.
macro_rules! rules {
    ($($code:ident $name:ident: $severity:ident $kind:ident $about:ident,)*) => {
        /// The code of a rule, such as "S001".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        #[schemars(with = "String")]
        pub enum Code {
            $(
                #[doc = concat!("The rule `", stringify!($name), "`.")]
                $code,
            )*
        }

        impl Code {
            /// The code as text, such as `S001`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)*
                }
            }
        }

        #[allow(dead_code, reason = "not every rule is compared with")]
        impl Code {
            $(
                #[doc = concat!("The code `", stringify!($code), "`.")]
                pub(crate) const $name: Self = Self::$code;
            )*
        }

        mod list {
            use super::{About, Code, Kind, LazyLock, Rule, Severity, rule};

            $(pub(super) static $name: Rule = Rule {
                code: Code::$code,
                severity: Severity::$severity,
                kind: Kind::$kind,
                about: About::$about,
                definition: LazyLock::new(|| {
                    rule::parsed(include_str!(concat!("catalogue/", stringify!($code), ".toml")))
                }),
            };)*
        }

        /// Every rule, in order of code.
        pub static RULES: &[&Rule] = &[$(&list::$name,)*];

        $(
            #[deny(dead_code, reason = "a rule that no finding is made with")]
            pub(crate) static $name: &Rule = &list::$name;
        )*
    };
}

rules! {
    S001 START_STRADDLES: Error Alignment Placement,
    S002 END_STRADDLES: Warning Alignment Placement,
    S003 OFF_IO_MIN: Warning Alignment Placement,
    S004 OFF_INDIRECTION_UNIT: Warning Alignment Placement,
    S005 OFF_STRIPE: Warning Alignment Placement,
    S006 OFF_IO_OPT: Advice Alignment Placement,
    S007 OFF_ERASE_BLOCK: Advice Alignment Placement,
    S008 OFF_GRAIN: Advice Alignment Placement,
    S009 ATOMIC_LOST: Warning Alignment Placement,
    S010 DOS_START: Advice Alignment Placement,
    S020 KERNEL_MISALIGNED: Error Alignment Device,
    S021 BOGUS_IO_OPT: Advice Device Device,
    S022 KNOWN_LIAR: Advice Device Device,
    S023 FIRMWARE_OFFSET: Advice Device Device,
    S024 SOURCES_DISAGREE: Advice Device Device,
    S025 FASTER_FORMAT: Advice Device Device,
    S026 LARGER_SECTOR: Advice Device Device,
    S027 GUEST_SHOWN_SMALLER: Warning Device Device,
    S030 OTHER_SECTOR_SIZE: Error Table Table,
    S031 GPT_PRIMARY_DAMAGED: Error Table Table,
    S032 GPT_BACKUP_DAMAGED: Warning Table Table,
    S033 GPT_UNUSABLE: Error Table Table,
    S034 GPT_BACKUP_MISPLACED: Warning Table Table,
    S035 GPT_PAST_END: Error Table Table,
    S036 GPT_COPIES_DIFFER: Warning Table Table,
    S037 PROTECTIVE_MBR: Error Table Table,
    S038 HYBRID_DIFFERS: Warning Table Table,
    S040 EBR_DAMAGED: Error Table Table,
    S041 OVERLAP: Error Table Table,
    S042 OUT_OF_RANGE: Error Table Table,
    S043 BAD_ENTRY: Warning Table Table,
    S044 TOO_MANY: Warning Table Table,
    S045 MBR_REACH: Warning Table Table,
    S046 PAST_2_32: Warning Table Table,
    S047 UNFINISHED_MOVE: Error Table Table,
    S048 CUT_SHORT: Error Table Table,
    S049 TABLE_INSIDE: Error Table Table,
    S050 MD_DATA_STRADDLES: Error Alignment Layer,
    S051 PV_DATA_STRADDLES: Error Alignment Layer,
    S052 LV_SEGMENT_STRADDLES: Error Alignment Layer,
    S053 LUKS_PAYLOAD_STRADDLES: Error Alignment Layer,
    S054 PAYLOAD_STRADDLES: Error Alignment Layer,
    S055 LAYER_OFF_UNIT: Warning Alignment Layer,
    S056 LAYERS_CANCEL: Advice Alignment Layer,
    S057 OFF_ARRAY_STRIPE: Warning Alignment Layer,
    S058 MD_CHUNK_SMALL: Warning Alignment Layer,
    S060 LUKS_SECTOR_SMALL: Advice Granularity Layer,
    S061 FS_BLOCK_SMALL: Warning Granularity FileSystem,
    S062 FS_BLOCK_BELOW_UNIT: Advice Granularity FileSystem,
    S063 DATA_AREA_OFF: Error Alignment Layer,
    S064 HINTS_CONTRADICT: Warning Layers FileSystem,
    S065 ASHIFT_SMALL: Warning Granularity FileSystem,
    S066 PAGE_STRADDLES: Warning Alignment Layer,
    S067 PAGE_NOT_ATOMIC: Advice Atomicity Layer,
    S068 HIDDEN_SECTORS: Warning Layers Placement,
    S069 UNFIT: Error Fit FileSystem,
    S070 CONTAINER_OFF: Error Alignment Container,
    S071 CONTAINER_UNIT_SMALL: Advice Granularity Container,
    S072 IMAGE_SIZE: Warning Alignment Container,
    S080 VIEWS_DISAGREE: Warning Layers Kernel,
    S081 UNREADABLE: Error Unreadable Medium,
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
            for text in [&rule.title, &rule.what, &rule.why, &rule.cost, &rule.fix] {
                assert!(!text.is_empty(), "{}", rule.code);
            }
            assert!(!rule.sources.is_empty(), "{} has no source", rule.code);
        }
    }
}
