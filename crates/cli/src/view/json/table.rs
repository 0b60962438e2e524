//! A partition table in `check --json`, and its partitions with their verdicts.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Judgement, Verdict};
use straddle_layout::{Content, Partition, PartitionType, Role, Stack, TableKind, types};

use super::layers::{LayerReport, layer_report};

/// A partition table, or what stands in its place.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Table")]
pub(super) struct TableReport {
    /// "gpt", "hybrid", "mbr", "kernel" (as the kernel lists it), "content" (no table, but a known file system or
    /// other content), "other" (a table that is not read), or "none".
    kind: &'static str,
    /// The known content, for the kind "content": blkid's TYPE; for the kind "other" its PTTYPE.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    /// The sector size that it counts in.
    sector_bytes: u64,
}

/// One partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Partition")]
pub(super) struct PartitionReport {
    /// Its number.
    number: u32,
    /// First sector.
    start_lba: u64,
    /// Number of sectors.
    sectors: u64,
    /// First byte.
    start_bytes: u64,
    /// Bytes.
    size_bytes: u64,
    /// "primary", "extended" or "logical".
    role: &'static str,
    /// GPT type GUID or MBR type, as sfdisk writes it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The type's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    type_name: Option<&'static str>,
    /// The partition's own GUID (GPT).
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    /// The partition's own name (GPT).
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// What its first bytes are known to be: blkid's TYPE.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    /// What stands on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<LayerReport>,
    /// What all findings make of it, whichever are listed here (`--only`, `--ignore`, told at another target).
    verdict: VerdictReport,
}

/// A verdict on a partition.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Verdict")]
enum VerdictReport {
    /// An extended partition, which cannot be misaligned.
    Container,
    /// On every known boundary.
    Aligned,
    /// Advice only: on the physical sector, or where being off it costs nothing.
    Advice,
    /// Off a boundary that costs on some workloads.
    Off,
    /// Straddles.
    Misaligned,
    /// Its boot sector says another place than its entry.
    BootSector,
    /// Its entry is damaged, or contradicts another one.
    Damaged,
    /// What is in it cannot be read.
    Unreadable,
}

pub(super) fn table_report(stack: &Stack) -> TableReport {
    let (kind, content) = match stack.kind {
        TableKind::Gpt => ("gpt", None),
        TableKind::HybridMbr => ("hybrid", None),
        TableKind::Mbr => ("mbr", None),
        TableKind::Kernel => ("kernel", None),
        TableKind::Content(content) => ("content", Some(content.name())),
        TableKind::Foreign(name) => ("other", Some(name)),
        TableKind::None => ("none", None),
    };
    TableReport { kind, content, sector_bytes: stack.block.get() }
}

pub(super) fn partition_report(partition: &Partition, judgement: &Judgement) -> PartitionReport {
    PartitionReport {
        number: partition.number,
        start_lba: partition.start.get(),
        sectors: partition.count.get(),
        start_bytes: partition.span.start().get(),
        size_bytes: partition.span.len().get(),
        role: match partition.role {
            Role::Primary => "primary",
            Role::Extended => "extended",
            Role::Logical { .. } => "logical",
        },
        kind: match partition.kind {
            PartitionType::Guid(guid) => Some(types::guid_text(guid)),
            PartitionType::Mbr(kind) => Some(format!("{kind:x}")),
            PartitionType::Unknown => None,
        },
        type_name: types::name(&partition.kind),
        uuid: partition.attributes.guid.map(types::guid_text),
        name: partition.attributes.name.clone(),
        content: partition.content.map(Content::name),
        layer: partition.layer.as_ref().map(layer_report),
        verdict: verdict_report(
            judgement.partition(partition.number).map_or(Verdict::Aligned, |of| of.verdict),
        ),
    }
}

fn verdict_report(verdict: Verdict) -> VerdictReport {
    match verdict {
        Verdict::Container => VerdictReport::Container,
        Verdict::Aligned => VerdictReport::Aligned,
        Verdict::AlignedWithAdvice => VerdictReport::Advice,
        Verdict::Off => VerdictReport::Off,
        Verdict::Misaligned => VerdictReport::Misaligned,
        Verdict::BootSector => VerdictReport::BootSector,
        Verdict::Damaged => VerdictReport::Damaged,
        Verdict::Unreadable => VerdictReport::Unreadable,
    }
}
