//! What all findings on a target make of it.
//!
//! The law of this module: it counts every finding, wherever it is reported ([`crate::Reported`]). What was not asked for changes
//! the status, and nothing else: no verdict on a partition, and not that something cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use straddle_layout::{Partition, Role, Stack, TableKind};

use crate::catalogue as rules;
use crate::finding::{Finding, Kind, Reported, Severity, Subject};

/// What the findings make of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// An extended partition: it holds one-sector structures, and cannot be misaligned in a way that matters.
    Container,
    /// Every boundary that is known is met.
    Aligned,
    /// Only advice is given: the physical sector is met, or missed where nothing is written.
    AlignedWithAdvice,
    /// A boundary that costs on some workloads is missed.
    Off,
    /// It straddles.
    Misaligned,
    /// Its boot sector says another place than its entry.
    BootSector,
    /// Its entry is damaged, or contradicts another one.
    Damaged,
    /// What is in it cannot be read.
    Unreadable,
}

/// What came of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// No finding.
    Ok,
    /// No finding, and nothing is written where tables and contents live.
    Blank,
    /// Advice only.
    Advice,
    /// Warnings, and no errors.
    Warning,
    /// Errors.
    Error,
    /// Nothing on it is recognised.
    NotJudged,
}

/// What there is to judge on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// A table, a file system, or something else that is known.
    Known,
    /// Nothing is written where tables and contents live.
    Blank,
    /// Nothing that could be judged, and why.
    Nothing(String),
    /// Something that is known, of which not all can be seen, and why: what is found counts, and without that nothing is
    /// judged.
    Part(String),
}

impl Recognised {
    /// What `stack` has to judge; `is_blank` says of a target with neither table nor content whether all of it that
    /// would hold some is zero, or why that is not known.
    pub fn of(stack: &Stack, is_blank: impl FnOnce() -> Result<bool, String>) -> Self {
        match stack.kind {
            TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr | TableKind::Content(_) => Self::Known,
            TableKind::Foreign(name) => Self::Nothing(format!(
                "it has a partition table of the kind {name}, whose partitions are not read"
            )),
            TableKind::Kernel | TableKind::None if stack.layer.is_some() || !stack.partitions.is_empty() => {
                Self::Known
            }
            TableKind::Kernel | TableKind::None => match is_blank() {
                Ok(true) => Self::Blank,
                Ok(false) => Self::Nothing("nothing on it is recognised".to_owned()),
                Err(why) => Self::Nothing(why),
            },
        }
    }
}

/// What all findings on a partition make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfPartition {
    /// The verdict on its placement; what stands on it is another matter.
    pub verdict: Verdict,
    /// The finding that makes the verdict, by its place in the list.
    pub decisive: Option<usize>,
    /// The worst that was found in the layers on it, by its place in the list.
    pub inside: Option<usize>,
    /// The finding that a layer on it makes up for what lies below, by its place in the list.
    pub made_up: Option<usize>,
}

/// What all findings on a target make of it.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What came of it, counting what was asked for.
    pub status: Status,
    /// The kinds of the findings that make the status, in order.
    pub kinds: Vec<Kind>,
    /// Each partition by its number, whatever was asked for.
    pub partitions: BTreeMap<u32, OfPartition>,
    /// Whether something on it cannot be read, whatever was asked for.
    pub is_unread: bool,
    /// Why it is not judged, where it is not.
    pub not_judged: Option<String>,
}

impl Judgement {
    /// The judgement of `findings`, all that [`crate::run`] finds on a target, after [`crate::ask`].
    pub fn of(stack: &Stack, findings: &[Finding], recognised: Recognised) -> Self {
        let counted = |f: &&Finding| matches!(f.reported, Reported::Here | Reported::At(_));
        let worst = findings.iter().filter(counted).map(|f| f.severity).max();
        let decisive = findings.iter().filter(counted).filter(|f| Some(f.severity) == worst);
        let kinds: BTreeSet<Kind> = decisive.map(|f| f.rule.kind).collect();
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
            partitions: partitions(stack, findings),
            is_unread: findings
                .iter()
                .any(|f| f.reported != Reported::Outside && f.rule.kind == Kind::Unreadable),
            not_judged,
        }
    }

    /// What is made of the partition of this number.
    pub fn partition(&self, number: u32) -> Option<&OfPartition> {
        self.partitions.get(&number)
    }
}

/// A finding with its place in the list.
type Listed<'a> = (usize, &'a Finding);

fn partitions(stack: &Stack, findings: &[Finding]) -> BTreeMap<u32, OfPartition> {
    let mut found: BTreeMap<u32, Vec<Listed<'_>>> = BTreeMap::new();
    // Where no start can be aligned for all members, none is.
    let mut hopeless = None;
    for listed in findings.iter().enumerate() {
        match listed.1.subject {
            Subject::Partition(number) => found.entry(number).or_default().push(listed),
            Subject::Disk if listed.1.rule == &rules::KERNEL_MISALIGNED => hopeless = Some(listed),
            Subject::Disk => {}
        }
    }
    let judged = |partition: &Partition| {
        let own = found.get(&partition.number).map_or(&[][..], Vec::as_slice);
        (partition.number, of_partition(partition, own, hopeless))
    };
    stack.partitions.iter().map(judged).collect()
}

fn of_partition(partition: &Partition, own: &[Listed<'_>], hopeless: Option<Listed<'_>>) -> OfPartition {
    let placed = own.iter().copied().filter(|(_, f)| f.layer.is_empty());
    // Of two that are equally bad, the one about alignment, and the one that comes first.
    let weight = |(_, f): &Listed<'_>| (f.severity, f.rule.kind == Kind::Alignment);
    let decisive = placed.chain(hopeless).first_max_by_key(weight);
    let inside = own.iter().copied().filter(|(_, f)| !f.layer.is_empty());
    OfPartition {
        verdict: verdict(partition, decisive.map(|(_, f)| f)),
        decisive: decisive.map(|(at, _)| at),
        inside: inside.first_max_by_key(|(_, f)| f.severity).map(|(at, _)| at),
        made_up: own.iter().find(|(_, f)| f.rule == &rules::LAYERS_CANCEL).map(|(at, _)| *at),
    }
}

fn verdict(partition: &Partition, decisive: Option<&Finding>) -> Verdict {
    if partition.role == Role::Extended {
        return Verdict::Container;
    }
    let Some(finding) = decisive else { return Verdict::Aligned };
    match (finding.rule.kind, finding.severity) {
        (_, Severity::Advice) => Verdict::AlignedWithAdvice,
        (Kind::Alignment, Severity::Warning) => Verdict::Off,
        (Kind::Alignment, Severity::Error) => Verdict::Misaligned,
        (Kind::Table, _) => Verdict::Damaged,
        (Kind::Layers, _) => Verdict::BootSector,
        (Kind::Unreadable, _) => Verdict::Unreadable,
        // They are about the disk, or about what is in the partition.
        (Kind::Device | Kind::Atomicity, _) => Verdict::AlignedWithAdvice,
    }
}

/// The first of the greatest.
trait FirstMax: Iterator + Sized {
    fn first_max_by_key<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        self.fold(None, |best: Option<Self::Item>, item| match best {
            Some(best) if key(&best) >= key(&item) => Some(best),
            _ => Some(item),
        })
    }
}

impl<I: Iterator> FirstMax for I {}
