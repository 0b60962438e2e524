//! What `plan --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_repair::other_tools::Peer;
use straddle_repair::{Change, Considered, Entry, Format, Lost, Plan, Slot, type_name};
use straddle_units::BlockSize;

use crate::commands::plan::Planned;

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle plan --json` prints. `straddle apply` reads a plan saved with `--save`, not this.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle plan")]
pub(crate) struct PlanReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The target as named on the command line.
    target: String,
    /// The size of the target in bytes.
    size_bytes: u64,
    /// Whether a new table is made. If not, the present one is changed.
    fresh: bool,
    /// The sector size in which the present table counts, in bytes; absent if it is not converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    converted_from_sector_bytes: Option<u64>,
    /// The planned table.
    table: TableReport,
    /// The present partitions.
    before: Vec<EntryReport>,
    /// Partitions start at multiples of this many bytes, counted from `phase_bytes`.
    grain_bytes: u64,
    /// The offset in bytes from which the multiples of `grain_bytes` are counted.
    phase_bytes: u64,
    /// The boundaries that were considered.
    boundaries: Vec<BoundaryReport>,
    /// Contents found on the disk that the present table does not refer to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<LostReport>,
    /// Further notes on the plan.
    notes: Vec<String>,
    /// The seed of new GUIDs and disk identifiers, in hexadecimal.
    seed: String,
}

/// Contents that the table does not refer to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lost")]
struct LostReport {
    /// The number of the partition; absent for contents of the whole disk, and for data outside of
    /// partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// The TYPE that blkid reports; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The label of the contents; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    /// The offset of the first byte.
    start_bytes: u64,
    /// The size in bytes.
    size_bytes: u64,
    /// Whether the new table is written over part of it; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overwritten: bool,
}

/// A partition table.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Table")]
pub(super) struct TableReport {
    /// "gpt" or "mbr".
    format: &'static str,
    /// The identifier of the disk: a GUID (GPT), or a number in hexadecimal (MBR).
    id: String,
    /// The size in bytes of the sectors in which the table counts.
    sector_bytes: u64,
    /// The first usable sector.
    first_usable_lba: u64,
    /// The last usable sector.
    last_usable_lba: u64,
    /// The partitions, in order of number.
    partitions: Vec<EntryReport>,
}

/// A partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Partition")]
pub(super) struct EntryReport {
    /// The partition number.
    number: u32,
    /// The first sector.
    start_lba: u64,
    /// The number of sectors.
    sectors: u64,
    /// The offset of the first byte.
    start_bytes: u64,
    /// The size in bytes.
    size_bytes: u64,
    /// "primary", "extended" or "logical".
    role: &'static str,
    /// The GPT type GUID or the MBR type.
    #[serde(rename = "type")]
    kind: String,
    /// The name of the type; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    type_name: Option<&'static str>,
    /// The GUID of the partition (GPT).
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    /// The name of the partition (GPT); absent if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Whether the active flag is set (MBR).
    bootable: bool,
    /// "kept", "new", "grown" or "moved".
    change: &'static str,
    /// Why it starts where it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
    /// Where other tools would let it start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<PeerReport>,
}

/// Where another tool would let a partition start.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Peer")]
pub(super) struct PeerReport {
    /// The name of the tool.
    tool: String,
    /// The version whose rule this is.
    version: String,
    /// The rule that the tool applies.
    rule: String,
    /// The sector at which the tool would start the partition; absent if that is past the end of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_lba: Option<u64>,
    /// The boundaries to which that start is misaligned.
    misses: Vec<String>,
}

/// A boundary that was considered.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Boundary")]
pub(super) struct BoundaryReport {
    /// The name of the boundary.
    name: String,
    /// The size in bytes.
    size_bytes: u64,
    /// The source of the size.
    source: String,
    /// Why partitions are not aligned to it; absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

impl PlanReport {
    pub(crate) fn of(planned: &Planned) -> Self {
        let plan = &planned.plan;
        let peers_of = |number: u32| {
            let found = planned.peers.iter().find(|(of, _)| *of == number);
            found.map(|(_, peers)| peers.iter().map(peer).collect()).unwrap_or_default()
        };
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: planned.name.clone(),
            size_bytes: plan.disk().size.get(),
            fresh: plan.is_fresh(),
            converted_from_sector_bytes: plan.converts().map(BlockSize::get),
            table: table(plan, peers_of),
            before: before(plan),
            grain_bytes: plan.grain().size().get(),
            phase_bytes: plan.grain().phase().get(),
            boundaries: boundaries(plan),
            lost: plan.lost().iter().map(lost).collect(),
            notes: plan.notes().to_vec(),
            seed: plan.seed().to_owned(),
        }
    }
}

/// Returns the planned table; `peers_of` has where other tools would put a partition.
pub(super) fn table(plan: &Plan, peers_of: impl Fn(u32) -> Vec<PeerReport>) -> TableReport {
    let (table, sector) = (plan.table(), plan.block().get());
    let entry = |e: &Entry| entry(e, sector, table.format, peers_of(e.number));
    TableReport {
        format: match table.format {
            Format::Gpt => "gpt",
            Format::Mbr => "mbr",
        },
        id: table.id.clone(),
        sector_bytes: sector,
        first_usable_lba: table.first_usable.get(),
        last_usable_lba: table.last_usable.get(),
        partitions: table.partitions.iter().map(entry).collect(),
    }
}

/// Returns the present partitions.
pub(super) fn before(plan: &Plan) -> Vec<EntryReport> {
    let (sector, format) = (plan.block().get(), plan.table().format);
    plan.before().iter().map(|e| entry(e, sector, format, Vec::new())).collect()
}

pub(super) fn boundaries(plan: &Plan) -> Vec<BoundaryReport> {
    plan.considered().iter().map(boundary).collect()
}

fn entry(entry: &Entry, sector: u64, format: Format, peers: Vec<PeerReport>) -> EntryReport {
    EntryReport {
        number: entry.number,
        start_lba: entry.start.get(),
        sectors: entry.sectors.get(),
        start_bytes: entry.start.get().saturating_mul(sector),
        size_bytes: entry.sectors.get().saturating_mul(sector),
        role: match entry.slot {
            Slot::Primary => "primary",
            Slot::Extended => "extended",
            Slot::Logical { .. } => "logical",
        },
        kind: entry.kind.clone(),
        type_name: type_name(&entry.kind, format),
        uuid: entry.uuid.clone(),
        name: entry.name.clone(),
        bootable: entry.bootable,
        change: match entry.change {
            Change::Kept => "kept",
            Change::New => "new",
            Change::Grown { .. } => "grown",
            Change::Moved { .. } => "moved",
        },
        why: entry.why.clone(),
        peers,
    }
}

fn lost(lost: &Lost) -> LostReport {
    LostReport {
        partition: lost.partition,
        content: lost.content.clone(),
        label: lost.label.clone(),
        start_bytes: lost.at.start().get(),
        size_bytes: lost.at.len().get(),
        overwritten: lost.is_overwritten,
    }
}

fn peer(peer: &Peer) -> PeerReport {
    PeerReport {
        tool: peer.tool.clone(),
        version: peer.version.clone(),
        rule: peer.rule.clone(),
        start_lba: peer.start,
        misses: peer.misses.clone(),
    }
}

fn boundary(considered: &Considered) -> BoundaryReport {
    BoundaryReport {
        name: considered.name.clone(),
        size_bytes: considered.size.get(),
        source: considered.source.clone(),
        left_out: considered.left_out.clone(),
    }
}
