//! The verdict on a target from all of its findings.
//!
//! Invariants: it counts every finding, wherever it is reported. Filtering by rule or partition changes only
//! the status: not the verdict on a partition, and not the fact that something cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::Code;
use crate::finding::{Finding, Findings, Kind, Part, Reported, Severity, Subject};

/// The verdict on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// An extended partition: it holds one-sector structures, and cannot be misaligned in a way that matters.
    Container,
    /// Its contents are listed by a partition table that straddle does not read.
    NotJudged,
    /// Every known boundary is met.
    Aligned,
    /// There is only advice: physical sector boundaries are met, or missed only where nothing is written.
    #[serde(rename = "advice")]
    AlignedWithAdvice,
    /// It misses a boundary, which is costly for some workloads.
    Off,
    /// Only its end is not on a physical sector boundary.
    EndOff,
    /// Its data straddles physical sectors.
    Misaligned,
    /// Its boot sector records a different position than its entry in the partition table.
    BootSector,
    /// A move on its disk is unfinished, so its alignment is unknown.
    #[serde(rename = "unfinished_move")]
    Unfinished,
    /// Its entry in the partition table is damaged, or contradicts another one.
    Damaged,
    /// Its contents cannot be read.
    Unreadable,
}

/// The result of the audit of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No finding.
    Ok,
    /// No finding, and only zeros where a partition table or contents would begin.
    Blank,
    /// Advice only.
    Advice,
    /// Warnings, and no errors.
    Warning,
    /// Errors.
    Error,
    /// The target's contents are not recognised, or are of a kind that straddle cannot read.
    NotJudged,
    /// The target could not be opened or read.
    Failed,
}

impl Status {
    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blank => "blank",
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::NotJudged => "not judged",
            Self::Failed => "failed",
        }
    }
}

/// What there is to judge on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// A table, a file system, or other known content.
    Known,
    /// The places of tables and contents hold only zeros.
    Blank,
    /// Nothing that could be judged, and the reason.
    Nothing(String),
    /// Known content of which only a part, without findings, can be seen, and why.
    Part(String),
}

/// The result of all findings on a partition. Findings are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfPartition {
    /// The verdict on its placement, without the layers on it.
    pub verdict: Verdict,
    /// The finding that decides the verdict.
    pub decisive: Option<usize>,
    /// The worst finding in the layers on it.
    pub inside: Option<usize>,
    /// The finding that a layer on it compensates for a misalignment below.
    pub made_up: Option<usize>,
    /// How severely what is written in it is misaligned, by its start or that of a layer on it; `None` if not, or
    /// unknown.
    pub misaligned: Option<Severity>,
}

/// The result of all findings on a target. Only [`Judgement::of`] makes one, and nothing changes it.
#[derive(Clone, Debug)]
pub struct Judgement {
    status: Status,
    kinds: Vec<Kind>,
    misaligned: Option<Severity>,
    partitions: BTreeMap<u32, OfPartition>,
    is_unread: bool,
    not_judged: Option<String>,
}

impl Judgement {
    /// Judges the findings on a target, after [`crate::ask`].
    pub fn of(findings: &Findings, recognised: Recognised) -> Self {
        let counted = || findings.iter().filter(|f| matches!(f.reported, Reported::Here | Reported::At(_)));
        let worst = counted().map(|f| f.severity).max();
        let kinds: BTreeSet<Kind> =
            counted().filter(|f| Some(f.severity) == worst).map(|f| f.rule.kind).collect();
        let status = match (&recognised, worst) {
            (Recognised::Nothing(_), _) | (Recognised::Part(_), None | Some(Severity::Advice)) => {
                Status::NotJudged
            }
            (Recognised::Blank, None) => Status::Blank,
            (Recognised::Known, None) => Status::Ok,
            (_, Some(Severity::Advice)) => Status::Advice,
            (_, Some(Severity::Warning)) => Status::Warning,
            (_, Some(Severity::Error)) => Status::Error,
        };
        let not_judged = match recognised {
            Recognised::Nothing(why) | Recognised::Part(why) if status == Status::NotJudged => Some(why),
            _ => None,
        };
        Self {
            status,
            kinds: if not_judged.is_some() { Vec::new() } else { kinds.into_iter().collect() },
            misaligned: counted().filter(|f| f.misaligns() && not_judged.is_none()).map(|f| f.severity).max(),
            partitions: partitions(findings),
            is_unread: findings
                .iter()
                .any(|f| f.reported != Reported::Outside && f.rule.kind == Kind::Unreadable),
            not_judged,
        }
    }

    /// The status, from the findings that were asked for.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The kinds of the findings that make the status, in order.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// How severely what is written on the target is misaligned, from the findings that were asked for.
    pub const fn misaligned(&self) -> Option<Severity> {
        self.misaligned
    }

    /// Whether something on the target cannot be read, whatever was asked for.
    pub const fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Why the target is not judged, if it is not.
    pub fn not_judged(&self) -> Option<&str> {
        self.not_judged.as_deref()
    }

    /// The result for each partition by number, whatever was asked for.
    pub const fn partitions(&self) -> &BTreeMap<u32, OfPartition> {
        &self.partitions
    }

    /// The result for the partition with this number.
    pub fn partition(&self, number: u32) -> Option<&OfPartition> {
        self.partitions.get(&number)
    }
}

type Listed<'a> = (usize, &'a Finding);

fn partitions(findings: &Findings) -> BTreeMap<u32, OfPartition> {
    let mut found: BTreeMap<u32, Vec<Listed<'_>>> = BTreeMap::new();
    // If no start is aligned for all members of the device, no partition is.
    let mut hopeless = None;
    for listed in findings.iter().enumerate() {
        match listed.1.subject {
            Subject::Partition(number) => found.entry(number).or_default().push(listed),
            Subject::Disk if listed.1.rule.code == Code::KERNEL_MISALIGNED => hopeless = Some(listed),
            Subject::Disk => {}
        }
    }
    // Nor is one of a disk with an unfinished move.
    let is_unfinished = |(_, finding): &Listed<'_>| finding.rule.code == Code::UNFINISHED_MOVE;
    hopeless = findings.iter().enumerate().find(is_unfinished).or(hopeless);
    let judged = |&(number, part): &(u32, Part)| {
        let own = found.get(&number).map_or(&[][..], Vec::as_slice);
        (number, of_partition(part, own, hopeless))
    };
    findings.partitions.iter().map(judged).collect()
}

fn of_partition(part: Part, own: &[Listed<'_>], hopeless: Option<Listed<'_>>) -> OfPartition {
    let placed = own.iter().copied().filter(|(_, f)| f.layer.is_empty());
    // Among equals, alignment is preferred, then a start to an end, then the first.
    let weight = |(_, f): &Listed<'_>| {
        let is_unfinished = f.rule.code == Code::UNFINISHED_MOVE;
        (is_unfinished, f.severity, f.rule.kind == Kind::Alignment, f.misaligns())
    };
    // Of equals, `max_by_key` returns the last.
    let decisive = placed.chain(hopeless).rev().max_by_key(weight);
    let inside = own.iter().copied().filter(|(_, f)| !f.layer.is_empty());
    let verdict = verdict(part, decisive.map(|(_, f)| f));
    let is_known = !matches!(verdict, Verdict::Container | Verdict::Unfinished);
    let off = own.iter().copied().chain(hopeless).filter(|(_, f)| is_known && f.misaligns());
    OfPartition {
        verdict,
        misaligned: off.map(|(_, f)| f.severity).max(),
        decisive: decisive.map(|(at, _)| at),
        inside: inside.rev().max_by_key(|(_, f)| f.severity).map(|(at, _)| at),
        made_up: own.iter().find(|(_, f)| f.rule.code == Code::LAYERS_CANCEL).map(|(at, _)| *at),
    }
}

fn verdict(part: Part, decisive: Option<&Finding>) -> Verdict {
    let Some(finding) = decisive.filter(|_| part != Part::Container) else {
        return match part {
            Part::Container => Verdict::Container,
            Part::Unread => Verdict::NotJudged,
            Part::Data => Verdict::Aligned,
        };
    };
    if finding.rule.code == Code::UNFINISHED_MOVE {
        return Verdict::Unfinished;
    }
    match (finding.rule.kind, finding.severity) {
        (_, Severity::Advice) => Verdict::AlignedWithAdvice,
        (Kind::Alignment, _) if finding.rule.code == Code::END_STRADDLES => Verdict::EndOff,
        (Kind::Alignment, Severity::Warning) => Verdict::Off,
        (Kind::Alignment, Severity::Error) => Verdict::Misaligned,
        (Kind::Table, _) => Verdict::Damaged,
        (Kind::Layers, _) => Verdict::BootSector,
        (Kind::Unreadable, _) => Verdict::Unreadable,
        // Such findings are about the disk, or about the partition's contents.
        (Kind::Granularity | Kind::Device | Kind::Atomicity | Kind::Fit, _) => Verdict::AlignedWithAdvice,
    }
}
