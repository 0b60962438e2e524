//! Drives known to claim 512-byte physical sectors although they work in larger ones: `quirks.toml`, in which every
//! entry names its sources. An entry never overrules a drive that reports more. A family may be listed if some of its
//! drives report correctly, but not if some have 512-byte sectors.

use std::sync::LazyLock;

use serde::Deserialize;
use straddle_units::ByteCount;

/// SCSI's INQUIRY data (SPC-5, bytes 8-15).
const VENDOR_LEN: usize = 8;

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Quirk {
    /// `*` matches any characters, `?` matches one; case is ignored.
    pub(crate) model: String,
    pub(crate) physical: ByteCount,
    pub(crate) indirection_unit: Option<ByteCount>,
}

#[derive(Deserialize)]
struct List<T> {
    quirk: Vec<T>,
}

static ALL: LazyLock<Vec<Quirk>> = LazyLock::new(|| {
    // The tests parse the list that is compiled in, so this cannot fail.
    toml::from_str::<List<Quirk>>(include_str!("quirks.toml")).map(|list| list.quirk).unwrap_or_default()
});

/// SCSI cuts a model at 16 characters. Padding is ignored.
fn lookup(model: &str) -> Option<&'static Quirk> {
    let model = model.trim();
    ALL.iter().find(|quirk| matches(quirk.model.as_bytes(), model.as_bytes()))
}

/// As [`lookup`], for a bridge that splits the ATA model in SCSI's 8-character vendor and product (`WDC WD20`,
/// `EARS-00MVWB0`).
pub(crate) fn lookup_inquiry(vendor: &str, model: &str) -> Option<&'static Quirk> {
    let joined = || format!("{:<VENDOR_LEN$}{}", vendor.trim_end(), model.trim());
    lookup(model).or_else(|| lookup(&joined()))
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|from| matches(rest, &text[from..])),
        ([wanted, rest @ ..], [found, others @ ..]) => {
            (*wanted == b'?' || wanted.eq_ignore_ascii_case(found)) && matches(rest, others)
        }
        (pattern, text) => pattern.is_empty() && text.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Length of SCSI's product field, where libata puts the beginning of the ATA model.
    const SCSI_MODEL: usize = 16;

    /// A whole entry.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        model: String,
        /// A model that the pattern is meant to match, as the kernel shows it.
        sample: String,
        medium: String,
        basis: String,
        claims_physical: u64,
        physical: u64,
        indirection_unit: Option<u64>,
        note: String,
        sources: Vec<String>,
    }

    fn entries() -> Vec<Entry> {
        toml::from_str::<List<Entry>>(include_str!("quirks.toml")).unwrap().quirk
    }

    #[test]
    fn every_entry_is_sound() {
        let list = entries();
        assert!(list.len() > 30 && list.len() == ALL.len());
        for quirk in &list {
            let name = &quirk.model;
            assert!(["disk", "flash"].contains(&quirk.medium.as_str()), "{name}");
            assert!(["observed", "listed"].contains(&quirk.basis.as_str()), "{name}");
            assert!(quirk.claims_physical.is_power_of_two() && quirk.claims_physical >= 512, "{name}");
            assert!(quirk.physical.is_power_of_two() && quirk.physical > quirk.claims_physical, "{name}");
            assert!(quirk.indirection_unit.is_none_or(|unit| unit.is_multiple_of(quirk.physical)), "{name}");
            assert!(
                matches(name.as_bytes(), quirk.sample.as_bytes()),
                "{name} does not match {}",
                quirk.sample
            );
            assert_eq!(
                lookup(&quirk.sample).map(|found| &found.model),
                Some(name),
                "an earlier entry hides {name}"
            );
            assert!(!quirk.note.trim().is_empty(), "{name}");
            assert!(!quirk.sources.is_empty(), "{name}");
            assert!(quirk.sources.iter().all(|source| source.len() > 20), "{name}: say who says what");
            assert!(
                name.bytes().take_while(|&c| c != b'*').filter(u8::is_ascii_alphanumeric).count() >= 3,
                "{name}"
            );
        }
        let mut names: Vec<_> = list.iter().map(|quirk| &quirk.model).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), list.len(), "a pattern is there twice");
    }

    #[test]
    fn entries_match_what_sysfs_leaves_of_the_model() {
        // A longer pattern is meant only for ATA's own model string.
        for quirk in entries().iter().filter(|quirk| quirk.model.trim_end_matches('*').len() <= SCSI_MODEL) {
            let cut: String = quirk.sample.chars().take(SCSI_MODEL).collect();
            let found = lookup(&cut).map(|found| found.physical.get());
            assert_eq!(found, Some(quirk.physical), "{} as {cut:?}", quirk.model);
        }
    }

    #[test]
    fn known_liars() {
        for model in [
            "WDC WD10EARS-00Y",
            "WDC WD10EARS-00Y5B1",
            "WDC WD10EARS-00Y5B1                     ",
            "WDC WD15EARS-00Z5B1",
            "WDC WD20EARS-00S8B1",
            "wdc wd20ears-00mvwb0",
            "SAMSUNG HD204UI",
            "ST2000DL003-9VT166",
        ] {
            let found = lookup(model).unwrap();
            let entry = entries().into_iter().find(|entry| entry.model == found.model).unwrap();
            assert_eq!((found.physical.get(), entry.basis.as_str()), (4096, "observed"), "{model}");
        }
        assert!(lookup("Samsung SSD 850 EVO 250GB").is_some());
    }

    #[test]
    fn honest_drives_are_not_listed() {
        for model in [
            "",
            "ATA",
            "WDC WD20EADS-00R6B0", // the 512-byte sibling of WD20EARS
            "WDC WD5000AAKX-001CA0",
            "ST3500418AS",
            "ST31000520AS",
            "SAMSUNG HD203WI",
            "Samsung SSD 980 1TB",
            "Samsung SSD 970 EVO 1TB",
            "QEMU HARDDISK",
            "scsi_debug",
            "VBOX HARDDISK",
        ] {
            assert_eq!(lookup(model).map(|quirk| &quirk.model), None, "{model}");
        }
    }

    #[test]
    fn bridges_split_the_model() {
        for (vendor, model) in [
            ("ATA     ", "WDC WD10EARS-00Y"),
            ("WDC WD20", "EARS-00MVWB0"),
            ("SAMSUNG ", "HD204UI"),
            ("SAMSUNG", "HD204UI"),
        ] {
            assert!(lookup_inquiry(vendor, model).is_some(), "{vendor:?} {model:?}");
        }
        assert_eq!(lookup_inquiry("WDC WD20", "EADS-00R6B0"), None);
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*ab*ab", "abxabab", true),
            ("?b", "ab", true),
            ("?b", "b", false),
            ("ab?", "ab", false),
            ("WD", "wd", true),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_model(vendor in ".{0,12}", model in ".{0,40}") {
            let _ = (lookup(&model), lookup_inquiry(&vendor, &model));
        }
    }
}
