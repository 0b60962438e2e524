//! What moves and their journal write over besides the partitions that move.
//!
//! Invariants: space that no partition has, and in which there are data, is written only with consent:
//! [`Wanted::wipe`](super::Wanted::wipe). That is checked where the plan is made, where of long spans the ends and
//! samples are read, and again, of all bytes, where it is carried out.

use straddle_device::{Medium, ReadError};
use straddle_layout::layer::Facts;
use straddle_layout::view::View;
use straddle_layout::{is_erased, read_layers};
use straddle_units::{BlockSize, ByteCount, ByteOffset, KIB, MIB, Span};

use super::debris::Debris;
use super::{Realign, RealignError, Trim};
use crate::lost;
use crate::plan::{Slot, span_of};
use crate::target::Disk;

/// What is read at once.
const PIECE: ByteCount = ByteCount::new(MIB);

/// For a plan, a span up to this is read as a whole; of a longer one half of it at each end.
const WHOLE: u64 = 64 * MIB;

/// The number of samples between the ends, and the size of each.
const SAMPLES: u64 = 512;
const SAMPLE: ByteCount = ByteCount::new(4 * KIB);

/// The unit in which data are found.
const SECTOR: usize = 512;

/// How much is read of what a move writes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// All of it, before the first write.
    Whole,
    /// Both ends, and samples of long places of data: for a plan.
    Ends,
}

/// What [`Look::Ends`] reads of each end.
const END: ByteCount = ByteCount::new(64 * KIB);

impl Realign {
    /// Refuses data where the moves go, outside of the present partitions and of a `journal` that is there already.
    pub(super) fn check_unallocated(
        &self,
        medium: &dyn Medium,
        journal: Option<Span>,
        look: Look,
    ) -> Result<(), RealignError> {
        if self.wipes {
            return Ok(());
        }
        let claimed: Vec<Span> = self.claimed().into_iter().chain(journal).collect();
        let mut debris = Debris::of(medium, self.plan.block());
        let is_nothing = &mut |at, sector: &[u8]| debris.has(at, sector);
        for span in self.written().into_iter().flat_map(|span| span.gaps(claimed.clone())) {
            if let Some(at) = first_data(medium, looked_at(span, look), is_nothing)
                .map_err(crate::error::PlanError::from)?
            {
                return Err(RealignError::Occupied { at });
            }
            if let Some(deleted) = self.deleted(medium, span) {
                return Err(RealignError::Occupied { at: deleted.start() });
            }
        }
        Ok(())
    }

    /// Refuses data in what partitions lose of their ends. That nothing lies behind the end of the contents is known of
    /// some KiB only.
    pub(super) fn check_tails(&self, medium: &dyn Medium, look: Look) -> Result<(), RealignError> {
        let block = self.plan.block();
        for Trim { number, by } in self.trims().into_iter().filter(|_| !self.wipes) {
            let entry = self.plan.before.iter().find(|entry| entry.number == number);
            let old = entry.and_then(|entry| span_of(entry, block));
            let Some(old) = old else { continue };
            let Some(tail) = old.end().checked_back(by).and_then(|start| Span::new(start, by)) else {
                continue;
            };
            if has_data(medium, (old, tail), block, look).map_err(crate::error::PlanError::from)? {
                return Err(RealignError::Unclaimed { number });
            }
        }
        Ok(())
    }

    /// Refuses data where the journal goes. Returns the places of the journals there that nothing needs.
    pub(super) fn check_journal_place(
        &self,
        medium: &dyn Medium,
        place: Span,
    ) -> Result<Vec<Span>, RealignError> {
        let mut debris = Debris::of(medium, self.plan.block());
        match self.data_under_journal(&mut debris, medium, place, Look::Whole) {
            Ok(Some(at)) => Err(RealignError::Occupied { at }),
            Ok(None) => Ok(debris.journals().collect()),
            Err(error) => Err(crate::error::PlanError::from(error).into()),
        }
    }

    /// Contents that reach into `span` and that no partition has: they may hold zeros there.
    fn deleted(&self, medium: &dyn Medium, span: Span) -> Option<Span> {
        let disk = Span::first(self.plan.disk.size);
        let gap = disk.gaps(self.claimed()).into_iter().find(|gap| gap.overlaps(span))?;
        let found = lost::reaching(medium, gap, span, self.plan.block());
        found.first().map(|(contents, _)| *contents)
    }

    /// What the moves write, but for the journal and for the sectors of the table that are always its own.
    fn written(&self) -> Vec<Span> {
        let ends = self.moves.iter().filter_map(|one| one.destination());
        let records = self.plan.new_records();
        ends.chain(records).collect()
    }

    /// The first data that a journal here would destroy.
    pub(super) fn data_under_journal(
        &self,
        debris: &mut Debris<'_>,
        medium: &dyn Medium,
        place: Span,
        look: Look,
    ) -> Result<Option<ByteOffset>, ReadError> {
        if self.wipes {
            return Ok(None);
        }
        let parts = match look {
            Look::Ends if place.len().get() > 2 * END.get() => ends(place, END).collect(),
            // All of it is cleared in the end.
            Look::Ends | Look::Whole => place.pieces(PIECE).collect(),
        };
        // Most places with data show it at once.
        let found = first_data(medium, parts, &mut |at, sector| debris.has(at, sector))?;
        Ok(found.or_else(|| self.deleted(medium, place).map(Span::start)))
    }

    /// What the present table accounts for.
    pub(super) fn claimed(&self) -> Vec<Span> {
        let block = self.plan.block();
        let listed = self.plan.before.iter().filter(|entry| entry.slot != Slot::Extended);
        listed.filter_map(|entry| span_of(entry, block)).chain(self.plan.old_records()).collect()
    }
}

/// Writes zeros to `span`, or makes a hole of it.
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

/// The bytes of an NTFS boot sector by which it is recognised: the manufacturer's name.
const NTFS: (std::ops::Range<usize>, &[u8]) = (3..11, b"NTFS    ");

/// Whether a sector is a copy of NTFS's boot sector, which ntfsresize leaves behind.
fn is_boot_copy(sector: &[u8]) -> bool {
    sector.get(NTFS.0) == Some(NTFS.1)
}

/// The first byte of a sector that holds data: it is not erased, nor is it nothing by the caller's account.
pub(super) fn first_data(
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

/// Whether data are in `tail`, which a partition at `old` loses.
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
    Ok(first_data(medium, looked_at(tail, look), &mut |_, sector| is_boot_copy(sector))?.is_some())
}

/// The parts of a span that are read: all, or both ends and samples.
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

/// The first and the last `len` bytes of a span, or all of it.
pub(crate) fn ends(span: Span, len: ByteCount) -> impl Iterator<Item = Span> {
    let head = Span::new(span.start(), span.len().min(len));
    let rest = span.len().saturating_sub(len).min(len);
    head.into_iter().chain(span.end().checked_back(rest).and_then(|start| Span::new(start, rest)))
}
