//! What `check --json` prints: the published form of an audit.
//!
//! These types are the interface: fields are added, never renamed, and [`SCHEMA`] counts what breaks. The domain's
//! own types may change behind them.

pub(crate) mod bench;
pub(crate) mod drive;
pub(crate) mod fit;
pub(crate) mod lab;
mod layers;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod reproduce;
pub(crate) mod serve;
pub(crate) mod sim;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Cause, Command, Cure, Finding, Judgement, Kind, Risk, Subject, Verdict};
use straddle_device::DeviceKind;
use straddle_device::identify::RotationRate;
use straddle_device::topology::{AlignmentOffset, AtomicWrites, Figure, Topology};
use straddle_layout::{Content, Partition, PartitionType, Role, Stack, TableKind, types};
use straddle_units::ByteCount;

use self::layers::{ContainerReport, LayerReport, container_report, layer_report};
use crate::commands::check::Audited;
use crate::cost::Cost;

/// The version of this form.
pub(crate) const SCHEMA: u32 = 2;

/// What was found on one target.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TargetReport {
    /// The target as it was named.
    pub(crate) target: String,
    /// What came of it.
    pub(crate) status: Status,
    /// What kinds of findings make the status; none with "ok", "blank", "not_judged" and "failed".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kinds: Vec<KindReport>,
    /// Why it is not judged; only with the status "not_judged".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Why it could not be audited; only with the status "failed".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The device or image; absent when it could not be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceReport>,
    /// What is written on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<TableReport>,
    /// The file format around it, for images that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<ContainerReport>,
    /// What stands on the whole disk, where there is no table.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<LayerReport>,
    /// Its partitions, in order of number.
    partitions: Vec<PartitionReport>,
    /// What the rules found, as far as it was asked for; what several targets show is listed at one of them.
    findings: Vec<FindingReport>,
    /// What could not be read, and why.
    remarks: Vec<String>,
}

/// What came of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// No finding.
    Ok,
    /// No finding, and nothing is written where tables and contents live.
    Blank,
    /// Advice only.
    Advice,
    /// Warnings, and no errors.
    Warning,
    /// Errors.
    Error,
    /// Nothing on it is recognised, or it is of a kind that is not read.
    NotJudged,
    /// It could not be opened or read.
    Failed,
}

impl From<straddle_audit::Status> for Status {
    fn from(status: straddle_audit::Status) -> Self {
        match status {
            straddle_audit::Status::Ok => Self::Ok,
            straddle_audit::Status::Blank => Self::Blank,
            straddle_audit::Status::Advice => Self::Advice,
            straddle_audit::Status::Warning => Self::Warning,
            straddle_audit::Status::Error => Self::Error,
            straddle_audit::Status::NotJudged => Self::NotJudged,
        }
    }
}

impl Status {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blank => "blank",
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::NotJudged => "not judged",
            Self::Failed => "failed",
        }
    }
}

/// A kind of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KindReport {
    /// Data is off a boundary, or is written in pieces smaller than a unit.
    Alignment,
    /// What the device says of itself cannot be true, or contradicts itself.
    DeviceClaims,
    /// The partition table is damaged, or made for another disk.
    TableDamage,
    /// Two layers, or the kernel and the disk, say different things.
    LayersDisagree,
    /// What is written there cannot be read.
    Unreadable,
    /// What is written can be torn by a power failure, aligned or not.
    AtomicWrites,
}

impl From<Kind> for KindReport {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Alignment => Self::Alignment,
            Kind::Device => Self::DeviceClaims,
            Kind::Table => Self::TableDamage,
            Kind::Layers => Self::LayersDisagree,
            Kind::Unreadable => Self::Unreadable,
            Kind::Atomicity => Self::AtomicWrites,
        }
    }
}

/// A figure with its sources.
#[derive(Debug, Serialize, JsonSchema)]
struct FigureReport<T> {
    /// The value in force; sizes in bytes.
    value: T,
    /// Who says it.
    source: String,
    /// What other sources say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<ClaimReport<T>>,
    /// Why the value in force was preferred, where sources disagree.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

/// What one more source says.
#[derive(Debug, Serialize, JsonSchema)]
struct ClaimReport<T> {
    /// What it says.
    value: T,
    /// Who says it.
    source: String,
}

/// What a device can write atomically, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
struct AtomicReport {
    /// Smallest atomic write.
    unit_min: u64,
    /// Largest atomic write.
    unit_max: u64,
    /// Multiple that none may cross; 0 for none.
    boundary: u64,
}

/// A device or image.
#[derive(Debug, Serialize, JsonSchema)]
struct DeviceReport {
    /// "image" or "block device".
    kind: &'static str,
    /// Size in bytes.
    size: u64,
    /// Manufacturer.
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Whether it spins.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotational: Option<bool>,
    /// Rotation rate, in revolutions per minute, where the drive says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rpm: Option<u16>,
    /// 512n, 512e, 4Kn or other.
    format: String,
    /// Logical sector size.
    logical: FigureReport<u64>,
    /// Physical sector size.
    physical: FigureReport<u64>,
    /// Byte of the first physical sector boundary; -1 when the kernel calls the device misaligned.
    alignment_offset: FigureReport<i64>,
    /// Minimum I/O size.
    #[serde(skip_serializing_if = "Option::is_none")]
    io_min: Option<FigureReport<u64>>,
    /// Whether the kernel lets nobody write to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    /// How the file is compressed that the image was read through: "gzip", "xz", "zstd" or "bzip2".
    #[serde(skip_serializing_if = "Option::is_none")]
    read_through: Option<&'static str>,
    /// Its zones, of a zoned device.
    #[serde(skip_serializing_if = "Option::is_none")]
    zoned: Option<ZonedReport>,
    /// Optimal I/O size.
    #[serde(skip_serializing_if = "Option::is_none")]
    io_opt: Option<FigureReport<u64>>,
    /// Indirection unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    indirection_unit: Option<FigureReport<u64>>,
    /// RAID chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<FigureReport<u64>>,
    /// Full stripe.
    #[serde(skip_serializing_if = "Option::is_none")]
    stripe: Option<FigureReport<u64>>,
    /// Erase block.
    #[serde(skip_serializing_if = "Option::is_none")]
    erase_block: Option<FigureReport<u64>>,
    /// Atomic writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic: Option<FigureReport<AtomicReport>>,
}

/// The zones of a zoned device.
#[derive(Debug, Serialize, JsonSchema)]
struct ZonedReport {
    /// "host-managed" or "host-aware".
    model: String,
    /// The size of a zone.
    zone: u64,
}

/// A partition table, or what stands in its place.
#[derive(Debug, Serialize, JsonSchema)]
struct TableReport {
    /// "gpt", "hybrid", "mbr", "kernel" (as the kernel lists it), "content" (no table, but a known file system or
    /// other content), "other" (a table that is not read), or "none".
    kind: &'static str,
    /// The known content, for the kind "content": blkid's TYPE; for the kind "other" its PTTYPE.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    /// The sector size that it counts in.
    sector_size: u64,
}

/// One partition.
#[derive(Debug, Serialize, JsonSchema)]
struct PartitionReport {
    /// Its number.
    number: u32,
    /// First sector.
    start_lba: u64,
    /// Number of sectors.
    sectors: u64,
    /// First byte.
    start: u64,
    /// Bytes.
    size: u64,
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

/// One finding.
#[derive(Debug, Serialize, JsonSchema)]
struct FindingReport {
    /// Its code, as `straddle explain` knows it.
    code: &'static str,
    /// "error", "warning" or "advice".
    severity: String,
    /// The rule in a few words.
    title: &'static str,
    /// The partition's number; absent for findings on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// The layer that it is about, by the way to it ("partition 1 > PV vg > LV root"); absent for findings on the disk,
    /// its table and the placement of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<String>,
    /// The byte on the disk at which it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    /// The boundary missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<MissReport>,
    /// The finding in a sentence.
    message: String,
    /// What it costs on the drive given with `--cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<CostReport>,
    /// Its fix; absent where it follows from another finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<FixReport>,
    /// The findings that it only follows from: their fix is its fix. Absent where it stands for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    follows: Vec<CauseReport>,
}

/// A finding that others follow from.
#[derive(Debug, Serialize, JsonSchema)]
struct CauseReport {
    /// Its code.
    code: &'static str,
    /// The partition's number; absent for findings on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// Its target, where that is another one of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// What a missed boundary costs: how many times as long writes take as on the boundaries.
#[derive(Debug, Serialize, JsonSchema)]
struct CostReport {
    /// The modelled drive, or what was probed.
    drive: String,
    /// "derived from the model" or "measured".
    source: &'static str,
    /// Bytes past the boundary before of the drive's own units.
    past: u64,
    /// Random writes: of 4096 bytes on a model; where it was measured, of a unit, each made durable.
    random_write: f64,
    /// Writes of 4096 bytes one after the other, each with an fsync; not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequential_write: Option<f64>,
}

/// A missed boundary.
#[derive(Debug, Serialize, JsonSchema)]
struct MissReport {
    /// What it is.
    boundary: &'static str,
    /// Bytes between two such boundaries.
    size: u64,
    /// Byte of the first one.
    phase: u64,
    /// Bytes past the boundary before.
    past: u64,
}

/// A fix.
#[derive(Debug, Serialize, JsonSchema)]
struct FixReport {
    /// What to do.
    summary: String,
    /// The same as commands: steps, in order; empty where no command does it.
    commands: Vec<CommandReport>,
    /// What the commands do to what is stored: "safe", "backup" (it can be lost, or has to be put back) or "destroys";
    /// absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<&'static str>,
    /// What to mind before.
    #[serde(skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
}

/// A command.
#[derive(Debug, Serialize, JsonSchema)]
struct CommandReport {
    /// The tool.
    tool: &'static str,
    /// The line for a POSIX shell.
    line: String,
}

impl TargetReport {
    /// A target that could not be audited.
    pub(crate) fn failed(target: String, error: String) -> Self {
        Self {
            target,
            status: Status::Failed,
            kinds: Vec::new(),
            reason: None,
            error: Some(error),
            device: None,
            table: None,
            container: None,
            layer: None,
            partitions: Vec::new(),
            findings: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// A target that is known to be of a kind that is not read.
    pub(crate) fn not_read(target: String, reason: String) -> Self {
        let failed = Self::failed(target, String::new());
        Self { status: Status::NotJudged, reason: Some(reason), error: None, ..failed }
    }

    /// An audited target.
    pub(crate) fn of(audited: &Audited) -> Self {
        let Audited { name, target, stack, judgement, .. } = audited;
        Self {
            target: name.clone(),
            status: audited.status(),
            kinds: audited.kinds().iter().copied().map(KindReport::from).collect(),
            reason: audited.not_judged().map(str::to_owned),
            error: None,
            device: Some(device_report(audited)),
            table: Some(table_report(stack)),
            container: target.container.as_ref().map(container_report),
            layer: stack.layer.as_ref().map(layer_report),
            partitions: stack.partitions.iter().map(|p| partition_report(p, judgement)).collect(),
            findings: audited.told().map(|(finding, cost)| finding_report(finding, cost)).collect(),
            remarks: audited.remarks(),
        }
    }
}

/// A figure whose values are converted by `value`.
fn figure<T: Copy + PartialEq, U>(figure: &Figure<T>, value: impl Fn(T) -> U) -> FigureReport<U> {
    FigureReport {
        value: value(figure.value()),
        source: figure.source().to_string(),
        others: figure
            .others()
            .iter()
            .map(|claim| ClaimReport { value: value(claim.value), source: claim.source.to_string() })
            .collect(),
        why: figure.why(),
    }
}

fn device_report(audited: &Audited) -> DeviceReport {
    let target = &audited.target;
    let topology: &Topology = &target.topology;
    let bytes = |f: &Option<Figure<ByteCount>>| f.as_ref().map(|f| figure(f, ByteCount::get));
    DeviceReport {
        kind: match audited.target.kind {
            DeviceKind::Image => "image",
            DeviceKind::Modelled => "modelled drive",
            _ => "block device",
        },
        size: target.size.get(),
        vendor: target.identity.vendor.clone(),
        model: target.identity.model.clone(),
        rotational: target.identity.rotational,
        rpm: match target.identity.rotation {
            Some(RotationRate::Rpm(rpm)) => Some(rpm),
            _ => None,
        },
        format: topology.format().to_string(),
        logical: figure(&topology.logical, |block| block.get()),
        physical: figure(&topology.physical, ByteCount::get),
        alignment_offset: figure(&topology.alignment_offset, |offset| match offset {
            AlignmentOffset::Bytes(bytes) => i64::try_from(bytes.get()).unwrap_or(i64::MAX),
            AlignmentOffset::Misaligned => -1,
        }),
        io_min: bytes(&topology.io_min),
        read_only: target.read_only,
        read_through: target.through.as_ref().map(|through| through.packing.name()),
        zoned: target
            .zoned
            .as_ref()
            .map(|zoned| ZonedReport { model: zoned.model.clone(), zone: zoned.zone.get() }),
        io_opt: bytes(&topology.io_opt),
        indirection_unit: bytes(&topology.indirection_unit),
        chunk: bytes(&topology.chunk),
        stripe: bytes(&topology.stripe),
        erase_block: bytes(&topology.erase_block),
        atomic: topology.atomic.as_ref().map(|f| {
            figure(f, |AtomicWrites { unit_min, unit_max, boundary }| AtomicReport {
                unit_min: unit_min.get(),
                unit_max: unit_max.get(),
                boundary: boundary.get(),
            })
        }),
    }
}

fn table_report(stack: &Stack) -> TableReport {
    let (kind, content) = match stack.kind {
        TableKind::Gpt => ("gpt", None),
        TableKind::HybridMbr => ("hybrid", None),
        TableKind::Mbr => ("mbr", None),
        TableKind::Kernel => ("kernel", None),
        TableKind::Content(content) => ("content", Some(content.name())),
        TableKind::Foreign(name) => ("other", Some(name)),
        TableKind::None => ("none", None),
    };
    TableReport { kind, content, sector_size: stack.block.get() }
}

fn partition_report(partition: &Partition, judgement: &Judgement) -> PartitionReport {
    PartitionReport {
        number: partition.number,
        start_lba: partition.start.get(),
        sectors: partition.count.get(),
        start: partition.span.start().get(),
        size: partition.span.len().get(),
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

fn finding_report(finding: &Finding, cost: Option<&Cost>) -> FindingReport {
    FindingReport {
        code: finding.rule.code.as_str(),
        severity: finding.severity.to_string(),
        title: finding.rule.title,
        partition: partition_of(finding.subject),
        layer: finding.way(),
        byte: finding.at.map(|at| at.get()),
        missed: finding.miss.map(|miss| MissReport {
            boundary: miss.name,
            size: miss.boundary.size().get(),
            phase: miss.boundary.phase().get(),
            past: miss.past.get(),
        }),
        message: finding.sentence(),
        cost: cost.map(cost_report),
        fix: finding.cure.as_ref().map(fix_report),
        follows: finding.follows.iter().map(cause_report).collect(),
    }
}

fn partition_of(subject: Subject) -> Option<u32> {
    match subject {
        Subject::Disk => None,
        Subject::Partition(number) => Some(number),
    }
}

fn cause_report(cause: &Cause) -> CauseReport {
    CauseReport {
        code: cause.code.as_str(),
        partition: partition_of(cause.subject),
        target: cause.target.clone(),
    }
}

fn cost_report(cost: &Cost) -> CostReport {
    CostReport {
        drive: cost.drive.clone(),
        source: cost.source(),
        past: cost.past,
        random_write: cost.random_write,
        sequential_write: cost.sequential_write,
    }
}

fn fix_report(cure: &Cure) -> FixReport {
    let risk = match cure.risk {
        Risk::Safe => "safe",
        Risk::Backup => "backup",
        Risk::Destroys => "destroys",
    };
    FixReport {
        summary: cure.summary.clone(),
        commands: cure.commands.iter().map(command_report).collect(),
        risk: (!cure.commands.is_empty()).then_some(risk),
        caution: cure.caution.clone(),
    }
}

fn command_report(command: &Command) -> CommandReport {
    CommandReport { tool: command.tool, line: command.line.clone() }
}
