//! The table round a file system that fills a disk.
//!
//! The law of this module: the table has one partition, and everything that would show the former contents of
//! the disk as a whole is cleared.

use straddle_layout::types::guid_text;
use straddle_units::{BlockSize, Boundary, ByteOffset, Lba, Span};

use super::spared::Spared;
use super::table::Table;
use super::{Change, Draft, Entry, Format, Plan, Situation, Slot, WIPED};
use crate::error::PlanError;
use crate::fingerprint::Fingerprint;
use crate::grain::Grain;
use crate::kinds;
use crate::request::Request;

/// The partition around a file system.
pub(crate) struct Around {
    /// Its bytes.
    pub(crate) to: Span,
    /// Its type, as a request names it.
    pub(crate) kind: &'static str,
    /// Why it is there.
    pub(crate) why: Vec<String>,
}

/// The number of the only partition.
pub(crate) const ONLY: u32 = 1;

impl Plan {
    /// The first byte after the table that partitions may have, and the byte after the last, on a disk that
    /// gets a new table of this format.
    pub(crate) fn room(
        situation: &Situation<'_>,
        request: &Request,
        grain: &Grain,
    ) -> Result<Span, PlanError> {
        let table = table_of(situation, request, grain)?;
        Ok(super::moved::usable(&table, situation.block()))
    }

    /// Returns the plan of a new table with one partition.
    pub(crate) fn around(
        situation: &Situation<'_>,
        request: &Request,
        grain: &Grain,
        around: Around,
    ) -> Result<Self, PlanError> {
        let Situation { medium, stack, serial, .. } = *situation;
        let block = situation.block();
        let disk = Fingerprint::of(medium, stack, block, serial.map(str::to_owned))?;
        let mut draft = Draft::new(situation, request, grain, Spared::default());
        let mut table = draft.empty_table(request.table.unwrap_or(Format::Gpt))?;
        let is_gpt = table.format == Format::Gpt;
        table.partitions.push(Entry {
            number: ONLY,
            start: Lba::containing(around.to.start(), block),
            sectors: block.blocks_floor(around.to.len()),
            slot: Slot::Primary,
            kind: kinds::resolve(around.kind, table.format)?,
            uuid: is_gpt.then(|| guid_text(draft.identities.guid())),
            name: String::new(),
            attributes: 0,
            bootable: false,
            change: Change::New,
            fs: None,
            why: around.why,
        });
        let plan = Self {
            disk,
            fresh: true,
            converts: None,
            relocate_backup: false,
            before: Vec::new(),
            wipe: vec![cleared(&table, block)?],
            table,
            grain: grain.start,
            considered: grain.considered.clone(),
            lost: Vec::new(),
            notes: Vec::new(),
            seed: request.seed.to_string(),
        };
        plan.checked()
    }

    /// The boundary on which the only partition must start, and what must be cleared, or why this is not a
    /// plan of one partition.
    pub(crate) fn is_around(&self) -> bool {
        let is_new = self.fresh && self.converts.is_none() && !self.relocate_backup && self.before.is_empty();
        let [entry] = self.table.partitions.as_slice() else { return false };
        let is_only = (entry.number, entry.slot, entry.change) == (ONLY, Slot::Primary, Change::New);
        let clears = cleared(&self.table, self.block()).is_ok_and(|span| self.wipe == [span]);
        is_new && is_only && clears && self.lost.is_empty()
    }
}

fn table_of(situation: &Situation<'_>, request: &Request, grain: &Grain) -> Result<Table, PlanError> {
    let mut draft = Draft::new(situation, request, grain, Spared::default());
    draft.empty_table(request.table.unwrap_or(Format::Gpt))
}

/// The bytes between the table and the last signature at the start of a disk.
fn cleared(table: &Table, block: BlockSize) -> Result<Span, PlanError> {
    let behind = if table.format == Format::Mbr { Lba::new(1) } else { table.first_usable };
    let wiped = ByteOffset::new(WIPED.get());
    let span = behind.to_bytes(block).and_then(|from| Span::new(from, wiped.checked_since(from)?));
    span.ok_or_else(|| PlanError::Invalid("its table is too large".to_owned()))
}

/// The first boundary at or after 1 MiB.
pub(crate) fn first_start(grain: Boundary, room: Span) -> Option<ByteOffset> {
    let least = ByteOffset::new(straddle_units::MIB).max(room.start()).max(ByteOffset::new(WIPED.get()));
    grain.ceil(least)
}
