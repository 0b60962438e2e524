//! What `check --json` prints: the audit of each target.

use crate::examine::{ExamineError, Examined};
use crate::{Judgement, Kind, Severity, Status, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::Traffic;
use straddle_device::image::Container;
use straddle_device::shown::with_causes;
use straddle_layout::layer::Layer;
use straddle_layout::{Partition, TableKind};
use straddle_units::{BlockSize, ByteCount};

use super::device::{DeviceReport, device_report};
use super::finding::{FindingReport, IgnoredReport, finding_reports, ignored_report};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub const SCHEMA: u32 = 3;

/// What `straddle check --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle check")]
pub struct Report {
    /// The schema version of this output. It is incremented when the meaning of a field changes or a field is
    /// removed, not when a field is added.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The name of the host; present only if all disks of the running system were audited and the host has a
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// The targets, in the order in which they were named.
    targets: Vec<TargetReport>,
    /// The number of targets by status.
    summary: Summary,
}

/// The number of targets by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// The number of targets.
    pub targets: usize,
    /// Targets without a finding.
    pub ok: usize,
    /// Targets that are blank: there is no data where a table or contents would begin.
    pub blank: usize,
    /// Targets with advice only.
    pub advice: usize,
    /// Targets with warnings, and no errors.
    pub warning: usize,
    /// Targets with errors.
    pub error: usize,
    /// Targets whose alignment could not be determined.
    pub not_judged: usize,
    /// Targets that could not be audited.
    pub failed: usize,
}

impl Summary {
    /// Counts one more target.
    pub fn add(&mut self, status: Status) {
        self.targets += 1;
        match status {
            Status::Ok => self.ok += 1,
            Status::Blank => self.blank += 1,
            Status::Advice => self.advice += 1,
            Status::Warning => self.warning += 1,
            Status::Error => self.error += 1,
            Status::NotJudged => self.not_judged += 1,
            Status::Failed => self.failed += 1,
        }
    }
}

impl Report {
    /// Returns the document of these targets.
    pub fn of(targets: Vec<TargetReport>) -> Self {
        let mut summary = Summary::default();
        targets.iter().for_each(|target| summary.add(target.status));
        Self { schema: SCHEMA, straddle: env!("CARGO_PKG_VERSION"), host: None, targets, summary }
    }
}

/// Returns the start of the document, before the targets. The document is written while they are audited.
pub fn opening(host: Option<&str>) -> String {
    let host = host.map(|host| format!("\"host\":{},", serde_json::Value::from(host))).unwrap_or_default();
    format!("{{\"schema\":{SCHEMA},\"straddle\":\"{}\",{host}\"targets\":[", env!("CARGO_PKG_VERSION"))
}

/// Returns the end of the document, after the targets.
pub fn closing(summary: Summary) -> Result<String, serde_json::Error> {
    Ok(format!("\n],\"summary\":{}}}", serde_json::to_string(&summary)?))
}

/// The audit of one target.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Target")]
pub struct TargetReport {
    /// The target as named on the command line.
    pub target: String,
    /// The result of the audit.
    pub status: Status,
    /// The kinds of the findings that determine the status; absent if the status is "ok", "blank",
    /// "not_judged" or "failed".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<Kind>,
    /// How severely the target's contents are misaligned, according to the findings that count for the
    /// status; absent if they are not misaligned, or were not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misaligned: Option<Severity>,
    /// Why nothing on the target was judged; present with the status "not_judged" or "blank", and for a table
    /// without partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the target could not be audited; only with the status "failed".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The device or image; absent if it could not be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceReport>,
    /// The partition table, or what the target holds instead; absent if the target could not be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<TableReport>,
    /// The format of an image that is not raw.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<ContainerReport>,
    /// What was fetched from the server; present only if the target is an object on a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic: Option<Traffic>,
    /// The lowest layer on the whole disk, with the layers above it, if there is no partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<Layer>,
    /// The partitions, in order of number.
    pub partitions: Vec<PartitionReport>,
    /// The findings, without those excluded by `--only` and `--ignore`. A finding that several targets share
    /// is listed at one of them.
    pub findings: Vec<FindingReport>,
    /// The findings that the configuration file ignores; absent if there are none. They do not count for the
    /// status, but do for the verdicts on partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredReport>,
    /// What could not be read, and why.
    notes: Vec<String>,
}

impl TargetReport {
    /// Returns the report for a target that could not be audited.
    pub fn failed(target: String, error: String) -> Self {
        Self {
            target,
            status: Status::Failed,
            kinds: Vec::new(),
            misaligned: None,
            reason: None,
            error: Some(error),
            device: None,
            table: None,
            container: None,
            traffic: None,
            layer: None,
            partitions: Vec::new(),
            findings: Vec::new(),
            ignored: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the report for a target of a kind that is known but not read.
    pub fn not_read(target: String, reason: String) -> Self {
        let failed = Self::failed(target, String::new());
        Self { status: Status::NotJudged, reason: Some(reason), error: None, ..failed }
    }

    /// Returns the report for a target that could not be examined.
    pub fn unexamined(target: String, error: &ExamineError) -> Self {
        match error.not_judged() {
            Some(reason) => Self::not_read(target, reason),
            None => Self::failed(target, with_causes(error)),
        }
    }

    /// Returns the report for an audited target.
    pub fn of(audited: &Examined) -> Self {
        let (name, target, stack, judgement) =
            (audited.name(), audited.target(), audited.stack(), audited.judgement());
        Self {
            target: name.to_owned(),
            status: judgement.status(),
            kinds: judgement.kinds().to_vec(),
            misaligned: judgement.misaligned(),
            reason: audited.not_judged().or(audited.nothing_to_judge()).map(str::to_owned),
            error: None,
            device: Some(device_report(audited)),
            table: Some(TableReport { kind: stack.kind, sector_bytes: stack.block }),
            container: target.container.as_ref().map(container_report),
            traffic: target.traffic,
            layer: stack.layer.clone(),
            partitions: stack.partitions.iter().map(|p| PartitionReport::of(p, judgement)).collect(),
            findings: finding_reports(audited.reported()),
            ignored: audited.ignored().map(|(finding, reason)| ignored_report(finding, reason)).collect(),
            notes: audited.remarks(),
        }
    }
}

/// A partition table, or what a target holds instead.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Table")]
struct TableReport {
    #[serde(flatten)]
    kind: TableKind,
    /// The sector size in bytes that the table uses.
    sector_bytes: BlockSize,
}

/// A partition with the verdict on it.
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
    fn of(partition: &Partition, judgement: &Judgement) -> Self {
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
struct ContainerReport {
    /// The name of the format.
    format: String,
    /// The variant or version of the format.
    variant: &'static str,
    /// The size in bytes of the blocks that the file stores contiguously.
    block_bytes: u64,
    /// The alignment, in bytes, to which all sampled blocks are stored in the file; absent if no block is
    /// stored yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment_bytes: Option<u64>,
    /// The number of blocks that were sampled.
    blocks_sampled: u32,
}

fn container_report(container: &Container) -> ContainerReport {
    ContainerReport {
        format: container.format.to_string(),
        variant: container.variant,
        block_bytes: container.block.get(),
        alignment_bytes: container.placement.alignment().map(ByteCount::get),
        blocks_sampled: container.placement.units(),
    }
}
