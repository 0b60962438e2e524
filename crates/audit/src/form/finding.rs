//! A finding in `check --json`: the rule, the place, the cost and the fix.

use crate::examine::Cost;
use crate::{Cause, Code, Finding, Fix, Miss, Reason, Severity};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::ByteOffset;

/// A finding.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub struct FindingReport {
    /// The code of its rule, as used by `straddle explain`.
    pub code: Code,
    /// The severity of the finding.
    pub severity: Severity,
    /// The title of its rule.
    pub title: &'static str,
    /// The number of the partition; absent for findings on the whole disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The path to the layer concerned ("partition 1 > PV vg > LV root"); absent for findings on the disk,
    /// its partition table and the placement of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The offset of the problem on the disk, in bytes; absent if it has no single offset.
    #[serde(rename = "offset_bytes", skip_serializing_if = "Option::is_none")]
    pub at: Option<ByteOffset>,
    /// The boundary that is missed; absent if the finding is not about a boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Miss>,
    /// The finding as a sentence.
    pub message: String,
    /// The cost on the drive specified with `--cost`; absent without that option, and for findings that have
    /// no cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    /// The fix; absent if the finding follows from another one, whose fix applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
    /// An earlier finding of this target with the same fix, so that its commands need to be run only once;
    /// absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_fix_as: Option<Cause>,
    /// A different fix, to be run instead of `fix`; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    alternative: Option<Fix>,
    /// The findings that this one follows from. Fixing them fixes this one. Absent if it does not follow from
    /// others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    follows: Vec<Cause>,
}

/// A finding that the configuration file ignores.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ignored")]
pub struct IgnoredReport {
    /// Why it does not count.
    #[serde(flatten)]
    pub why: Reason,
    /// The finding.
    #[serde(flatten)]
    pub finding: FindingReport,
}

impl FindingReport {
    fn of(finding: &Finding, cost: Option<&Cost>) -> Self {
        Self {
            code: finding.rule.code,
            severity: finding.severity,
            title: &finding.rule.title,
            partition: finding.subject.into(),
            layer: finding.way(),
            at: finding.at,
            missed: finding.miss,
            message: finding.sentence(),
            cost: cost.cloned(),
            fix: finding.fix.clone(),
            same_fix_as: None,
            alternative: finding.alternative.clone(),
            follows: finding.follows.clone(),
        }
    }
}

pub(super) fn finding_reports<'a>(
    findings: impl Iterator<Item = (&'a Finding, Option<&'a Cost>)>,
) -> Vec<FindingReport> {
    let findings: Vec<_> = findings.collect();
    let report = |(index, (finding, cost)): (usize, &(&Finding, Option<&Cost>))| {
        let shares = |other: &&Finding| finding.fix.is_some() && other.fix == finding.fix;
        let earlier = findings[..index].iter().map(|(other, _)| *other).find(shares);
        FindingReport { same_fix_as: earlier.map(Cause::of), ..FindingReport::of(finding, *cost) }
    };
    findings.iter().enumerate().map(report).collect()
}

pub(super) fn ignored_report(finding: &Finding, reason: &Reason) -> IgnoredReport {
    IgnoredReport { why: reason.clone(), finding: FindingReport::of(finding, None) }
}
