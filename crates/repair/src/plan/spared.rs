//! What a change to a table preserves although the table does not list it.
//!
//! The law of this module: it only reads.

use straddle_layout::{TableKind, optical_extent};
use straddle_units::Span;

use super::Situation;
use crate::encode::unlisted_slots;
use crate::error::PlanError;

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
            TableKind::Mbr => unlisted_slots(situation.medium)?,
            _ => Vec::new(),
        };
        Ok(Self { optical: optical_extent(situation.medium)?, slots })
    }
}
