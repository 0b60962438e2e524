//! Whether a copy writes over anything.
//!
//! The law of this module: without consent a copy writes only where the new disk holds zeros. All of these places
//! are read before the first write, except holes of a file; contents need not be recognised.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use straddle_device::{Medium, MemoryMedium};
use straddle_layout::member_marks;
use straddle_relocate::{FileAccess, Progress, filler};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::gap::Lead;
use super::run::{CopyWatch, Stage, sectors};
use super::work::{SECTOR, WINDOW, windows};
use super::{Copy, CopyError};
use crate::encode::Step;
use crate::plan::WIPED;

/// How many bytes are tested at once.
const PIECE: usize = 4096;

impl Copy {
    /// Checks a new disk that is a file: at once if the file is sparse. Anything else is left to [`run`](Self::run).
    /// Breaks if `watch` does.
    ///
    /// # Errors
    ///
    /// [`CopyError::NotZero`], or if it cannot be read.
    pub fn check_file(
        &self,
        path: &Path,
        medium: &dyn Medium,
        watch: CopyWatch<'_>,
    ) -> Result<ControlFlow<()>, CopyError> {
        let Some(file) = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))
        else {
            return Ok(ControlFlow::Continue(()));
        };
        self.check_empty(medium, self.written(medium)?, &|span| FileAccess::new(&file).holes(span), watch)
    }

    /// Checks that there are only zeros in the `places` that are written, unless the plan has consent for that.
    pub(super) fn check_empty(
        &self,
        medium: &dyn Medium,
        places: Vec<Span>,
        holes: &dyn Fn(Span) -> Vec<Span>,
        watch: CopyWatch<'_>,
    ) -> Result<ControlFlow<()>, CopyError> {
        if self.wipes {
            return Ok(ControlFlow::Continue(()));
        }
        let data: Vec<Span> = places.into_iter().flat_map(|span| span.gaps(holes(span))).collect();
        let total = data.iter().fold(0_u64, |sum, span| sum.saturating_add(span.len().get()));
        let (mut done, mut buffer) = (0_u64, Vec::new());
        for window in data.into_iter().flat_map(|span| span.pieces(WINDOW)) {
            buffer.resize(usize::try_from(window.len().get()).unwrap_or(0), 0);
            let unknown = |source| CopyError::Unknown { at: window.start(), source };
            medium.read_at(window.start(), &mut buffer).map_err(unknown)?;
            if let Some(offset) = first_set(&buffer) {
                let at = window.start().checked_add(ByteCount::new(offset as u64));
                return Err(CopyError::NotZero { at: at.ok_or(CopyError::TooLarge)? });
            }
            done = done.saturating_add(window.len().get());
            let (done, total) = (ByteCount::new(done), ByteCount::new(total));
            let progress = Progress { done, total, is_back: false, skipped: ByteCount::ZERO };
            if watch(Stage::Reading, progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Checks the `places` that are written, on a disk that an earlier run has begun to write to: each sector but the first,
    /// which has the marker, has zeros, or what this run writes there, unless the plan has consent for more.
    pub(super) fn check_begun(
        &self,
        (source, lead): (&dyn Medium, &Lead),
        medium: &dyn Medium,
        places: &[Span],
        watch: CopyWatch<'_>,
    ) -> Result<ControlFlow<()>, CopyError> {
        if self.wipes {
            return Ok(ControlFlow::Continue(()));
        }
        self.check_besides(lead, medium, places)?;
        let recorded = self.recorded();
        let (mut done, mut there, mut data) = (0_u64, Vec::new(), Vec::new());
        for (from, to) in self.extents.iter().copied().flat_map(windows) {
            let len = usize::try_from(from.len().get()).unwrap_or(0);
            there.resize(len, 0);
            medium.read_at(to, &mut there)?;
            if first_set(&there).is_some() {
                data.resize(len, 0);
                let is_read = source.read_at(from.start(), &mut data).is_ok();
                for (index, sector) in there.chunks(SECTOR).enumerate() {
                    let skipped = ByteCount::new((index * SECTOR) as u64);
                    let (at, origin) = (to.checked_add(skipped), from.start().checked_add(skipped));
                    let (at, origin) = (at.ok_or(CopyError::TooLarge)?, origin.ok_or(CopyError::TooLarge)?);
                    let of_source = data.get_mut(index * SECTOR..index * SECTOR + sector.len());
                    let is_own = of_source.is_some_and(|bytes| {
                        (is_read || source.read_at(origin, bytes).is_ok()) && *bytes == *sector
                    });
                    // What could not be read then may be read now.
                    let is_filler = || filler(origin).get(..sector.len()) == Some(sector);
                    let is_recorded = || recorded.iter().any(|span| span.start() <= at && at < span.end());
                    if first_set(sector).is_some() && !is_own && !is_filler() && !is_recorded() {
                        return Err(CopyError::WrittenSince { at });
                    }
                }
            }
            done = done.saturating_add(from.len().get());
            let (done, total) = (ByteCount::new(done), self.total());
            let progress = Progress { done, total, is_back: false, skipped: ByteCount::ZERO };
            if watch(Stage::Reading, progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The same for what is not data: the start of the disk, and the table.
    fn check_besides(&self, lead: &Lead, medium: &dyn Medium, places: &[Span]) -> Result<(), CopyError> {
        let mut own: Vec<(u64, Vec<u8>)> = lead.core().map(|(at, core)| (at.get(), core.to_vec())).collect();
        let blank = MemoryMedium::sparse(Vec::new(), medium.len());
        own.extend(self.steps(&blank, lead)?.into_iter().filter_map(|step| match step {
            Step::Write { at, new, .. } => Some((at, new)),
            _ => None,
        }));
        let is_own = |at: ByteOffset, sector: &[u8]| {
            own.iter().any(|(start, bytes)| {
                let from = at.get().checked_sub(*start).and_then(|from| usize::try_from(from).ok());
                from.and_then(|from| bytes.get(from..from.checked_add(sector.len())?)) == Some(sector)
            })
        };
        let data = || self.extents.iter().filter_map(|one| one.destination());
        let spans = places.iter().flat_map(|place| place.gaps(data()));
        for window in spans.flat_map(|span| span.pieces(WINDOW)) {
            let mut bytes = vec![0; usize::try_from(window.len().get()).unwrap_or(0)];
            medium.read_at(window.start(), &mut bytes)?;
            for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                let at = window.start().checked_add(ByteCount::new((index * SECTOR) as u64));
                let at = at.ok_or(CopyError::TooLarge)?;
                if at != ByteOffset::ZERO && first_set(sector).is_some() && !is_own(at, sector) {
                    return Err(CopyError::WrittenSince { at });
                }
            }
        }
        Ok(())
    }

    /// Every place that is written on `medium`, in ascending order and apart from each other.
    pub(super) fn written(&self, medium: &dyn Medium) -> Result<Vec<Span>, CopyError> {
        let mut places = vec![Span::first(WIPED.min(medium.len()))];
        places.extend(self.lead.iter().copied());
        places.extend(member_marks(medium)?.into_iter().filter_map(|mark| sectors(mark, medium.len())));
        places.extend(self.extents.iter().filter_map(|one| one.destination()));
        for step in self.steps(medium, &Lead::default())? {
            let Step::Write { at, new, .. } = step else { continue };
            let len = ByteCount::new(new.len() as u64);
            places.push(Span::new(ByteOffset::new(at), len).ok_or(CopyError::TooLarge)?);
        }
        places.sort_by_key(|place| place.start());
        let mut apart: Vec<Span> = Vec::new();
        for place in places {
            let until = apart.last().map_or(ByteOffset::ZERO, |last| last.end());
            apart.extend(place.gaps([Span::first(ByteCount::new(until.get()))]));
        }
        Ok(apart)
    }
}

/// The first byte that is not zero.
fn first_set(bytes: &[u8]) -> Option<usize> {
    let is_set = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) != 0;
    let index = bytes.chunks(PIECE).position(is_set)?;
    let start = index * PIECE;
    Some(start + bytes.get(start..)?.iter().position(|byte| *byte != 0)?)
}
