//! What moves and their journal overwrite besides the partitions that move.
//!
//! Invariants: data in space that no partition has are overwritten only with [`Wanted::wipe`](super::Wanted::wipe).
//! That is checked where the plan is made, of long spans by their ends and samples, and again, of all bytes, where it
//! is carried out. A sector is debris, not data, only if it says so itself: a whole copy of a GPT or a header in its
//! own place, if the GPT that counts is the same and names another; or a part of a journal that no move needs, in its
//! own place.

use straddle_device::fields::{has, le64};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::gpt::{SIGNATURE, header};
use straddle_layout::layer::Facts;
use straddle_layout::view::View;
use straddle_layout::{Role, gpt_copy, is_erased, is_gpt_header, read_layers, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, KIB, MIB, Span};

use super::find::{has_needed, is_over, journal_at};
use super::media::{Carrier, Reading};
use super::payload::Payload;
use super::{MoveError, Realign, RealignError, Run};
use crate::error::PlanError;
use crate::fingerprint::bytes_of;
use crate::lost;
use crate::plan::{Slot, span_of};
use crate::relocate::{Device, Disks, RelocateError, forget, place_around};
use crate::target::Disk;

const PIECE: ByteCount = ByteCount::new(MIB);
/// For a plan, a longer span is read only at its ends, half of this at each.
const WHOLE: u64 = 64 * MIB;
/// Between the ends, and the size of each.
const SAMPLES: u64 = 512;
const SAMPLE: ByteCount = ByteCount::new(4 * KIB);
/// Read at each end of the journal's place.
const END: ByteCount = ByteCount::new(64 * KIB);
const SECTOR: usize = 512;
/// A GPT's header is at most 1024 entries and a sector of 4096 bytes away from its entries.
const NEAR: u64 = 132 * KIB;
/// If there is more, a later move there needs consent.
const MOST_CLEARED: ByteCount = ByteCount::new(KIB * MIB);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// All of it, before the first write.
    Whole,
    /// Both ends, and samples of long places of data: for a plan.
    Ends,
}

impl Realign {
    pub(super) fn check_unallocated(&self, medium: &dyn Medium, look: Look) -> Result<(), RealignError> {
        if self.wipes {
            return Ok(());
        }
        let claimed = self.claimed();
        let mut debris = Debris::of(medium, self.plan.block());
        let is_nothing = &mut |at, sector: &[u8]| debris.has(at, sector);
        // The table's own sectors, and the journal, are checked elsewhere.
        let written = self.moves.iter().filter_map(|one| one.destination()).chain(self.plan.new_records());
        for span in written.flat_map(|span| span.gaps(claimed.clone())) {
            let found = first_data(medium, looked_at(span, look), is_nothing).map_err(PlanError::from)?;
            if let Some(at) = found.or_else(|| self.deleted(medium, span)) {
                return Err(RealignError::Occupied { at });
            }
        }
        Ok(())
    }

    pub(super) fn check_tails(&self, medium: &dyn Medium, look: Look) -> Result<(), RealignError> {
        let block = self.plan.block();
        for (number, by) in self.trims().into_iter().filter(|_| !self.wipes) {
            let entry = self.plan.before.iter().find(|entry| entry.number == number);
            let Some(old) = entry.and_then(|entry| span_of(entry, block)) else { continue };
            let tail = old.end().checked_back(by).and_then(|start| Span::new(start, by));
            let Some(tail) = tail else { continue };
            if has_data(medium, (old, tail), block, look).map_err(PlanError::from)? {
                return Err(RealignError::Unclaimed { number });
            }
        }
        Ok(())
    }

    /// Returns the places of the journals there that nothing needs.
    pub(super) fn check_journal_place(
        &self,
        medium: &dyn Medium,
        place: Span,
    ) -> Result<Vec<Span>, RealignError> {
        let mut debris = Debris::of(medium, self.plan.block());
        match self.data_under_journal(&mut debris, place, Look::Whole).map_err(PlanError::from)? {
            Some(at) => Err(RealignError::Occupied { at }),
            None => Ok(debris.journals().collect()),
        }
    }

    /// Contents without a partition that reach into `span`, where they may hold zeros.
    fn deleted(&self, medium: &dyn Medium, span: Span) -> Option<ByteOffset> {
        let disk = Span::first(self.plan.disk.size);
        let gap = disk.gaps(self.claimed()).into_iter().find(|gap| gap.overlaps(span))?;
        let found = lost::reaching(medium, gap, span, self.plan.block());
        found.first().map(|(contents, _)| contents.start())
    }

    pub(super) fn data_under_journal(
        &self,
        debris: &mut Debris<'_>,
        place: Span,
        look: Look,
    ) -> Result<Option<ByteOffset>, ReadError> {
        if self.wipes {
            return Ok(None);
        }
        let parts = match look {
            Look::Ends if place.len().get() > 2 * END.get() => ends(place, END).collect(),
            Look::Ends | Look::Whole => place.pieces(PIECE).collect(),
        };
        let medium = debris.medium;
        let found = first_data(medium, parts, &mut |at, sector| debris.has(at, sector))?;
        Ok(found.or_else(|| self.deleted(medium, place)))
    }

    fn claimed(&self) -> Vec<Span> {
        let block = self.plan.block();
        let listed = self.plan.before.iter().filter(|entry| entry.slot != Slot::Extended);
        listed.filter_map(|entry| span_of(entry, block)).chain(self.plan.old_records()).collect()
    }
}

/// Punches a hole, or writes zeros.
pub(super) fn clear(disk: &mut dyn Disk, span: Span) -> std::io::Result<()> {
    if disk.punch(span).is_ok() {
        return disk.flush();
    }
    for piece in span.pieces(PIECE) {
        let zeros = vec![0; usize::try_from(piece.len().get()).unwrap_or(0)];
        disk.write_at(piece.start(), &zeros)?;
    }
    disk.flush()
}

/// The OEM name in an NTFS boot sector, of which ntfsresize leaves a copy.
const NTFS: (usize, &[u8]) = (3, b"NTFS    ");

fn first_data(
    medium: &dyn Medium,
    parts: Vec<Span>,
    is_nothing: &mut dyn FnMut(ByteOffset, &[u8]) -> bool,
) -> Result<Option<ByteOffset>, ReadError> {
    for part in parts {
        let mut bytes = vec![0; usize::try_from(part.len().get()).unwrap_or(0)];
        medium.read_at(part.start(), &mut bytes)?;
        let sectors = (part.start().get()..).step_by(SECTOR).map(ByteOffset::new).zip(bytes.chunks(SECTOR));
        for (at, sector) in sectors {
            if !is_erased(sector) && !is_nothing(at, sector) {
                return Ok(Some(at));
            }
        }
    }
    Ok(None)
}

pub(crate) fn has_data(
    medium: &dyn Medium,
    (old, tail): (Span, Span),
    block: BlockSize,
    look: Look,
) -> Result<bool, ReadError> {
    // cryptsetup opens nothing that ends within an encryption sector.
    let layer = read_layers(&View::of_drive(medium), old, Some(block));
    if layer.is_some_and(|layer| matches!(layer.facts, Facts::Luks(luks) if tail.len() < luks.sector_size)) {
        return Ok(false);
    }
    let is_boot_copy = &mut |_, sector: &[u8]| has(sector, NTFS.0, NTFS.1);
    Ok(first_data(medium, looked_at(tail, look), is_boot_copy)?.is_some())
}

fn looked_at(span: Span, look: Look) -> Vec<Span> {
    let len = span.len().get();
    if len <= WHOLE || look == Look::Whole {
        return span.pieces(PIECE).collect();
    }
    let step = len / SAMPLES;
    let samples = (1..SAMPLES).filter_map(|index| {
        let at = span.start().checked_add(ByteCount::new((index * step) & !(SAMPLE.get() - 1)))?;
        Span::new(at, SAMPLE)
    });
    let ends = ends(span, ByteCount::new(WHOLE / 2)).flat_map(|end| end.pieces(PIECE));
    ends.chain(samples.filter(|sample| span.contains(*sample))).collect()
}

pub(crate) fn ends(span: Span, len: ByteCount) -> impl Iterator<Item = Span> {
    let head = Span::new(span.start(), span.len().min(len));
    let rest = span.len().saturating_sub(len).min(len);
    head.into_iter().chain(span.end().checked_back(rest).and_then(|start| Span::new(start, rest)))
}

pub(super) struct Debris<'m> {
    medium: &'m dyn Medium,
    /// In which its table counts.
    block: BlockSize,
    known: Vec<Span>,
    /// The places of journals, and whether none of it is needed.
    journals: Vec<(Span, bool)>,
}

impl<'m> Debris<'m> {
    pub(super) fn of(medium: &'m dyn Medium, block: BlockSize) -> Self {
        Self { medium, block, known: Vec::new(), journals: Vec::new() }
    }

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

    pub(super) fn journals(&self) -> impl Iterator<Item = Span> {
        self.journals.iter().filter(|(_, is_left)| *is_left).map(|(place, _)| *place)
    }

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

    fn table(&self, sector: Span) -> Option<Vec<Span>> {
        let size = self.medium.len().get();
        let from = sector.start().get().saturating_sub(NEAR);
        let to = sector.end().get().saturating_add(NEAR).min(size);
        let around = Span::new(ByteOffset::new(from), ByteCount::new(to.checked_sub(from)?))?;
        let bytes = bytes_of(self.medium, around).ok()?;
        let sectors = (from..).step_by(SECTOR).map(ByteOffset::new).zip(bytes.chunks(SECTOR));
        let headers = sectors.filter(|(_, bytes)| has(bytes, 0, SIGNATURE)).map(|(at, _)| at);
        let mut headers = headers.filter(|at| !self.counts(*at));
        headers.find_map(|at| match gpt_copy(self.medium, at) {
            Some([head, array]) => {
                (head.contains(sector) || array.contains(sector)).then(|| vec![head, array])
            }
            // Its entries were overwritten.
            None => (at == sector.start() && is_gpt_header(self.medium, at)).then(|| vec![sector]),
        })
    }

    /// Whether the header may count: it is the first of a GPT, or the backup that the first names; or no
    /// valid first header is of the same GPT, so that this may be the only copy.
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

impl Run<'_> {
    /// Refuses data where the journal goes, or clears them with [`Wanted::wipe`](super::Wanted::wipe), with
    /// the titles of journals that nothing needs: a later search is to find this journal only.
    pub(super) fn clear_place(&mut self) -> Result<(), MoveError> {
        let Some(place) = self.place_on_disk() else { return Ok(()) };
        let realign = &self.payload.realign;
        for old in realign.check_journal_place(self.disk, place)? {
            forget(Disks::one(&mut Carrier(self.disk)), old)?;
        }
        if !realign.wipes || has_needed(self.disk, place) {
            return Ok(());
        }
        let (device, at, len) = (Device::Data, place.start(), ByteCount::ZERO);
        Ok(clear(self.disk, place).map_err(|source| RelocateError::Write { device, at, len, source })?)
    }

    pub(super) fn clear_space(&mut self, is_back: bool) {
        let realign = &self.payload.realign;
        let plan = &realign.plan;
        let new = plan.table.partitions.iter().filter(|entry| entry.slot != Slot::Extended);
        let new = new.filter_map(|entry| plan.span(entry)).chain(plan.new_records());
        let taken: Vec<Span> = if is_back { realign.claimed() } else { new.collect() };
        let is_free = |start: ByteOffset, end: ByteOffset| {
            let span = Span::between(start, end);
            span.is_some_and(|span| {
                plan.movable_space().contains(span) && !taken.iter().any(|taken| taken.overlaps(span))
            })
        };
        // A write of a partition's physical sector could be torn: it stays.
        let whole = |span: Span| {
            let (start, end) = (realign.blocks.floor(span.start()), realign.blocks.ceil(span.end()));
            let start =
                start.filter(|start| is_free(*start, span.start())).or(realign.blocks.ceil(span.start()))?;
            let end = end.filter(|end| is_free(span.end(), *end)).or(realign.blocks.floor(span.end()))?;
            Span::between(start, end)
        };
        let written = realign.moves.iter().filter_map(|one| one.destination());
        let written = written.flat_map(|span| span.gaps(taken.iter().copied())).filter_map(whole);
        let written = written.filter(|span| span.len() <= MOST_CLEARED);
        for span in written.chain(self.place_on_disk()).collect::<Vec<_>>() {
            let _ = clear(self.disk, span);
        }
    }
}
