//! What a change to a table preserves although the table does not list it.
//!
//! Invariants: it only reads.

use straddle_layout::{TableKind, optical_extent};
use straddle_units::{ByteOffset, Lba, Span};

use super::{Change, Draft, Entry, Situation, Table, span_of};
use crate::encode::unlisted_slots;
use crate::error::PlanError;
use crate::lost;
use crate::request::Place;

/// Content of the disk outside its table that is kept.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// The span of an optical medium's file system: none of it is free space.
    pub(super) optical: Option<Span>,
    /// The numbers of the MBR's entries that list no partition but are not zero.
    pub(super) slots: Vec<u32>,
}

impl Spared {
    pub(super) fn of(situation: &Situation<'_>) -> Result<Self, PlanError> {
        let slots = match situation.stack.kind {
            TableKind::Mbr => unlisted_slots(situation.medium, situation.stack)?,
            _ => Vec::new(),
        };
        Ok(Self { optical: optical_extent(situation.medium)?, slots })
    }
}

impl Draft<'_> {
    /// Refuses to put a partition over contents that no partition lists. One whose start was requested may bring them back:
    /// that is noted.
    pub(super) fn spare_unlisted(&mut self, table: &Table) -> Result<(), PlanError> {
        let Situation { medium, stack, .. } = *self.situation;
        let block = self.block();
        for lost in lost::unlisted(medium, stack, (table, block)) {
            let is_over = |entry: &&Entry| {
                let is_changed = matches!(entry.change, Change::New | Change::Grown { .. });
                is_changed && span_of(entry, block).is_some_and(|span| span.overlaps(lost.at))
            };
            let number = table.partitions.iter().find(is_over).map_or(0, |entry| entry.number);
            let is_requested = self.request.parts.iter().any(|part| match part.start {
                Some(Place::Byte(byte)) => ByteOffset::new(byte.get()) == lost.at.start(),
                Some(Place::Sector(lba)) => Lba::new(lba).to_bytes(block) == Some(lost.at.start()),
                None => false,
            });
            if !(is_requested && lost.is_led_to(table, block)) {
                return Err(PlanError::Unlisted { number, content: lost.what(), at: lost.at.start() });
            }
            self.notes.push(format!("partition {number} leads to {}, which is there already", lost.what()));
        }
        Ok(())
    }
}
