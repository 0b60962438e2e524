//! What a change to a table leaves alone, though the table does not list it.
//!
//! The law of this module: it only reads.

use straddle_layout::{TableKind, optical_extent};
use straddle_units::Span;

use super::Situation;
use crate::encode::unlisted_slots;
use crate::error::PlanError;

/// What is on the disk beside its table, and stays.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// The bytes of an optical medium's file system: none of them is free.
    pub(super) optical: Option<Span>,
    /// The numbers of an MBR's entries that list no partition and are not empty.
    pub(super) slots: Vec<u32>,
}

impl Spared {
    pub(super) fn of(situation: &Situation<'_>) -> Result<Self, PlanError> {
        let slots = match situation.stack.kind {
            TableKind::Mbr => unlisted_slots(situation.medium)?,
            _ => Vec::new(),
        };
        Ok(Self { optical: optical_extent(situation.medium)?, slots })
    }
}
