//! What an old GPT leaves in unallocated space, as when its disk has grown: it is nobody's data.
//!
//! Invariants: a sector is debris only if it says itself what it is: a copy of a GPT that is whole, or the
//! header of one, in its own place, and the GPT that counts is the same one and names another.

use straddle_device::Medium;
use straddle_device::fields::{has, le64};
use straddle_layout::format::gpt::{SIGNATURE, header};
use straddle_layout::{gpt_copy, is_gpt_header};
use straddle_units::{BlockSize, ByteCount, ByteOffset, KIB, Span};

use crate::fingerprint::bytes_of;

/// The unit in which debris is found.
const SECTOR: usize = 512;
/// How far the header of a GPT is from its entries: 1024 of them, and a sector of 4096 bytes, are between the two.
const NEAR: u64 = 132 * KIB;

/// What is known of a medium's debris.
pub(super) struct Debris<'m> {
    medium: &'m dyn Medium,
    known: Vec<Span>,
}

impl<'m> Debris<'m> {
    pub(super) fn of(medium: &'m dyn Medium) -> Self {
        Self { medium, known: Vec::new() }
    }

    /// Whether the sector at byte `at` is debris.
    pub(super) fn has(&mut self, at: ByteOffset) -> bool {
        let Some(sector) = Span::new(at, ByteCount::new(SECTOR as u64)) else { return false };
        let is_in = |known: &[Span]| known.iter().any(|span| span.contains(sector));
        if !is_in(&self.known) {
            let found = self.table(sector);
            self.known.extend(found.into_iter().flatten());
        }
        is_in(&self.known)
    }

    /// The copy of a GPT that this sector is in.
    fn table(&self, sector: Span) -> Option<Vec<Span>> {
        let size = self.medium.len().get();
        let from = sector.start().get().saturating_sub(NEAR);
        let to = sector.end().get().saturating_add(NEAR).min(size);
        let around = Span::new(ByteOffset::new(from), ByteCount::new(to.checked_sub(from)?))?;
        let bytes = bytes_of(self.medium, around).ok()?;
        let headers = (from..).step_by(SECTOR).zip(bytes.chunks(SECTOR));
        let headers =
            headers.filter(|(_, bytes)| has(bytes, 0, SIGNATURE)).map(|(at, _)| ByteOffset::new(at));
        let mut headers = headers.filter(|at| !self.counts(*at));
        headers.find_map(|at| match gpt_copy(self.medium, at) {
            Some([head, array]) => {
                (head.contains(sector) || array.contains(sector)).then(|| vec![head, array])
            }
            // Its entries were written over, as by data that moved there.
            None => (at == sector.start() && is_gpt_header(self.medium, at)).then(|| vec![sector]),
        })
    }

    /// Whether the header at byte `at` may count: it is the first of a GPT, or the backup that the first names, whatever
    /// else that says; or no good first header is of the same GPT, of which this may be the only copy.
    fn counts(&self, at: ByteOffset) -> bool {
        let bytes_at = |at| bytes_of(self.medium, Span::new(at, ByteCount::new(SECTOR as u64))?).ok();
        let Some(own) = bytes_at(at) else { return true };
        let guid = header::DISK_GUID..header::DISK_GUID + 16;
        let mut is_copy = false;
        for block in [BlockSize::B512, BlockSize::B4096] {
            let first = ByteOffset::new(block.get());
            let Some(head) = bytes_at(first) else { continue };
            if at == first || le64(&head, header::ALTERNATE_LBA).checked_mul(block.get()) == Some(at.get()) {
                return true;
            }
            is_copy |= is_gpt_header(self.medium, first) && head.get(guid.clone()) == own.get(guid.clone());
        }
        !is_copy
    }
}
