//! What a member of an array does not show of the array.
//!
//! Invariants: for a disk that is one of several, it says what has to be checked on the array. If
//! the kernel shows what is on the array, or a mirror shows all of it, there is nothing to say.

use straddle_layout::layer::{Facts, Layer, Md};
use straddle_layout::{Role, Stack, TableKind};
use straddle_units::ByteOffset;

use crate::compensation;
use crate::names::level_name;

/// Why the array's contents cannot be judged from the whole disk `stack`, one of its members: they start on
/// another disk, or their place is unknown. `None` if they can be seen, and for a disk that is not a member.
pub fn unseen(stack: &Stack) -> Option<String> {
    let TableKind::Content(content) = stack.kind else { return None };
    let layer = stack.layer.as_ref().filter(|_| content.is_array_member())?;
    match &layer.facts {
        Facts::Md(md) if !shows_start(layer) => Some(match md.role {
            Some(role) => format!(
                "it is member {role} of {} of an array ({}) that starts on another member",
                md.raid_disks,
                level_name(md)
            ),
            None => format!("it is a member of an array ({}) that starts on another member", level_name(md)),
        }),
        Facts::Md(md) => elsewhere(layer, md).or_else(|| unread(layer, md)),
        Facts::Mapped(_) => None,
        _ if shows_content(layer) => None,
        _ => Some(format!("it is a member of an array ({content}) whose layout is unknown")),
    }
}

/// Whether the array's first bytes are on this member, or its contents are known otherwise.
fn shows_start(layer: &Layer) -> bool {
    layer.space.iter().any(|piece| piece.span.start() == ByteOffset::ZERO) || shows_content(layer)
}

/// Whether the layer is known to contain anything. A nested array is how it is built, not what it contains.
fn shows_content(layer: &Layer) -> bool {
    layer
        .children
        .iter()
        .any(|child| !matches!(child.facts, Facts::Opaque | Facts::Md(_)) || shows_content(child))
}

/// Describes a partition of the array that has no byte on this member, if there is one.
fn elsewhere(layer: &Layer, md: &Md) -> Option<String> {
    let tables = layer.children.iter().filter_map(|child| match &child.facts {
        Facts::Table(table) => Some((child, table)),
        _ => None,
    });
    let mut listed = tables.flat_map(|(child, table)| table.partitions.iter().map(move |p| (child, p)));
    let (_, partition) =
        listed.find(|(child, p)| p.role != Role::Extended && compensation::nested(child, p).is_none())?;
    Some(format!("partition {} of its array ({}) is on other members", partition.number, level_name(md)))
}

/// Describes a table on the array whose kind is known but whose partitions are not read, if there is one.
fn unread(layer: &Layer, md: &Md) -> Option<String> {
    let is_unread = |child: &&Layer| child.facts == Facts::Opaque && child.kind.is_foreign_table();
    let table = layer.children.iter().find(is_unread)?;
    Some(format!(
        "its array ({}) has a partition table of type {}, which straddle does not read",
        level_name(md),
        table.kind
    ))
}
