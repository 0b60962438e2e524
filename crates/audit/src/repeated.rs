//! One cause, one finding: what several paths or targets of a run reach is reported once.
//!
//! Invariants: it only determines where a finding is reported, and lists there the other places where it shows. Only
//! findings about the same thing are merged, not those about a member or a physical volume alone.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::catalogue::Code;
use crate::causes::{self, Seen};
use crate::finding::{About, Finding, Kind, Place, Reported, Severity};
use crate::way::Step;

/// Last steps that both paths share, if an array or a logical volume is among them.
fn shared(one: &[Step], other: &[Step]) -> Option<usize> {
    let same = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one.is(other)).count();
    one.iter().rev().take(same).any(Step::is_shared).then_some(same)
}

/// Several disks lead to a file system, or to a place in an array's own space.
fn is_of_shared(finding: &Finding) -> bool {
    finding.rule.about == About::FileSystem || finding.rule.code == Code::OFF_ARRAY_STRIPE
}

fn is_one_thing(one: &Finding, other: &Finding) -> bool {
    one.rule == other.rule && is_of_shared(one) && shared(&one.layer, &other.layer).is_some()
}

/// The first of the worst is reported.
pub(crate) fn merge(findings: &mut [Finding]) {
    let mut alike: HashMap<(Code, String), Vec<usize>> = HashMap::new();
    for (index, finding) in findings.iter().enumerate() {
        let is_candidate = finding.reported == Reported::Here
            && is_of_shared(finding)
            && finding.layer.iter().any(Step::is_shared);
        if let Some(last) = finding.layer.last().filter(|_| is_candidate) {
            alike.entry((finding.rule.code, last.uuid.clone())).or_default().push(index);
        }
    }
    for mut group in alike.into_values().filter(|group| group.len() > 1) {
        group.sort_by_key(|index| (std::cmp::Reverse(findings[*index].severity), *index));
        let mut kept: Vec<usize> = Vec::new();
        for index in group {
            let first = kept.iter().copied().find(|kept| is_one_thing(&findings[*kept], &findings[index]));
            match first {
                None => kept.push(index),
                Some(first) => report_at(findings, index, first),
            }
        }
    }
}

/// The first is reported, with the places of the others.
pub(crate) fn merge_advice(findings: &mut [Finding]) {
    let mut first: HashMap<(Code, String), usize> = HashMap::new();
    for index in 0..findings.len() {
        let finding = &findings[index];
        let is_advice = finding.rule.about == About::FileSystem && finding.severity == Severity::Advice;
        if !is_advice || finding.rule.kind != Kind::Granularity || finding.reported != Reported::Here {
            continue;
        }
        let own = finding.way().unwrap_or_default();
        let said = finding.message.strip_prefix(&own).unwrap_or(&finding.message).to_owned();
        match first.entry((finding.rule.code, said)) {
            Entry::Vacant(free) => drop(free.insert(index)),
            Entry::Occupied(taken) => {
                let there = findings[*taken.get()].way().unwrap_or_default();
                findings[index].reported = Reported::At(Place::Way(there));
                findings[*taken.get()].also.push(Place::Way(own));
            }
        }
    }
}

fn report_at(findings: &mut [Finding], index: usize, first: usize) {
    let shared = shared(&findings[first].layer, &findings[index].layer).unwrap_or(0);
    let [there, here] = [first, index].map(|at| Place::Way(branch(&findings[at].layer, shared)));
    findings[index].reported = Reported::At(there);
    if findings[index].layer != findings[first].layer && !findings[first].also.contains(&here) {
        findings[first].also.push(here);
    }
}

fn branch(way: &[Step], shared: usize) -> String {
    let own = way.get(..way.len().saturating_sub(shared)).unwrap_or_default();
    let from = own.iter().rev().find(|step| step.is_partition()).or(own.first()).or(way.first());
    from.map_or_else(String::new, |step| step.called.clone())
}

impl Seen<'_> {
    fn carries(&self, other: &Self) -> bool {
        other.device.is_some_and(|device| self.above.contains(device))
    }
}

type At = (usize, usize);

pub(crate) fn merge_targets(seen: &mut [Seen<'_>]) {
    let mut repeats: BTreeMap<At, At> = BTreeMap::new();
    for upper in 0..seen.len() {
        for index in 0..seen[upper].findings.len() {
            if let Some(first) = first_of(seen, (upper, index), &repeats) {
                repeats.insert((upper, index), first);
            }
        }
    }
    for (from, first) in &repeats {
        // The chain is followed to its end; it has no cycles.
        let mut root = *first;
        while let Some(next) = repeats.get(&root) {
            root = *next;
        }
        let culprit = seen[root.0].name.to_owned();
        let device = Place::Target(seen[from.0].device.unwrap_or(seen[from.0].name).to_owned());
        seen[from.0].findings.list[from.1].reported = Reported::At(Place::Target(culprit));
        let also = &mut seen[root.0].findings.list[root.1].also;
        if !also.contains(&device) {
            also.push(device);
        }
    }
    causes::follow_down(seen);
}

fn first_of(seen: &[Seen<'_>], repeated: At, repeats: &BTreeMap<At, At>) -> Option<At> {
    let upper = &seen[repeated.0];
    let finding = &upper.findings[repeated.1];
    if finding.reported != Reported::Here {
        return None;
    }
    (0..seen.len()).filter(|lower| *lower != repeated.0).find_map(|place| {
        let lower = &seen[place];
        let stands_on = lower.carries(upper);
        // Members of one array have its UUID.
        let is_joined = finding.rule.code == Code::OFF_ARRAY_STRIPE || !lower.above.is_disjoint(&upper.above);
        let is_beside = place < repeated.0 && !stands_on && !upper.carries(lower) && is_joined;
        let is_same = |(index, other): &(usize, &Finding)| {
            other.reported == Reported::Here
                && !repeats.contains_key(&(place, *index))
                && ((stands_on && shows(other, finding)) || (is_beside && is_one_thing(other, finding)))
        };
        let (index, _) = lower.findings.iter().enumerate().find(is_same)?;
        Some((place, index))
    })
}

fn shows(lower: &Finding, upper: &Finding) -> bool {
    if lower.rule != upper.rule {
        return false;
    }
    match (lower.layer.is_empty(), upper.layer.is_empty()) {
        (false, false) => leads_further(&lower.layer, &upper.layer),
        // The kernel passes this state up to every device that stands on the lower one.
        (true, true) => lower.rule.code == Code::KERNEL_MISALIGNED,
        _ => false,
    }
}

/// One of the paths may lack hidden LVM volumes.
fn leads_further(lower: &[Step], upper: &[Step]) -> bool {
    let (Some((last, lower)), Some((same, upper))) = (lower.split_last(), upper.split_last()) else {
        return false;
    };
    if !last.is(same) {
        return false;
    }
    match (lower.last(), upper.last()) {
        // Content that fills the whole upper device cannot lie on a partition of the lower one.
        (Some(step), None) => !step.is_partition(),
        (Some(step), Some(same)) => step.is(same) && (!step.is_partition() || lower.len() > upper.len()),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests;
