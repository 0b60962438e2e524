//! One cause, one fix: a finding that follows from another one refers to it, and has no fix of its own.
//!
//! Invariants: a finding that follows counts in every verdict. Only a reported finding can be a cause, so
//! that its fix is reported somewhere. In doubt a finding stands on its own.

use std::collections::{BTreeMap, BTreeSet};

use straddle_device::DeviceKind;
use straddle_units::Boundary;

use crate::catalogue::Code;
use crate::finding::{About, Cause, Finding, Findings, Fix, Kind, Place, Reported, Severity, Subject};
use crate::{Context, layers};

pub(crate) struct Seen<'a> {
    pub(crate) name: &'a str,
    pub(crate) device: Option<&'a str>,
    /// The devices that stand on the target or on one of its partitions.
    pub(crate) above: BTreeSet<String>,
    /// The devices that stand on each partition, by its number.
    pub(crate) on: BTreeMap<u32, BTreeSet<String>>,
    /// The disks that the target stands on.
    pub(crate) below: BTreeSet<String>,
    pub(crate) findings: &'a mut Findings,
}

/// Which findings on a target follow from which others, provided that both end up reported.
pub(crate) fn suspect(context: &Context<'_>, findings: &mut [Finding]) {
    for partition in &context.stack.partitions {
        let number = Subject::Partition(partition.number);
        let start = Some(partition.span.start());
        let is_of_start = |f: &Finding| f.subject == number && f.layer.is_empty() && f.at == start;
        let counts = |f: &&Finding| is_of_start(f) && f.miss.is_some() && f.severity > Severity::Advice;
        // The first boundary in the list is the finest.
        let Some(cause) = findings.iter().find(counts).map(Cause::of) else { continue };
        for finding in findings.iter_mut().filter(|f| is_of_start(f) && f.rule.code != cause.code) {
            if finding.miss.is_some() || finding.rule.code == Code::DOS_START {
                finding.follows = vec![cause.clone()];
            }
        }
        // Pages in whole units if the file system started on a boundary.
        let is_of_page =
            |f: &&mut Finding| f.rule.code == Code::PAGE_STRADDLES && f.subject == number && f.at == start;
        for finding in findings.iter_mut().filter(is_of_page).filter(|_| fills_units(context)) {
            finding.follows = vec![cause.clone()];
        }
    }
    // The shift can only be fixed in what such a device stands on.
    if !matches!(context.kind, DeviceKind::Md | DeviceKind::DeviceMapper | DeviceKind::Loop) {
        return;
    }
    let made_up =
        |f: &&Finding| f.rule.code == Code::LAYERS_CANCEL && f.subject == Subject::Disk && f.layer.len() == 1;
    let made_up = findings.iter().find(made_up).map(Cause::of);
    let Some(shift) = findings.iter().find(|f| is_shift(f)).map(Cause::of) else { return };
    for finding in findings.iter_mut() {
        if is_shifted(finding) {
            finding.follows = vec![shift.clone()];
        } else if is_shift(finding) {
            finding.follows = made_up.iter().cloned().collect();
        }
    }
}

/// Whole units, or a part of one, of each kind that the drive has.
fn fills_units(context: &Context<'_>) -> bool {
    let unit = context.topology.indirection_unit.as_ref().map(|figure| figure.value());
    let mut units = unit.into_iter().chain([context.topology.physical.value()]);
    context.page.is_some_and(|page| units.all(|unit| layers::filesystems::is_whole(page, unit)))
}

/// The device's own addresses are shifted, or cannot be aligned.
fn is_shift(finding: &Finding) -> bool {
    finding.rule.code == Code::FIRMWARE_OFFSET || finding.rule.code == Code::KERNEL_MISALIGNED
}

/// Would be met if the device's addresses were not shifted.
fn is_shifted(finding: &Finding) -> bool {
    let Some((miss, at)) = finding.miss.zip(finding.at) else { return false };
    let unshifted = Boundary::multiples_of(miss.boundary.size());
    let stays = finding.fix.as_ref().is_some_and(|fix| fix.summary.starts_with(layers::STAYS));
    finding.layer.is_empty() && !stays && unshifted.is_some_and(|boundary| boundary.is_aligned(at))
}

pub(crate) fn settle(findings: &mut [Finding]) {
    let reported: Vec<Cause> =
        findings.iter().filter(|f| f.reported == Reported::Here).map(Cause::of).collect();
    for finding in findings.iter_mut() {
        finding.follows.retain(|cause| reported.contains(cause));
        if !finding.follows.is_empty() {
            finding.unfixed();
        }
    }
    wait_for_the_conversion(findings);
    wait_for_the_move(findings);
}

fn has_commands(finding: &Finding) -> bool {
    finding.fix.as_ref().is_some_and(|fix| !fix.commands.is_empty())
}

/// Commands that change an image which is to be converted would change the old one.
fn wait_for_the_conversion(findings: &mut [Finding]) {
    let is_conversion =
        |f: &&Finding| f.rule.about == About::Container && f.reported == Reported::Here && has_commands(f);
    let Some(code) = findings.iter().find(is_conversion).map(|finding| finding.rule.code) else { return };
    for finding in findings.iter_mut().filter(|f| f.rule.about != About::Container && has_commands(f)) {
        let Some(fix) = &mut finding.fix else { continue };
        fix.without_commands();
        finding.alternative = None;
        fix.summary += &format!(
            ", after the conversion ({code}); then check the new image to get the commands (check --ignore \
             {code} prints them for this image)"
        );
    }
}

fn wait_for_the_move(findings: &mut [Finding]) {
    let moves = |f: &&Finding| {
        f.reported == Reported::Here
            && f.rule.about == About::Placement
            && f.rule.code != Code::HIDDEN_SECTORS
            && has_commands(f)
    };
    let moved: Vec<Cause> = findings.iter().filter(moves).map(Cause::of).collect();
    let waits = |f: &&mut Finding| f.rule.code == Code::HIDDEN_SECTORS && has_commands(f);
    for finding in findings.iter_mut().filter(waits) {
        let Some(cause) = moved.iter().find(|cause| cause.subject == finding.subject) else { continue };
        finding.fix = Some(Fix::advice(format!(
            "fix {} first and check again, because moving the partition also moves its boot sectors. To \
             leave the partition where it is, run check --only {}, which prints the commands for its current \
             start",
            cause.code, finding.rule.code
        )));
    }
}

pub(crate) fn follow_down(seen: &mut [Seen<'_>]) {
    for upper in 0..seen.len() {
        let Some(causes) = below(seen, upper).filter(|causes| !causes.is_empty()) else { continue };
        // The device's own faults, and shifts that a layer makes up for, do not follow from anything below.
        let follows = |f: &&mut Finding| {
            let own = f.follows.iter().any(|cause| cause.code == Code::LAYERS_CANCEL);
            f.reported == Reported::Here && !own && (is_shift(f) || is_phase(f) && is_shifted(f))
        };
        for finding in seen[upper].findings.list.iter_mut().filter(follows) {
            finding.follows.clone_from(&causes);
            finding.unfixed();
        }
    }
}

/// `None` if a misalignment is not reported, or may be on a disk that was not examined.
fn below(seen: &[Seen<'_>], upper: usize) -> Option<Vec<Cause>> {
    let device = seen[upper].device?;
    let is_seen = |disk: &String| seen.iter().any(|lower| lower.device == Some(disk));
    if !seen[upper].below.iter().all(is_seen) {
        return None;
    }
    let mut causes: Vec<Cause> = Vec::new();
    for lower in (0..seen.len()).filter(|lower| *lower != upper) {
        let found = seen[lower].findings.iter();
        for finding in found.filter(|f| is_off(f) && seen[lower].is_below(device, f)) {
            let cause = cause_of(seen, lower, finding)?;
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
    }
    Some(causes)
}

/// At the target where it is reported.
fn cause_of(seen: &[Seen<'_>], lower: usize, finding: &Finding) -> Option<Cause> {
    let at = |seen: &Seen<'_>, finding| Cause { target: Some(seen.name.to_owned()), ..Cause::of(finding) };
    match &finding.reported {
        Reported::Here => Some(at(&seen[lower], finding)),
        Reported::At(Place::Target(name)) => {
            let device = Place::Target(seen[lower].device?.to_owned());
            let culprit = seen.iter().find(|other| other.name == name.as_str())?;
            let is_it = |other: &&Finding| other.rule == finding.rule && other.also.contains(&device);
            culprit.findings.iter().find(is_it).map(|found| at(culprit, found))
        }
        _ => None,
    }
}

fn is_phase(finding: &Finding) -> bool {
    finding.miss.is_some_and(|miss| miss.boundary.phase().get() != 0)
}

const LAYER_STARTS: [Code; 4] =
    [Code::MD_DATA_STRADDLES, Code::PV_DATA_STRADDLES, Code::LUKS_PAYLOAD_STRADDLES, Code::PAYLOAD_STRADDLES];

/// Of a disk, a partition, or a layer's data.
fn is_off(finding: &Finding) -> bool {
    let is_start = match finding.rule.about {
        About::Placement => finding.rule.kind == Kind::Alignment && finding.rule.code != Code::END_STRADDLES,
        _ => LAYER_STARTS.contains(&finding.rule.code),
    };
    is_start && finding.severity > Severity::Advice && finding.miss.is_some() && finding.follows.is_empty()
}

impl Seen<'_> {
    fn is_below(&self, device: &str, finding: &Finding) -> bool {
        let layers = finding.layer.iter().filter(|step| !step.is_partition()).count();
        let stands = match finding.subject {
            Subject::Partition(number) => self.on.get(&number).is_some_and(|above| above.contains(device)),
            // A device on a partition does not stand on the disk itself.
            Subject::Disk => {
                self.above.contains(device) && !self.on.values().any(|above| above.contains(device))
            }
        };
        stands && layers <= 1
    }
}

#[cfg(test)]
mod tests;
