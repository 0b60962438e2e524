//! What `realign --to --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_repair::copy::Copy;
use straddle_units::ByteOffset;

use super::plan::{BoundaryReport, TableReport, boundaries, table};
use super::realign::{ReferenceReport, reference};
use crate::output::quote_path;
use crate::view::text::copy::{IDENTITIES, READS_FIRST, View, next, words};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle realign --to --json` prints. `straddle apply` reads a plan saved with `--save`, not this.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle realign --to")]
pub(crate) struct CopyReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The disk that is copied; it is opened read-only.
    source: SourceReport,
    /// The new disk or image, as named on the command line.
    target: String,
    /// The size of the new disk in bytes.
    size_bytes: u64,
    /// The table of the new disk, which is written when all data are there.
    table: TableReport,
    /// Partitions start at multiples of this many bytes, counted from `phase_bytes`.
    grain_bytes: u64,
    /// The offset in bytes from which the multiples of `grain_bytes` are counted.
    phase_bytes: u64,
    /// The boundaries that were considered.
    boundaries: Vec<BoundaryReport>,
    /// The old and the new place of each partition.
    copies: Vec<PlaceReport>,
    /// The number of bytes that are copied.
    copied_bytes: u64,
    /// What is on the new disk and will be lost (`--wipe`).
    lost: Vec<String>,
    /// What refers to the old places.
    references: Vec<ReferenceReport>,
    /// What to mind afterwards.
    warnings: Vec<String>,
    /// Further notes on the plan.
    notes: Vec<String>,
    /// The command that makes the copy; FILE stands for the plan if it was not saved.
    next: String,
}

/// The disk that is copied.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Source")]
struct SourceReport {
    /// Its name on the command line.
    name: String,
    /// Its size in bytes.
    size_bytes: u64,
    /// The size in bytes of the sectors in which its table counts.
    sector_bytes: u64,
}

/// The old and the new place of a partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Place")]
struct PlaceReport {
    /// The number of the partition.
    partition: u32,
    /// The offset of its first byte on the source.
    from_bytes: u64,
    /// The offset of its first byte on the new disk.
    to_bytes: u64,
    /// The number of bytes that are copied.
    size_bytes: u64,
}

impl CopyReport {
    pub(crate) fn of(view: &View<'_>) -> Self {
        let plan = view.copy.plan();
        let source = view.copy.source();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            source: SourceReport {
                name: view.old.display().to_string(),
                size_bytes: source.size.get(),
                sector_bytes: source.sector.get(),
            },
            target: view.new.display().to_string(),
            size_bytes: plan.disk().size.get(),
            table: table(plan, |_| Vec::new()),
            grain_bytes: plan.grain().size().get(),
            phase_bytes: plan.grain().phase().get(),
            boundaries: boundaries(plan),
            copies: places(view.copy),
            copied_bytes: view.copy.total().get(),
            lost: view.copy.over().to_vec(),
            references: view.copy.references().iter().map(|one| reference(one, words(&one.1))).collect(),
            warnings: [IDENTITIES]
                .into_iter()
                .chain(view.reads_first.then_some(READS_FIRST))
                .map(str::to_owned)
                .collect(),
            notes: plan.notes().to_vec(),
            next: next(view, &view.saved.map_or_else(|| "FILE".to_owned(), quote_path)),
        }
    }
}

fn places(copy: &Copy) -> Vec<PlaceReport> {
    let plan = copy.plan();
    let number = |to: ByteOffset| {
        let is_there = |span: straddle_units::Span| span.start() == to;
        let entry = plan.table().partitions.iter().find(|entry| plan.span(entry).is_some_and(is_there));
        entry.map(|entry| entry.number)
    };
    let place = |one: &straddle_repair::relocate::Move| {
        Some(PlaceReport {
            partition: number(one.to)?,
            from_bytes: one.from.start().get(),
            to_bytes: one.to.get(),
            size_bytes: one.from.len().get(),
        })
    };
    copy.extents().iter().filter_map(place).collect()
}
