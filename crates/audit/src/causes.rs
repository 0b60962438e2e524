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

/// A target of a run and the findings on it. Devices are named as the kernel does.
pub(crate) struct Seen<'a> {
    pub(crate) name: &'a str,
    /// The target's own device.
    pub(crate) device: Option<&'a str>,
    /// The devices that stand on the target or on one of its partitions.
    pub(crate) above: BTreeSet<String>,
    /// The devices that stand on each partition, by its number.
    pub(crate) on: BTreeMap<u32, BTreeSet<String>>,
    /// The disks that the target stands on.
    pub(crate) below: BTreeSet<String>,
    pub(crate) findings: &'a mut Findings,
}

/// Determines which findings on a target follow from which others, provided that both end up reported.
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
        // Pages that would be in whole units if the file system started on a boundary.
        let is_of_page =
            |f: &&mut Finding| f.rule.code == Code::PAGE_STRADDLES && f.subject == number && f.at == start;
        for finding in findings.iter_mut().filter(is_of_page).filter(|_| fills_units(context)) {
            finding.follows = vec![cause.clone()];
        }
    }
    // Only the shift of such a device can be fixed, in what it stands on.
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

/// Whether a page is whole units, or a part of one, of each kind that the drive has.
fn fills_units(context: &Context<'_>) -> bool {
    let unit = context.topology.indirection_unit.as_ref().map(|figure| figure.value());
    let mut units = unit.into_iter().chain([context.topology.physical.value()]);
    context.page.is_some_and(|page| units.all(|unit| layers::filesystems::is_whole(page, unit)))
}

/// Whether the finding reports that the device's own addresses are shifted, or cannot be aligned.
fn is_shift(finding: &Finding) -> bool {
    finding.rule.code == Code::FIRMWARE_OFFSET || finding.rule.code == Code::KERNEL_MISALIGNED
}

/// Whether the missed boundary would be met if the device's addresses were not shifted.
fn is_shifted(finding: &Finding) -> bool {
    let Some((miss, at)) = finding.miss.zip(finding.at) else { return false };
    let unshifted = Boundary::multiples_of(miss.boundary.size());
    let stays = finding.fix.as_ref().is_some_and(|fix| fix.summary.starts_with(layers::STAYS));
    finding.layer.is_empty() && !stays && unshifted.is_some_and(|boundary| boundary.is_aligned(at))
}

/// Keeps only causes that are reported, and removes the fix of every finding that still has a cause.
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

/// Removes the commands that change an image which is to be converted: they would change the old one.
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

/// Replaces the fix of a boot sector by advice if the partition is to be moved from this place.
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

/// Determines which findings on a device follow from other targets below it, and from layers on those.
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

/// All misalignments below `upper`. `None` if one is not reported, or may be on a disk that was not examined.
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

/// The cause that a finding on the target `lower` is for findings above, at the target where it is reported.
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

/// The rules for a layer whose data begins off a physical sector.
const LAYER_STARTS: [Code; 4] =
    [Code::MD_DATA_STRADDLES, Code::PV_DATA_STRADDLES, Code::LUKS_PAYLOAD_STRADDLES, Code::PAYLOAD_STRADDLES];

/// Whether a finding reports a misaligned start of a disk, a partition, or a layer's data.
fn is_off(finding: &Finding) -> bool {
    let is_start = match finding.rule.about {
        About::Placement => finding.rule.kind == Kind::Alignment && finding.rule.code != Code::END_STRADDLES,
        _ => LAYER_STARTS.contains(&finding.rule.code),
    };
    is_start && finding.severity > Severity::Advice && finding.miss.is_some() && finding.follows.is_empty()
}

impl Seen<'_> {
    /// Whether `device` stands on the subject of `finding`, of the first layer or below.
    fn is_below(&self, device: &str, finding: &Finding) -> bool {
        let layers = finding.layer.iter().filter(|step| !step.is_partition()).count();
        let stands = match finding.subject {
            Subject::Partition(number) => self.on.get(&number).is_some_and(|above| above.contains(device)),
            // A device that stands on a partition does not stand on the disk itself.
            Subject::Disk => {
                self.above.contains(device) && !self.on.values().any(|above| above.contains(device))
            }
        };
        stands && layers <= 1
    }
}

#[cfg(test)]
mod tests;
