//! A plan to realign, as a value that is stored as it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_units::{Boundary, ByteCount};

use super::{Journal, RealignError, Reference, Trim, logical};
use crate::document;
use crate::plan::{Change, Entry, Plan};
use crate::relocate::{Job, Move, Parts};

/// A plan to move partitions. It is always possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Realign(pub(super) Stored);

/// What a [`Realign`] is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Realign", title = "straddle realign")]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The new table, which is written when all data have moved.
    pub plan: Plan,
    /// The moves, in the order in which they are made. A partition that makes a detour moves twice.
    pub moves: Vec<Move>,
    /// The physical sectors in which data move.
    #[serde(rename = "physical_sector")]
    pub blocks: Boundary,
    /// The number of bytes that move at a time.
    #[serde(rename = "window_bytes")]
    pub window: ByteCount,
    /// Where the journal can be.
    pub journal: Journal,
    /// What refers to the old places, with the number of the partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<(u32, Reference)>,
    /// The partitions that are placed so that the data of a layer in them are aligned: number, and offset of the data in
    /// bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<(u32, ByteCount)>,
    /// Whether data that no partition and no known content accounts for are written over.
    #[serde(default, rename = "wipe", skip_serializing_if = "std::ops::Not::not")]
    pub wipes: bool,
    /// What the moves read and write; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// What the moves of a plan read and write, and how long that takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Bytes that are read, those that are read back included.
    #[serde(rename = "read_bytes")]
    pub read: u64,
    /// Bytes that are written to new places.
    #[serde(rename = "written_bytes")]
    pub written: u64,
    /// Bytes that are written to the journal.
    #[serde(rename = "journal_bytes")]
    pub journal: u64,
    /// The number of flushes.
    pub flushes: u64,
    /// The modelled drive of which the time is known (`--drive`); absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// The time on that drive in seconds; absent if it is not known.
    #[serde(default, rename = "time_seconds", skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

document::checked_parts!(Realign(Stored), RealignError);

impl Realign {
    /// The same plan, with an estimate of what it reads and writes.
    #[must_use]
    pub fn estimated(self, estimate: Option<Estimate>) -> Self {
        Self(Stored { estimate, ..self.0 })
    }

    /// How many bytes behind the start of a partition the boundary is.
    pub(super) fn anchor(&self, number: u32) -> ByteCount {
        let found = self.anchors.iter().find(|(of, _)| *of == number);
        found.map_or(ByteCount::ZERO, |(_, offset)| *offset)
    }

    /// The partitions that lose their unused tails. What is in the tails is overwritten, and a rollback does
    /// not bring it back.
    pub fn trims(&self) -> Vec<Trim> {
        let block = self.plan.block();
        let trim = |entry: &Entry| {
            let Change::Moved { sectors, .. } = entry.change else { return None };
            logical::moves(entry).then_some(())?;
            let by = sectors.to_bytes(block)?.checked_sub(entry.sectors.to_bytes(block)?)?;
            (by != ByteCount::ZERO).then_some(Trim { number: entry.number, by })
        };
        self.plan.table.partitions.iter().filter_map(trim).collect()
    }

    /// The number of partitions that move, and the bytes that are moved, detours counted twice.
    pub fn trips(&self) -> (usize, ByteCount) {
        let count = self.plan.table.partitions.iter().filter(|entry| logical::moves(entry)).count();
        let sum = self.moves.iter().fold(0_u64, |sum, one| sum.saturating_add(one.from.len().get()));
        (count, ByteCount::new(sum))
    }

    /// Returns the job that makes the moves.
    pub fn job(&self, id: [u8; 16], payload: Vec<u8>) -> Result<Job, RealignError> {
        Ok(Job::new(Parts {
            size: self.plan.disk.size,
            blocks: self.blocks,
            window: self.window,
            id,
            moves: self.moves.clone(),
            payload,
        })?)
    }
}
