//! Whether a copy writes over anything.
//!
//! Invariants: without consent a copy writes only where the new disk holds zeros. All of these places are
//! read before the first write, except holes of a file.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use crate::relocate::{Disk as _, FileAccess, Progress};
use straddle_device::Medium;
use straddle_layout::member_marks;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::gap::Lead;
use super::run::{CopyWatch, Stage, sectors};
use super::work::WINDOW;
use super::{Copy, CopyError};
use crate::encode::writes;
use crate::plan::WIPED;

/// How many bytes are tested at once.
const PIECE: usize = 4096;

impl Copy {
    /// Checks a new disk that is a file, which is quick if the file is sparse. Other disks are left to
    /// [`run`](Self::run). Breaks if `watch` does.
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

    /// Checks that there are only zeros in the `places` that are written, unless the plan has consent.
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
            buffer.resize(window.len().in_memory(), 0);
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

    /// Every place that is written on `medium`, in order and each once.
    pub(super) fn written(&self, medium: &dyn Medium) -> Result<Vec<Span>, CopyError> {
        let mut places = vec![Span::first(WIPED.min(medium.len()))];
        places.extend(self.lead.iter().copied());
        places.extend(member_marks(medium)?.into_iter().filter_map(|mark| sectors(mark, medium.len())));
        places.extend(self.extents.iter().filter_map(|one| one.destination()));
        let steps = self.steps(medium, &Lead::default())?;
        for (at, _, new, _) in writes(&steps) {
            places.push(Span::of_buffer(ByteOffset::new(at), new).ok_or(CopyError::TooLarge)?);
        }
        Ok(Span::union(places))
    }
}

/// The index of the first byte that is not zero.
pub(super) fn first_set(bytes: &[u8]) -> Option<usize> {
    let is_set = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) != 0;
    let start = bytes.chunks(PIECE).position(is_set)? * PIECE;
    Some(start + bytes[start..].iter().position(|byte| *byte != 0)?)
}
