//! What can be judged of a disk that is a member of an array, or that has a table besides the content that
//! fills it.

use crate::{Findings, Fix, Recognised};
use straddle_device::{DeviceKind, Target};
use straddle_layout::{Beside, Content, Stack, TableKind, VolumeKind};

use crate::examine::{Alongside, Examined};

/// Returns what there is to judge on `target`, which `content` marks as a member of an array that is not
/// running.
pub(crate) fn recognised(target: &Target, stack: &Stack, content: Content) -> Recognised {
    let unseen = || {
        let why = crate::unseen(stack)?;
        Some(Recognised::Part(format!("{why}. {}", assemble(content, target.kind))))
    };
    rival(target, stack, content).map(Recognised::Nothing).or_else(unseen).unwrap_or(Recognised::Known)
}

/// As [`recognised`], where the array runs as the devices `arrays`: what the member does not show is judged
/// at one of these, if that is examined in the same run.
pub(crate) fn of_running(stack: &Stack, arrays: &[String], alongside: &Alongside) -> Recognised {
    let is_examined = match alongside {
        Alongside::Everything => true,
        Alongside::These(targets) => {
            targets.iter().any(|target| arrays.iter().any(|array| target.file_name() == Some(array.as_ref())))
        }
    };
    if is_examined {
        return Recognised::Known;
    }
    let named: Vec<String> = arrays.iter().map(|array| format!("/dev/{array}")).collect();
    let part = |why| Recognised::Part(format!("{why}. Check {}", named.join(" or ")));
    crate::unseen(stack).map_or(Recognised::Known, part)
}

/// Judges the members of arrays that do not show what the array holds with one that does.
pub(crate) fn settle(examined: &mut [&mut Examined]) {
    let shown =
        |one: &&mut Examined| Some((array_of(one.stack())?, one.name.clone())).filter(|_| one.is_seen());
    let shown: Vec<((Content, String), String)> = examined.iter().filter_map(shown).collect();
    for one in examined {
        let array = array_of(one.stack());
        if let Some((_, other)) = shown.iter().find(|(known, _)| Some(known) == array.as_ref()) {
            one.judge_with(other);
        }
    }
}

/// The array of which a whole disk is a member, by its UUID.
fn array_of(stack: &Stack) -> Option<(Content, String)> {
    let TableKind::Content(content) = stack.kind else { return None };
    let layer = stack.layer.as_ref().filter(|layer| content.is_array_member() && !layer.uuid.is_empty())?;
    Some((content, layer.uuid.clone()))
}

/// How to assemble the array of which `content` marks a disk as a member.
fn assemble(content: Content, kind: DeviceKind) -> String {
    let disks = match kind {
        DeviceKind::Image => "Attach the images of all members (losetup), assemble",
        _ => "Assemble",
    };
    let how = match content {
        Content::Volume(VolumeKind::Md | VolumeKind::Isw | VolumeKind::Ddf) => "mdadm --assemble --scan",
        Content::Volume(VolumeKind::Drbd) => "drbdadm up all",
        Content::Named(_) => "dmraid -ay",
        // Content without members, for which nothing is assembled.
        Content::Volume(
            VolumeKind::Pv
            | VolumeKind::Luks
            | VolumeKind::Integrity
            | VolumeKind::Verity
            | VolumeKind::Bcache,
        )
        | Content::FileSystem(_)
        | Content::LogicalVolume
        | Content::Table
        | Content::Live(_) => "dmraid -ay",
    };
    format!("{disks} the array ({how}), and check that")
}

/// Returns why a target taken for `content` as a whole is not judged: it also has a table that contradicts
/// this, and either may be left over.
pub(crate) fn rival(target: &Target, stack: &Stack, content: Content) -> Option<String> {
    let table = straddle_layout::rival_table(target.medium.as_deref()?, stack).ok()??;
    let lists = match table.partition {
        Some((number, Some(inside))) => format!("with {inside} in partition {number}"),
        Some((number, None)) => format!("that lists partition {number}, whose contents are unknown"),
        None => "whose partitions are not read".to_owned(),
    };
    let (taken_for, or) = if content.is_array_member() {
        (format!("it is marked as a member of an array ({content})"), ", or start the array")
    } else {
        (format!("it begins with {content}"), "")
    };
    Some(format!(
        "{taken_for}, and has a partition table ({}) {lists}: one of the two is a leftover, and straddle \
        cannot tell which. Clear the leftover (wipefs){or}",
        table.name
    ))
}

/// Returns why a target with a table is not judged: the whole of it also holds known content that the table
/// does not touch, and nothing is recognised in a partition.
pub(crate) fn beside_table(stack: &Stack, beside: &[Beside]) -> Option<String> {
    let rival = straddle_layout::rival_content(stack, beside)?;
    let (content, table) = (rival.content, rival.table);
    let lists = rival.partition.map_or_else(
        || "that cannot be read".to_owned(),
        |number| format!("that lists partition {number}, whose contents are unknown"),
    );
    (!rival.shows_partition).then(|| {
        format!(
            "it holds {content}, and has a partition table ({table}) {lists}: one of the two is a leftover, \
            and straddle cannot tell which. Clear the leftover (wipefs)"
        )
    })
}

/// Removes the commands that write a table or move data if there is other content on the disk outside every
/// partition: they would overwrite it. `plan` refuses such disks for the same reason.
pub(crate) fn spare(stack: &Stack, beside: &[Beside], findings: &mut Findings) {
    let is_harmed = |found: &Beside| !found.is_table() && !found.is_covered && !found.is_optical();
    if matches!(stack.kind, TableKind::Content(_)) || !beside.iter().any(is_harmed) {
        return;
    }
    findings.withhold_commands(Fix::writes_table);
}
