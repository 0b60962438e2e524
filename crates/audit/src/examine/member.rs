//! What can be judged of a member of an array, or of a disk that has a table besides its content.

use straddle_device::{DeviceKind, Target};
use straddle_layout::layer::{Facts, Layer, Md};
use straddle_layout::{Beside, Content, Role, Stack, TableKind, VolumeKind};
use straddle_units::ByteOffset;

use crate::compensation::nested;
use crate::examine::{Alongside, Examined};
use crate::way::level_name;
use crate::{Findings, Fix, Recognised};

/// `content` marks `target` as a member of an array that is not running.
pub(crate) fn recognised(target: &Target, stack: &Stack, content: Content) -> Recognised {
    if let Some(why) = rival(target, stack, content) {
        return Recognised::Nothing(why);
    }
    let part = |why| Recognised::Part(format!("{why}. {}", assemble(content, target.kind)));
    unseen(stack).map_or(Recognised::Known, part)
}

/// As [`recognised`], where the array runs as `arrays`, one of which shows the rest if examined too.
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
    unseen(stack).map_or(Recognised::Known, part)
}

/// Judges members that do not show the array's contents with one that does.
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

fn array_of(stack: &Stack) -> Option<(Content, String)> {
    let TableKind::Content(content) = stack.kind else { return None };
    let layer = stack.layer.as_ref().filter(|layer| content.is_array_member() && !layer.uuid.is_empty())?;
    Some((content, layer.uuid.clone()))
}

fn assemble(content: Content, kind: DeviceKind) -> String {
    let disks = match kind {
        DeviceKind::Image => "Attach the images of all members (losetup), assemble",
        _ => "Assemble",
    };
    let how = match content {
        Content::Volume(VolumeKind::Drbd) => "drbdadm up all",
        // mdadm also assembles the arrays of Intel's firmware, and of firmware that follows SNIA's DDF.
        _ if ["linux_raid_member", "isw_raid_member", "ddf_raid_member"].contains(&content.name()) => {
            "mdadm --assemble --scan"
        }
        _ => "dmraid -ay",
    };
    format!("{disks} the array ({how}), and check that")
}

/// The target's table, which may be valid, contradicts `content`.
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
        (format!("it starts with {content}"), "")
    };
    Some(format!(
        "{taken_for}, and has a partition table ({}) {lists}: one of the two is a leftover, and straddle \
        cannot tell which. Clear the leftover (wipefs){or}",
        table.name
    ))
}

/// The table shows nothing, and leaves known content of the whole untouched.
pub(crate) fn beside_table(stack: &Stack, beside: &[Beside]) -> Option<String> {
    let rival = straddle_layout::rival_content(stack, beside).filter(|rival| !rival.shows_partition)?;
    let (content, table) = (rival.content, rival.table);
    let lists = rival.partition.map_or_else(
        || "that cannot be read".to_owned(),
        |number| format!("that lists partition {number}, whose contents are unknown"),
    );
    Some(format!(
        "it holds {content}, and has a partition table ({table}) {lists}: one of the two is a leftover, and \
         straddle cannot tell which. Clear the leftover (wipefs)"
    ))
}

/// Removes the commands that would overwrite other content outside of every partition. `plan` refuses such disks too.
pub(crate) fn spare(stack: &Stack, beside: &[Beside], findings: &mut Findings) {
    let is_harmed = |found: &Beside| !found.is_table() && !found.is_covered && !found.is_optical();
    if matches!(stack.kind, TableKind::Content(_)) || !beside.iter().any(is_harmed) {
        return;
    }
    findings.withhold_commands(Fix::writes_table);
}

/// Its contents start on another disk, or their place is unknown. `None` if they are seen, or it is not a member.
fn unseen(stack: &Stack) -> Option<String> {
    let TableKind::Content(content) = stack.kind else { return None };
    let layer = stack.layer.as_ref().filter(|_| content.is_array_member())?;
    match &layer.facts {
        Facts::Md(md) => unseen_of_md(layer, md),
        Facts::Mapped(_) => None,
        _ if shows_content(layer) => None,
        _ => Some(format!("it is a member of an array ({content}) whose layout is unknown")),
    }
}

fn unseen_of_md(layer: &Layer, md: &Md) -> Option<String> {
    let level = level_name(md);
    let shows_start = layer.space.iter().any(|piece| piece.span.start() == ByteOffset::ZERO);
    if !shows_start && !shows_content(layer) {
        let role = md.role.map(|role| format!("member {role} of {}", md.raid_disks));
        let role = role.as_deref().unwrap_or("a member");
        return Some(format!("it is {role} of an array ({level}) that starts on another member"));
    }
    let tables = layer.children.iter().filter_map(|child| match &child.facts {
        Facts::Table(table) => Some((child, table)),
        _ => None,
    });
    let mut listed = tables.flat_map(|(child, table)| table.partitions.iter().map(move |p| (child, p)));
    if let Some((_, p)) = listed.find(|(child, p)| p.role != Role::Extended && nested(child, p).is_none()) {
        return Some(format!("partition {} of its array ({level}) is on other members", p.number));
    }
    let is_unread = |child: &&Layer| child.facts == Facts::Opaque && child.kind.is_foreign_table();
    let kind = layer.children.iter().find(is_unread)?.kind;
    Some(format!("its array ({level}) has a partition table of type {kind}, which straddle cannot read"))
}

/// A nested array is how a layer is built, not what it contains.
fn shows_content(layer: &Layer) -> bool {
    layer
        .children
        .iter()
        .any(|child| !matches!(child.facts, Facts::Opaque | Facts::Md(_)) || shows_content(child))
}
