//! A finding in `check --json`: the rule, the place, the cost and the fix.

use crate::examine::Cost;
use crate::{Cause, Command, Finding, Fix, Reason, Risk, Severity, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A finding.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub struct FindingReport {
    /// The code of its rule, as used by `straddle explain`.
    pub code: &'static str,
    /// How severe it is.
    pub severity: SeverityReport,
    /// The title of its rule.
    pub title: &'static str,
    /// The number of the partition; absent for findings on the whole disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// The layer concerned, as the path to it ("partition 1 > PV vg > LV root"); absent for findings on the
    /// disk, its partition table and the placement of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The offset on the disk at which the problem is, in bytes; absent if it is not at one place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
    /// The boundary that is missed; absent if the finding is not about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissReport>,
    /// The finding as a sentence.
    pub message: String,
    /// The cost on the drive given with `--cost`; absent without it, and for findings that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<CostReport>,
    /// The fix; absent if the finding follows from another one, whose fix applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<FixReport>,
    /// An earlier finding of this target with the same fix, whose commands are to be run once; absent if there
    /// is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_fix_as: Option<CauseReport>,
    /// Another fix; absent if there is none. Only one of the two is to be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    alternative: Option<FixReport>,
    /// The findings that this one follows from. Fixing them fixes this one. Absent if it does not follow from
    /// others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    follows: Vec<CauseReport>,
}

/// How severely data is misaligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Misaligned")]
pub enum MisalignedReport {
    /// Not at all, with advice at most; or nothing is known of it.
    No,
    /// By warnings only.
    Warning,
    /// By an error.
    Error,
}

impl From<Option<Severity>> for MisalignedReport {
    fn from(severity: Option<Severity>) -> Self {
        match severity {
            None | Some(Severity::Advice) => Self::No,
            Some(Severity::Warning) => Self::Warning,
            Some(Severity::Error) => Self::Error,
        }
    }
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Severity")]
pub enum SeverityReport {
    /// It costs little or nothing.
    Advice,
    /// It costs much, or may.
    Warning,
    /// It costs much, or data are at risk.
    Error,
}

impl From<Severity> for SeverityReport {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Advice => Self::Advice,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

impl From<SeverityReport> for Severity {
    fn from(severity: SeverityReport) -> Self {
        match severity {
            SeverityReport::Advice => Self::Advice,
            SeverityReport::Warning => Self::Warning,
            SeverityReport::Error => Self::Error,
        }
    }
}

impl std::fmt::Display for SeverityReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Severity::from(*self).fmt(f)
    }
}

/// A finding that does not count.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ignored")]
pub struct IgnoredReport {
    /// Why it does not count.
    pub reason: String,
    /// Where that is written: the file and its line.
    pub source: String,
    #[serde(flatten)]
    /// The finding.
    pub finding: FindingReport,
}

/// A finding from which others follow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cause")]
struct CauseReport {
    /// The code of its rule.
    code: &'static str,
    /// The number of the partition; absent for findings on the whole disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// The target on which it was found, if that is another target of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// The cost of a missed boundary: the time of writes, and on an SSD the bytes written to flash, as a multiple of those
/// when aligned.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cost")]
struct CostReport {
    /// The modelled drive, or the one that was probed.
    drive: String,
    /// "derived from the model" or "measured".
    source: &'static str,
    /// The distance in bytes from the previous boundary of the drive's own unit.
    past_bytes: u64,
    /// The size of each random write: 4096 bytes on a modelled disk, otherwise the drive's unit.
    size_bytes: u64,
    /// The ratio for random writes: on a modelled SSD behind a full buffer; if measured, of durable or sustained ones.
    random_write_ratio: f64,
    /// The ratio of the bytes written to flash (wear); absent on a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    wear_ratio: Option<f64>,
    /// The ratio for sequential writes of 4096 bytes, each with an fsync; absent on an SSD, or if the costs were
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequential_write_ratio: Option<f64>,
}

/// A missed boundary.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Miss")]
pub struct MissReport {
    /// The name of the boundary.
    pub boundary: &'static str,
    /// The distance between two such boundaries, in bytes.
    pub size_bytes: u64,
    /// The offset of the first such boundary, in bytes.
    phase_bytes: u64,
    /// The distance in bytes from the previous boundary.
    pub past_bytes: u64,
}

/// A fix.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fix")]
pub struct FixReport {
    /// What to do, in words.
    pub summary: String,
    /// The commands that do it, in order; empty if no command can.
    pub commands: Vec<CommandReport>,
    /// The risk of the commands to stored data: "safe", "backup" (data may be lost or has to be restored from
    /// a backup) or "destroys"; absent if there are no commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<&'static str>,
    /// The risk in words, as text output has it.
    #[serde(skip)]
    pub warning: Option<&'static str>,
    /// What to check before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
}

/// A command.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Command")]
pub struct CommandReport {
    /// The program that is run.
    tool: &'static str,
    /// The command line for a POSIX shell.
    pub line: String,
}

fn finding_report(finding: &Finding, cost: Option<&Cost>) -> FindingReport {
    FindingReport {
        code: finding.rule.code.as_str(),
        severity: finding.severity.into(),
        title: finding.rule.title,
        partition: partition_of(finding.subject),
        layer: finding.way(),
        offset_bytes: finding.at.map(|at| at.get()),
        missed: finding.miss.map(|miss| MissReport {
            boundary: miss.name,
            size_bytes: miss.boundary.size().get(),
            phase_bytes: miss.boundary.phase().get(),
            past_bytes: miss.past.get(),
        }),
        message: finding.sentence(),
        cost: cost.map(cost_report),
        fix: finding.fix.as_ref().map(fix_report),
        same_fix_as: None,
        alternative: finding.alternative.as_ref().map(fix_report),
        follows: finding.follows.iter().map(cause_report).collect(),
    }
}

/// The reports of findings, in order.
pub(crate) fn finding_reports<'a>(
    findings: impl Iterator<Item = (&'a Finding, Option<&'a Cost>)>,
) -> Vec<FindingReport> {
    let findings: Vec<_> = findings.collect();
    let report = |(index, (finding, cost)): (usize, &(&Finding, Option<&Cost>))| {
        let shares = |other: &&Finding| finding.fix.is_some() && other.fix == finding.fix;
        let earlier = findings[..index].iter().map(|(other, _)| *other).find(shares);
        let same_fix_as = earlier.map(|other| CauseReport {
            code: other.rule.code.as_str(),
            partition: partition_of(other.subject),
            target: None,
        });
        FindingReport { same_fix_as, ..finding_report(finding, *cost) }
    };
    findings.iter().enumerate().map(report).collect()
}

pub(crate) fn ignored_report(finding: &Finding, reason: &Reason) -> IgnoredReport {
    IgnoredReport {
        reason: reason.text.clone(),
        source: reason.source.clone(),
        finding: finding_report(finding, None),
    }
}

fn partition_of(subject: Subject) -> Option<u32> {
    match subject {
        Subject::Disk => None,
        Subject::Partition(number) => Some(number),
    }
}

fn cause_report(cause: &Cause) -> CauseReport {
    CauseReport {
        code: cause.code.as_str(),
        partition: partition_of(cause.subject),
        target: cause.target.clone(),
    }
}

fn cost_report(cost: &Cost) -> CostReport {
    CostReport {
        drive: cost.drive.clone(),
        source: cost.source(),
        past_bytes: cost.past,
        size_bytes: cost.size,
        random_write_ratio: cost.random_write,
        wear_ratio: cost.wear,
        sequential_write_ratio: cost.sequential_write,
    }
}

fn fix_report(fix: &Fix) -> FixReport {
    let risk = match fix.risk {
        Risk::Safe => "safe",
        Risk::Backup => "backup",
        Risk::Destroys => "destroys",
    };
    FixReport {
        summary: fix.summary.clone(),
        commands: fix.commands.iter().map(command_report).collect(),
        risk: (!fix.commands.is_empty()).then_some(risk),
        warning: fix.risk.warning().filter(|_| !fix.commands.is_empty()),
        caution: fix.caution.clone(),
    }
}

fn command_report(command: &Command) -> CommandReport {
    CommandReport { tool: command.tool, line: command.line.clone() }
}
