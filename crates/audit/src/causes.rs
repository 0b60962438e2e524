//! One cause, one fix: a finding that only follows from another one says from which, and has no fix of its own.
//!
//! The law of this module: what follows stays a finding, with its code and its severity, and counts in every verdict. Only
//! what is reported can be a cause, so that its fix is reported somewhere; in doubt a finding stands for itself.

use std::collections::{BTreeMap, BTreeSet};

use straddle_device::DeviceKind;
use straddle_units::Boundary;

use crate::catalogue as rules;
use crate::finding::{About, Cause, Finding, Fix, Kind, Place, Reported, Rule, Severity, Subject};
use crate::{Context, layers};

/// A target of a run, with what is found on it.
pub struct Seen<'a> {
    /// What it is called there.
    pub name: &'a str,
    /// The kernel's name of it, where it is a device.
    pub device: Option<&'a str>,
    /// The kernel's names of the devices that stand on it, or on a partition of it.
    pub above: BTreeSet<String>,
    /// The same for each of its partitions, by number.
    pub on: BTreeMap<u32, BTreeSet<String>>,
    /// The kernel's names of the disks that it stands on.
    pub below: BTreeSet<String>,
    /// What was found.
    pub findings: &'a mut [Finding],
}

/// Determines of all that is found on one target what follows from what, as far as both are reported in the end.
pub(crate) fn suspect(context: &Context<'_>, findings: &mut [Finding]) {
    for partition in &context.stack.partitions {
        let number = Subject::Partition(partition.number);
        let start = Some(partition.span.start());
        let is_of_start = |f: &Finding| f.subject == number && f.layer.is_empty() && f.at == start;
        let counts = |f: &&Finding| is_of_start(f) && f.miss.is_some() && f.severity > Severity::Advice;
        // The first boundary that is named is the finest.
        let Some(cause) = findings.iter().find(counts).map(Cause::of) else { continue };
        for finding in findings.iter_mut().filter(|f| is_of_start(f) && f.rule.code != cause.code) {
            if finding.miss.is_some() || *finding.rule == rules::DOS_START {
                finding.follows = vec![cause.clone()];
            }
        }
    }
    // Who uses such a device can mend what it stands on; a drive's own shift is there to stay.
    if !matches!(context.kind, DeviceKind::Md | DeviceKind::DeviceMapper | DeviceKind::Loop) {
        return;
    }
    let made_up =
        |f: &&Finding| *f.rule == rules::LAYERS_CANCEL && f.subject == Subject::Disk && f.layer.len() == 1;
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

/// Whether it says that the device's own addresses are shifted, or cannot be aligned.
fn is_shift(finding: &Finding) -> bool {
    *finding.rule == rules::FIRMWARE_OFFSET || *finding.rule == rules::KERNEL_MISALIGNED
}

/// Whether what is missed would be met, were the device's addresses not shifted.
fn is_shifted(finding: &Finding) -> bool {
    let Some((miss, at)) = finding.miss.zip(finding.at) else { return false };
    let unshifted = Boundary::multiples_of(miss.boundary.size());
    let stays = finding.fix.as_ref().is_some_and(|fix| fix.summary.starts_with(layers::STAYS));
    finding.layer.is_empty() && !stays && unshifted.is_some_and(|boundary| boundary.is_aligned(at))
}

/// Settles what follows from what, now that it is known what is reported.
pub(crate) fn settle(findings: &mut [Finding]) {
    let reported: Vec<Cause> =
        findings.iter().filter(|f| f.reported == Reported::Here).map(Cause::of).collect();
    for finding in findings.iter_mut() {
        finding.follows.retain(|cause| reported.contains(cause));
        if !finding.follows.is_empty() {
            finding.fix = None;
        }
    }
    wait_for_the_move(findings);
}

/// The bytes that a boot sector's fix names are those of its present place: they are another's once the partition moved.
fn wait_for_the_move(findings: &mut [Finding]) {
    let moves = |f: &&Finding| {
        f.reported == Reported::Here
            && f.rule.about == About::Placement
            && *f.rule != rules::HIDDEN_SECTORS
            && f.fix.as_ref().is_some_and(|fix| !fix.commands.is_empty())
    };
    let moved: Vec<Cause> = findings.iter().filter(moves).map(Cause::of).collect();
    for finding in findings.iter_mut().filter(|f| *f.rule == rules::HIDDEN_SECTORS) {
        let Some(cause) = moved.iter().find(|cause| cause.subject == finding.subject) else { continue };
        if finding.fix.as_ref().is_some_and(|fix| !fix.commands.is_empty()) {
            finding.fix = Some(Fix::advice(format!(
                "after that of {}: check again, for its boot sectors will be at other bytes. Where the partition stays, \
                 check --only {} has the commands for this place",
                cause.code, finding.rule.code
            )));
        }
    }
}

/// Says what on a device of a run follows from the disks and partitions of others that it stands on, and from what is on those.
pub(crate) fn follow_down(seen: &mut [Seen<'_>]) {
    for upper in 0..seen.len() {
        let Some(causes) = below(seen, upper).filter(|causes| !causes.is_empty()) else { continue };
        // What is off for itself, or is made up for, is another matter.
        let follows = |f: &&mut Finding| {
            let own = f.follows.iter().any(|cause| cause.code == rules::LAYERS_CANCEL.code);
            f.reported == Reported::Here && !own && (is_shift(f) || is_phase(f) && is_shifted(f))
        };
        for finding in seen[upper].findings.iter_mut().filter(follows) {
            finding.follows.clone_from(&causes);
            finding.fix = None;
        }
    }
}

/// Everything that is off below the target `upper`; `None` where some of it is not reported, or may not be seen: then what shows
/// above would still be there with the rest of it right.
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

/// A finding on the target `lower` as the cause of what shows above: as it is reported, there or at another target.
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

/// Whether a boundary that is missed is one of a device with shifted addresses.
fn is_phase(finding: &Finding) -> bool {
    finding.miss.is_some_and(|miss| miss.boundary.phase().get() != 0)
}

/// What says that the data of a layer begin off a physical sector.
const LAYER_STARTS: [&Rule; 4] = [
    &rules::MD_DATA_STRADDLES,
    &rules::PV_DATA_STRADDLES,
    &rules::LUKS_PAYLOAD_STRADDLES,
    &rules::PAYLOAD_STRADDLES,
];

/// Whether a finding says that what others stand on begins off a boundary: a disk, a partition, or the data of a layer on it.
fn is_off(finding: &Finding) -> bool {
    let is_start = match finding.rule.about {
        About::Placement => finding.rule.kind == Kind::Alignment && *finding.rule != rules::END_STRADDLES,
        _ => LAYER_STARTS.contains(&finding.rule),
    };
    is_start && finding.severity > Severity::Advice && finding.miss.is_some() && finding.follows.is_empty()
}

impl Seen<'_> {
    /// Whether `device` stands on what `finding` is about. Of what is on the layers further up nobody can tell here.
    fn is_below(&self, device: &str, finding: &Finding) -> bool {
        let layers = finding.layer.iter().filter(|step| !step.is_partition()).count();
        let stands = match finding.subject {
            Subject::Partition(number) => self.on.get(&number).is_some_and(|above| above.contains(device)),
            // Who stands on a partition does not stand on the disk itself.
            Subject::Disk => {
                self.above.contains(device) && !self.on.values().any(|above| above.contains(device))
            }
        };
        stands && layers <= 1
    }
}

#[cfg(test)]
mod tests;
