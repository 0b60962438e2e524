//! What `realign --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_repair::realign::{EstimateFile, Journal, Realign, Reference};
use straddle_repair::relocate::Move;
use straddle_repair::{Change, Plan};
use straddle_units::ByteOffset;

use super::plan::{BoundaryReport, EntryReport, TableReport, before, boundaries, table};
use crate::view::text::realign::words;

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle realign --json` prints. `straddle apply` reads a plan saved with `--save`, not this.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle realign")]
#[serde(untagged)]
pub(crate) enum RealignOutput {
    /// A plan.
    Plan(Box<RealignReport>),
    /// No partition has to move.
    Nothing(NothingReport),
}

/// What is printed if no partition has to move; no plan is saved then.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NothingToDo")]
pub(crate) struct NothingReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The target as named on the command line.
    target: String,
    /// No moves.
    moves: [MoveReport; 0],
    /// Why partitions stay that start off a boundary.
    notes: Vec<String>,
}

impl NothingReport {
    pub(crate) fn of(target: &str, notes: Vec<String>) -> Self {
        let straddle = env!("CARGO_PKG_VERSION");
        Self { schema: SCHEMA, straddle, target: target.to_owned(), moves: [], notes }
    }
}

/// A plan of moves.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RealignPlan")]
pub(crate) struct RealignReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The target as named on the command line.
    target: String,
    /// The size of the target in bytes.
    size_bytes: u64,
    /// The table that is written when all data have moved.
    table: TableReport,
    /// The present partitions.
    before: Vec<EntryReport>,
    /// Partitions start at multiples of this many bytes, counted from `phase_bytes`.
    grain_bytes: u64,
    /// The offset in bytes from which the multiples of `grain_bytes` are counted.
    phase_bytes: u64,
    /// The boundaries that were considered.
    boundaries: Vec<BoundaryReport>,
    /// The moves, in the order in which they are made. A partition that makes a detour moves twice.
    moves: Vec<MoveReport>,
    /// The number of bytes that are moved, detours counted twice.
    moved_bytes: u64,
    /// The size in bytes of the physical sectors in which data move.
    physical_sector_bytes: u64,
    /// The number of bytes that move at a time.
    window_bytes: u64,
    /// Where the journal is.
    journal: JournalReport,
    /// The partitions that lose their unused tails.
    trims: Vec<TrimReport>,
    /// What the moves read and write; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<EstimateReport>,
    /// What refers to the old places.
    references: Vec<ReferenceReport>,
    /// Further notes on the plan.
    notes: Vec<String>,
}

/// What the moves read and write, derived from the plan.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Estimate")]
struct EstimateReport {
    /// Bytes that are read, those that are read back included.
    read_bytes: u64,
    /// Bytes that are written to new places.
    written_bytes: u64,
    /// Bytes that are written to the journal.
    journal_bytes: u64,
    /// The number of flushes.
    flushes: u64,
    /// The modelled drive of which the time is known (`--drive`); absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    drive: Option<String>,
    /// The time on that drive in seconds; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_seconds: Option<u64>,
}

/// A move of data.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Move")]
struct MoveReport {
    /// The number of the partition to which the data belong; absent for the second part of a detour.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// The offset of the first byte.
    from_bytes: u64,
    /// The offset of the byte to which that goes.
    to_bytes: u64,
    /// The number of bytes.
    size_bytes: u64,
}

/// Where the journal is.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Journal")]
#[serde(rename_all = "snake_case", tag = "place")]
enum JournalReport {
    /// In unallocated space of the disk.
    Unallocated {
        /// The offset of its first byte.
        start_bytes: u64,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// In a file on another disk (`straddle apply --journal FILE`).
    File {
        /// Its size in bytes.
        size_bytes: u64,
    },
}

/// A partition that loses its unused tail.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Trim")]
struct TrimReport {
    /// The number of the partition.
    partition: u32,
    /// The number of bytes that it loses.
    size_bytes: u64,
}

/// What refers to the old place of a partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reference")]
pub(super) struct ReferenceReport {
    /// The number of the partition.
    partition: u32,
    /// What refers to it.
    kind: ReferenceKind,
    /// What is done about it, in words.
    text: String,
}

/// A kind of reference.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReferenceKind {
    /// A boot sector that records the start of the partition.
    BootSector,
    /// The active partition of an MBR.
    ActivePartition,
    /// A volume that Windows finds by its start.
    WindowsVolume,
    /// A BIOS boot partition whose boot code is not understood.
    BiosBoot,
    /// GRUB's core image, whose sectors are listed.
    Grub,
    /// GRUB's boot code, which is not understood or lists sectors elsewhere as well.
    GrubElsewhere,
    /// LILO's lists of sectors.
    Lilo,
    /// The recorded start in SYSLINUX's boot sector.
    Syslinux,
    /// Boot entries of the firmware.
    EfiBootEntries,
    /// Swap space.
    Swap,
    /// The image of a hibernated system.
    Hibernation,
    /// Zones of F2FS.
    Zones,
    /// Something else.
    Other,
}

impl RealignReport {
    pub(crate) fn of(target: &str, realign: &Realign, estimate: Option<&EstimateFile>) -> Self {
        let plan = realign.plan();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: target.to_owned(),
            size_bytes: plan.disk().size.get(),
            table: table(plan, |_| Vec::new()),
            before: before(plan),
            grain_bytes: plan.grain().size().get(),
            phase_bytes: plan.grain().phase().get(),
            boundaries: boundaries(plan),
            moves: realign.moves().iter().map(|one| moved(plan, one)).collect(),
            moved_bytes: realign.trips().1.get(),
            physical_sector_bytes: realign.blocks().size().get(),
            window_bytes: realign.window().get(),
            journal: match realign.journal() {
                Journal::Inside(place) => JournalReport::Unallocated {
                    start_bytes: place.start().get(),
                    size_bytes: place.len().get(),
                },
                Journal::Elsewhere { needed } => JournalReport::File { size_bytes: needed.get() },
            },
            trims: realign
                .trims()
                .iter()
                .map(|trim| TrimReport { partition: trim.number, size_bytes: trim.by.get() })
                .collect(),
            estimate: estimate.map(|estimate| EstimateReport {
                read_bytes: estimate.read,
                written_bytes: estimate.written,
                journal_bytes: estimate.journal,
                flushes: estimate.flushes,
                drive: estimate.drive.clone(),
                time_seconds: estimate.seconds,
            }),
            references: realign.references().iter().map(|one| reference(one, words(&one.1))).collect(),
            notes: plan.notes().to_vec(),
        }
    }
}

fn moved(plan: &Plan, one: &Move) -> MoveReport {
    let is_from = |start: ByteOffset| start == one.from.start();
    let of = plan.table().partitions.iter().find(|entry| match entry.change {
        Change::Moved { from, .. } => from.to_bytes(plan.block()).is_some_and(is_from),
        _ => false,
    });
    MoveReport {
        partition: of.map(|entry| entry.number),
        from_bytes: one.from.start().get(),
        to_bytes: one.to.get(),
        size_bytes: one.from.len().get(),
    }
}

/// Reports a reference; `text` says what is done about it.
pub(super) fn reference((partition, reference): &(u32, Reference), text: String) -> ReferenceReport {
    let kind = match reference {
        Reference::BootSector { .. } => ReferenceKind::BootSector,
        Reference::ActivePartition => ReferenceKind::ActivePartition,
        Reference::WindowsVolume => ReferenceKind::WindowsVolume,
        Reference::BiosBoot => ReferenceKind::BiosBoot,
        Reference::Grub { .. } => ReferenceKind::Grub,
        Reference::GrubElsewhere => ReferenceKind::GrubElsewhere,
        Reference::Lilo => ReferenceKind::Lilo,
        Reference::Syslinux { .. } => ReferenceKind::Syslinux,
        Reference::EfiBootEntries => ReferenceKind::EfiBootEntries,
        Reference::Swap => ReferenceKind::Swap,
        Reference::Hibernation => ReferenceKind::Hibernation,
        Reference::Zones => ReferenceKind::Zones,
        _ => ReferenceKind::Other,
    };
    ReferenceReport { partition: *partition, kind, text }
}
