//! One cause, one finding: a file system on an array or a logical volume is reached from each partition below it.
//!
//! The law of this module: only findings about one and the same file system are merged; what is said of a member or a
//! physical volume is that one's own affair.

use crate::catalogue as rules;
use crate::finding::{Finding, Rule};

/// The rules about a file system as such, wherever its parts lie.
const OF_FILE_SYSTEMS: [&Rule; 4] =
    [&rules::FS_BLOCK_SMALL, &rules::FS_BLOCK_BELOW_UNIT, &rules::HINTS_CONTRADICT, &rules::ASHIFT_SMALL];

/// The way to the file system that a finding is about, from the array or the logical volume on that it shares with other
/// members; `None` for other findings, and for a file system on one device only.
pub fn shared_file_system(finding: &Finding) -> Option<&str> {
    let path = finding.layer.as_deref().filter(|_| OF_FILE_SYSTEMS.contains(&finding.rule))?;
    let mut at = 0;
    for part in path.split(" > ") {
        // What has no name may be another one of the kind.
        let mut words = part.split(' ');
        let is_shared = match words.next() {
            Some("LV") => words.next().is_some(),
            Some("md") => words.nth(1).is_some(),
            _ => false,
        };
        if is_shared {
            return path.get(at..);
        }
        at += part.len() + " > ".len();
    }
    None
}

/// Keeps the first of several findings about one file system, and lists there on which ways the others were met.
pub(crate) fn merge(findings: &mut Vec<Finding>) {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings.drain(..) {
        let key = shared_file_system(&finding);
        let first = kept
            .iter_mut()
            .find(|other| key.is_some() && other.rule == finding.rule && shared_file_system(other) == key);
        match first {
            None => kept.push(finding),
            Some(first) if first.layer == finding.layer => {}
            Some(first) => {
                let way =
                    finding.layer.as_deref().and_then(|path| path.split(" > ").next()).unwrap_or_default();
                first.message.push_str(&format!("; reached from {way} as well"));
            }
        }
    }
    *findings = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Subject;

    fn finding(rule: &'static Rule, path: &str) -> Finding {
        Finding {
            rule,
            severity: rule.severity,
            subject: Subject::Disk,
            layer: Some(path.to_owned()),
            at: None,
            miss: None,
            message: String::new(),
            cure: None,
        }
    }

    #[test]
    fn one_file_system_is_one_finding_and_two_are_two() {
        let small = &rules::FS_BLOCK_SMALL;
        let mut findings = vec![
            finding(small, "partition 1 > md raid5 host:0 > ext4"),
            finding(small, "partition 2 > md raid5 host:0 > ext4"),
            finding(&rules::HINTS_CONTRADICT, "partition 2 > md raid5 host:0 > ext4"),
            finding(small, "partition 3 > PV vg > LV vg/a > ext4"),
            finding(small, "partition 4 > PV vg > LV vg/b > ext4"),
            finding(small, "partition 5 > PV vg > LV vg/b > ext4"),
            // Nameless arrays may be two, file systems on partitions are.
            finding(small, "partition 6 > md raid1 > ext4"),
            finding(small, "partition 7 > md raid1 > ext4"),
            finding(small, "partition 8 > ext4"),
            finding(small, "partition 9 > ext4"),
            // Each member's data offset is its own.
            finding(&rules::MD_DATA_STRADDLES, "partition 1 > md raid5 host:0"),
            finding(&rules::MD_DATA_STRADDLES, "partition 2 > md raid5 host:0"),
        ];
        merge(&mut findings);
        let kept: Vec<_> = findings.iter().filter_map(|f| f.layer.as_deref()).collect();
        let dropped = ["partition 2 > md raid5 host:0 > ext4", "partition 5 > PV vg > LV vg/b > ext4"];
        assert_eq!(findings.len(), 10, "{kept:?}");
        assert!(!findings.iter().any(|f| f.rule == small && dropped.contains(&f.layer.as_deref().unwrap())));
        assert_eq!(findings[0].message, "; reached from partition 2 as well");
    }
}
