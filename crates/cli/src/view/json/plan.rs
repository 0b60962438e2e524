//! What `plan --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_repair::peers::Peer;
use straddle_repair::{Change, Considered, Entry, Format, Lost, Slot, type_name};
use straddle_units::BlockSize;

use crate::commands::plan::Planned;

/// The version of this form. It increases when a field changes its meaning or is removed, not when one is
/// added.
pub(super) const SCHEMA: u32 = 1;

/// What `straddle plan --json` prints. What `apply` reads is what `--save` keeps.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle plan")]
pub(crate) struct PlanReport {
    /// The version of this form.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The target as it was named.
    target: String,
    /// Its size in bytes.
    size_bytes: u64,
    /// Whether the table is made anew; else the present one is changed.
    fresh: bool,
    /// The sector size that the present table counts in, where it is converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    converted_from_sector_bytes: Option<u64>,
    /// The table.
    table: TableReport,
    /// The partitions as they are.
    before: Vec<EntryReport>,
    /// Partitions start at multiples of this …
    grain_bytes: u64,
    /// … counted from this byte.
    phase_bytes: u64,
    /// The boundaries that were considered.
    boundaries: Vec<BoundaryReport>,
    /// What is on the disk and is not reached from the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<LostReport>,
    /// What is worth knowing.
    notes: Vec<String>,
    /// The seed of new identities, in hexadecimal.
    seed: String,
}

/// Something that the table does not lead to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lost")]
struct LostReport {
    /// The partition's number; absent for what is on the disk as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// What it is: blkid's TYPE; absent where nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The content's own name.
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
    /// First byte.
    start_bytes: u64,
    /// Bytes.
    size_bytes: u64,
}

/// The table.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Table")]
struct TableReport {
    /// "gpt" or "mbr".
    format: &'static str,
    /// The disk's identity.
    id: String,
    /// The sector size that it counts in.
    sector_bytes: u64,
    /// First usable sector.
    first_usable_lba: u64,
    /// Last usable sector.
    last_usable_lba: u64,
    /// Its partitions, by number.
    partitions: Vec<EntryReport>,
}

/// A partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Partition")]
struct EntryReport {
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
    /// GPT type GUID or MBR type.
    #[serde(rename = "type")]
    kind: String,
    /// The type's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    type_name: Option<&'static str>,
    /// The partition's own GUID (GPT).
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    /// The partition's name (GPT).
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// The active flag (MBR).
    bootable: bool,
    /// "kept", "new" or "grown".
    change: &'static str,
    /// Why it is where it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
    /// Where other tools would start it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<PeerReport>,
}

/// What another tool would do.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Peer")]
struct PeerReport {
    /// Its name.
    tool: String,
    /// The version whose rule this is.
    version: String,
    /// The rule.
    rule: String,
    /// The sector at which it would start; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_lba: Option<u64>,
    /// The boundaries that this start misses.
    misses: Vec<String>,
}

/// A boundary that was considered.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Boundary")]
struct BoundaryReport {
    /// Its name.
    name: String,
    /// Its size in bytes.
    size_bytes: u64,
    /// Who says so.
    source: String,
    /// Why starts are not on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

impl PlanReport {
    pub(crate) fn of(planned: &Planned) -> Self {
        let (plan, sector) = (&planned.plan, planned.plan.block().get());
        let format = plan.table().format;
        let peers_of = |number: u32| {
            let found = planned.peers.iter().find(|(of, _)| *of == number);
            found.map(|(_, peers)| peers.iter().map(peer).collect()).unwrap_or_default()
        };
        let after =
            plan.table().partitions.iter().map(|e| entry(e, sector, format, peers_of(e.number))).collect();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: planned.name.clone(),
            size_bytes: plan.disk().size.get(),
            fresh: plan.is_fresh(),
            converted_from_sector_bytes: plan.converts().map(BlockSize::get),
            table: TableReport {
                format: match format {
                    Format::Gpt => "gpt",
                    Format::Mbr => "mbr",
                },
                id: plan.table().id.clone(),
                sector_bytes: sector,
                first_usable_lba: plan.table().first_usable.get(),
                last_usable_lba: plan.table().last_usable.get(),
                partitions: after,
            },
            before: plan.before().iter().map(|e| entry(e, sector, format, Vec::new())).collect(),
            grain_bytes: plan.grain().size().get(),
            phase_bytes: plan.grain().phase().get(),
            boundaries: plan.considered().iter().map(boundary).collect(),
            lost: plan.lost().iter().map(lost).collect(),
            notes: plan.notes().to_vec(),
            seed: plan.seed().to_owned(),
        }
    }
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
