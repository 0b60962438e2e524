//! A partition table in `check --json`, and its partitions with their verdicts.

use crate::{Judgement, Severity, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_layout::{Content, Partition, PartitionType, Role, Stack, TableKind, types};
use straddle_units::ByteCount;

use super::layers::{LayerReport, layer_report};

/// A partition table, or what is there instead.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Table")]
pub(crate) struct TableReport {
    /// "gpt", "hybrid", "mbr", "kernel" (the partitions as the kernel lists them), "content" (no table, but a
    /// known file system or other content), "other" (a table of a kind that is not read), or "none".
    format: &'static str,
    /// For the format "content": the TYPE that blkid reports. For the format "other": the PTTYPE. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    /// The size in bytes of the sectors in which the table counts.
    sector_bytes: u64,
}

/// A partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Partition")]
pub struct PartitionReport {
    /// The partition number.
    pub number: u32,
    /// The first sector.
    pub start_lba: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// The offset of the first byte.
    pub start_bytes: u64,
    /// The size in bytes.
    pub size_bytes: u64,
    /// "primary", "extended" or "logical".
    role: &'static str,
    /// The GPT type GUID, or the MBR type in hexadecimal, as sfdisk writes it; absent if unknown.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name of the type; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_name: Option<&'static str>,
    /// The GUID of the partition; absent without a GPT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The name of the partition; absent without a GPT, and if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The content recognised by its first bytes: the TYPE that blkid reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'static str>,
    /// The layer on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<LayerReport>,
    /// The verdict that follows from all findings, even if they are not listed here (excluded by `--only` or
    /// `--ignore`, or listed at another target).
    verdict: Verdict,
    /// How severely what is written in it is misaligned, by its start or by that of a layer on it; absent if it is not.
    /// Like the verdict, it follows from all findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misaligned: Option<Severity>,
}

impl PartitionReport {
    /// Returns its size, to be rounded when printed.
    pub fn size(&self) -> ByteCount {
        ByteCount::new(self.size_bytes)
    }

    /// Returns the word for its verdict.
    pub fn verdict_word(&self) -> String {
        serde_json::to_value(self.verdict)
            .ok()
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

pub(crate) fn table_report(stack: &Stack) -> TableReport {
    let (format, content) = match stack.kind {
        TableKind::Gpt => ("gpt", None),
        TableKind::HybridMbr => ("hybrid", None),
        TableKind::Mbr => ("mbr", None),
        TableKind::Kernel => ("kernel", None),
        TableKind::Content(content) => ("content", Some(content.name())),
        TableKind::Foreign(name) => ("other", Some(name)),
        TableKind::None => ("none", None),
    };
    TableReport { format, content, sector_bytes: stack.block.get() }
}

pub(crate) fn partition_report(partition: &Partition, judgement: &Judgement) -> PartitionReport {
    let of = judgement.partition(partition.number);
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
        verdict: of.map_or(Verdict::Aligned, |of| of.verdict),
        misaligned: of.and_then(|of| of.misaligned),
    }
}
