//! What partition tables and journals of this program leave in unallocated space: it is nobody's data.
//!
//! Invariants: a sector is debris only if it says itself what it is: a copy of a GPT that is whole, or the
//! header of one, in its own place, and the GPT that counts is the same one and names another; or a part of a journal in
//! its own place that no move needs, as its titles were never written, are gone, or are of a move that never began or is over.

use crate::relocate::{Disks, place_around};
use straddle_device::Medium;
use straddle_device::fields::{has, le64};
use straddle_layout::format::gpt::{SIGNATURE, header};
use straddle_layout::{Role, gpt_copy, is_gpt_header, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, KIB, Span};

use super::journals::is_over;
use super::payload::Payload;
use super::survey::{Reading, journal_at};
use crate::fingerprint::bytes_of;

/// The unit in which debris is found.
const SECTOR: usize = 512;
/// How far the header of a GPT is from its entries: 1024 of them, and a sector of 4096 bytes, are between the two.
const NEAR: u64 = 132 * KIB;

/// What is known of a medium's debris.
pub(super) struct Debris<'m> {
    medium: &'m dyn Medium,
    /// The sectors in which its table counts.
    block: BlockSize,
    /// Copies of the GPT.
    known: Vec<Span>,
    /// The places of journals, and whether none of it is needed.
    journals: Vec<(Span, bool)>,
}

impl<'m> Debris<'m> {
    pub(super) fn of(medium: &'m dyn Medium, block: BlockSize) -> Self {
        Self { medium, block, known: Vec::new(), journals: Vec::new() }
    }

    /// Whether the sector at byte `at` is debris.
    pub(super) fn has(&mut self, at: ByteOffset, bytes: &[u8]) -> bool {
        if let Some(place) = place_around(Disks::one(&mut Reading(self.medium)), at, bytes) {
            return self.is_left(place);
        }
        let Some(sector) = Span::new(at, ByteCount::new(SECTOR as u64)) else { return false };
        let is_in = |known: &[Span]| known.iter().any(|span| span.contains(sector));
        if !is_in(&self.known) {
            let found = self.table(sector);
            self.known.extend(found.into_iter().flatten());
        }
        is_in(&self.known)
    }

    /// The places of the journals that were found, of which none is needed.
    pub(super) fn journals(&self) -> impl Iterator<Item = Span> {
        self.journals.iter().filter(|(_, is_left)| *is_left).map(|(place, _)| *place)
    }

    /// Whether what is left of the journal at `place` is not needed.
    fn is_left(&mut self, place: Span) -> bool {
        if let Some((_, is_left)) = self.journals.iter().find(|(known, _)| *known == place) {
            return *is_left;
        }
        let is_left = match journal_at(self.medium, place) {
            Ok(None) => true,
            Ok(Some((job, state))) => read_stack(self.medium, Some(self.block), None).is_ok_and(|stack| {
                // A partition may have been put over it since.
                let mut parts = stack.partitions.iter().filter(|part| part.role != Role::Extended);
                !parts.any(|part| part.span.overlaps(place))
                    && Payload::decode(&job.payload).is_ok_and(|payload| is_over(&payload, state, &stack))
            }),
            Err(_) => false,
        };
        self.journals.push((place, is_left));
        is_left
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
