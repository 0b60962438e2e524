//! A partition table in `check --json`, its partitions with their verdicts, and the image format around it.

use crate::{Judgement, Severity, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::image::Container;
use straddle_layout::{Partition, TableKind};
use straddle_units::{BlockSize, ByteCount};

/// A partition table, or what is there instead.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Table")]
pub(super) struct TableReport {
    #[serde(flatten)]
    pub(super) kind: TableKind,
    /// The sector size in bytes that the table uses.
    pub(super) sector_bytes: BlockSize,
}

/// A partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JudgedPartition")]
pub struct PartitionReport {
    /// The partition.
    #[serde(flatten)]
    pub partition: Partition,
    /// The verdict that follows from all findings, even if they are not listed here (excluded by `--only` or
    /// `--ignore`, or listed at another target).
    verdict: Verdict,
    /// How severely the partition's contents are misaligned, because of its start or that of a layer on it;
    /// absent if they are not. Like the verdict, this follows from all findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misaligned: Option<Severity>,
}

impl PartitionReport {
    pub(super) fn of(partition: &Partition, judgement: &Judgement) -> Self {
        let of = judgement.partition(partition.number);
        Self {
            partition: partition.clone(),
            verdict: of.map_or(Verdict::Aligned, |of| of.verdict),
            misaligned: of.and_then(|of| of.misaligned),
        }
    }
}

/// The image format of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Container")]
pub(crate) struct ContainerReport {
    /// The name of the format.
    format: String,
    /// The variant or version of the format.
    variant: &'static str,
    /// The size in bytes of the blocks that the file stores contiguously.
    block_bytes: u64,
    /// The alignment in bytes that all sampled blocks have in the file; absent if no block is stored yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment_bytes: Option<u64>,
    /// The number of blocks that were sampled.
    blocks_sampled: u32,
}

pub(super) fn container_report(container: &Container) -> ContainerReport {
    ContainerReport {
        format: container.format.to_string(),
        variant: container.variant,
        block_bytes: container.block.get(),
        alignment_bytes: container.placement.alignment().map(ByteCount::get),
        blocks_sampled: container.placement.units(),
    }
}
