//! A layer's address space: which of its bytes are where on the drive. Bytes that are not mapped (on another disk or
//! member, or encrypted) cannot be read.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset, Span};

/// The most pieces kept in one view; a hostile or much-extended VG may have more.
pub const MAX_PIECES: usize = 4096;

/// A run of bytes that is contiguous on the device below and on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Piece {
    /// Its bytes in the layer's own space.
    #[serde(flatten)]
    pub span: Span,
    /// Its start on the device directly below.
    #[serde(rename = "below_offset_bytes")]
    pub below: ByteOffset,
    /// Its start on the drive.
    #[serde(rename = "offset_bytes")]
    pub drive: ByteOffset,
}

/// The space that a layer provides to the layers above.
#[derive(Clone)]
pub struct View<'a> {
    medium: &'a dyn Medium,
    len: ByteCount,
    /// Sorted by start; they do not overlap.
    pieces: Vec<Piece>,
}

impl<'a> View<'a> {
    /// The view of the drive itself.
    pub fn of_drive(medium: &'a dyn Medium) -> Self {
        let (len, start) = (medium.len(), ByteOffset::ZERO);
        Self { medium, len, pieces: vec![Piece { span: Span::first(len), below: start, drive: start }] }
    }

    /// Returns a space of `len` bytes whose runs are on this one: `(span in the new space, start in this one)`,
    /// sorted. A run that crosses pieces of this view is cut. Parts that are not mapped here are left out, and
    /// so are runs that pass the end of the new space or overlap the one before.
    pub fn map(&self, len: ByteCount, runs: impl IntoIterator<Item = (Span, ByteOffset)>) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for (span, below) in runs {
            let after_last = pieces.last().is_none_or(|last| last.span.end() <= span.start());
            if !after_last || span.end().get() > len.get() || pieces.len() >= MAX_PIECES {
                continue;
            }
            let Some(wanted) = Span::new(below, span.len()) else { continue };
            let first = self.pieces.partition_point(|piece| piece.span.end() <= wanted.start());
            for piece in self.pieces[first..].iter().take_while(|piece| piece.span.start() < wanted.end()) {
                if pieces.len() < MAX_PIECES {
                    pieces.extend(cut(piece, span, wanted));
                }
            }
        }
        Self { medium: self.medium, len, pieces }
    }

    /// Returns `len` bytes of this space from `start` on, or as many as there are.
    pub fn slice(&self, start: ByteOffset, len: ByteCount) -> Self {
        let room = ByteOffset::new(self.len.get()).checked_since(start).unwrap_or(ByteCount::ZERO);
        let len = len.min(room);
        self.map(len, [(Span::first(len), start)])
    }

    /// Its pieces, sorted.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The position of byte `at` of this space on the drive; `None` if it is not mapped.
    pub fn drive_at(&self, at: ByteOffset) -> Option<ByteOffset> {
        let index = self.pieces.partition_point(|piece| piece.span.end() <= at);
        let piece = self.pieces.get(index)?;
        piece.drive.checked_add(at.checked_since(piece.span.start())?)
    }
}

fn cut(piece: &Piece, span: Span, wanted: Span) -> Option<Piece> {
    let common = piece.span.common(wanted)?;
    let into_wanted = common.start().checked_since(wanted.start())?;
    let into_piece = common.start().checked_since(piece.span.start())?;
    Some(Piece {
        span: Span::new(span.start().checked_add(into_wanted)?, common.len())?,
        below: common.start(),
        drive: piece.drive.checked_add(into_piece)?,
    })
}

/// Removes what begins before the end of the item before it.
pub(crate) fn remove_overlaps<T>(sorted: &mut Vec<T>, span: impl Fn(&T) -> Span) {
    let mut end = ByteOffset::ZERO;
    sorted.retain(|item| {
        let is_new = span(item).start() >= end;
        end = if is_new { span(item).end() } else { end };
        is_new
    });
}

impl Medium for View<'_> {
    fn len(&self) -> ByteCount {
        self.len
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let wanted = Span::new(at, ByteCount::new(buf.len() as u64));
        if wanted.is_none_or(|span| span.end().get() > self.len.get()) {
            return Err(ReadError::PastEnd { at, want: buf.len(), len: self.len.get() });
        }
        let mut filled = 0;
        let mut here = at;
        while filled < buf.len() {
            let unmapped = || ReadError::Unmapped { at: here };
            let index = self.pieces.partition_point(|piece| piece.span.end() <= here);
            let piece =
                self.pieces.get(index).filter(|piece| piece.span.start() <= here).ok_or_else(unmapped)?;
            let left = piece.span.end().checked_since(here).map_or(0, ByteCount::get);
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len() - filled);
            let drive = self.drive_at(here).ok_or_else(unmapped)?;
            self.medium.read_at(drive, &mut buf[filled..filled + room])?;
            filled += room;
            here = here.checked_add(ByteCount::new(room as u64)).ok_or_else(unmapped)?;
        }
        Ok(())
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        let index = self.pieces.partition_point(|piece| piece.span.end() <= at);
        let piece = self.pieces.get(index).filter(|piece| piece.span.start() <= at);
        let zeros = piece
            .zip(self.drive_at(at))
            .map(|(piece, drive)| self.medium.zeros_from(drive).min(piece.span.end().since(at)));
        zeros.unwrap_or(ByteCount::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use straddle_device::MemoryMedium;

    use super::*;

    fn span(start: u64, len: u64) -> Span {
        Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap()
    }

    #[test]
    fn mapped_bytes_are_read_where_they_lie() {
        let medium = MemoryMedium::new((0..=255).collect());
        let drive = View::of_drive(&medium);
        let partition = drive.slice(ByteOffset::new(100), ByteCount::new(100));
        // Two runs in reverse order, with a hole after them.
        let runs = [(span(0, 10), ByteOffset::new(50)), (span(10, 10), ByteOffset::new(5))];
        let lv = partition.map(ByteCount::new(30), runs);
        let mut bytes = [0; 4];
        lv.read_at(ByteOffset::new(8), &mut bytes).unwrap();
        assert_eq!(bytes, [158, 159, 105, 106]);
        assert_eq!(lv.drive_at(ByteOffset::new(12)), Some(ByteOffset::new(107)));
        assert_eq!(lv.drive_at(ByteOffset::new(25)), None);
        assert!(lv.read_at(ByteOffset::new(18), &mut bytes).is_err());
        assert!(lv.read_at(ByteOffset::new(28), &mut bytes).is_err());
    }

    #[test]
    fn a_hole_ends_with_its_piece() {
        struct Hole;

        impl Medium for Hole {
            fn len(&self) -> ByteCount {
                ByteCount::new(256)
            }

            fn read_at(&self, _: ByteOffset, _: &mut [u8]) -> Result<(), ReadError> {
                unreachable!()
            }

            fn zeros_from(&self, at: ByteOffset) -> ByteCount {
                ByteOffset::new(55).since(at)
            }
        }

        let runs = [(span(0, 10), ByteOffset::new(50)), (span(10, 10), ByteOffset::new(5))];
        let view = View::of_drive(&Hole).map(ByteCount::new(30), runs);
        let zeros = [0, 4, 5, 10, 19, 20, 30].map(|at| view.zeros_from(ByteOffset::new(at)).get());
        assert_eq!(zeros, [5, 1, 0, 10, 1, 0, 0]);
    }

    #[test]
    fn a_run_over_two_pieces_is_cut() {
        let medium = MemoryMedium::new((0..=255).collect());
        let runs = [(span(0, 10), ByteOffset::new(50)), (span(10, 10), ByteOffset::new(5))];
        let lower = View::of_drive(&medium).map(ByteCount::new(20), runs);
        let upper = lower.slice(ByteOffset::new(5), ByteCount::new(100));
        let drives: Vec<u64> = upper.pieces().iter().map(|piece| piece.drive.get()).collect();
        assert_eq!(drives, [55, 5]);
        assert_eq!(upper.len(), ByteCount::new(15));
    }
}
