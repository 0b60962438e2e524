//! Mapping a live device's bytes to the examined drive, through all devices in between.

use straddle_device::live::{Located, Lower};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::model::view::{MAX_PIECES, Piece, remove_overlaps};

/// A striped run continues in the same pattern.
const PIECES_OF_RUN: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// `None` for the first device, which is one piece of the drive.
    below: Option<(&'a Ground<'a>, &'a Lower)>,
    start: ByteOffset,
    len: ByteCount,
}

impl<'a> Ground<'a> {
    pub(super) fn first(start: ByteOffset, len: ByteCount) -> Self {
        Self { below: None, start, len }
    }

    pub(super) fn on(below: &'a Ground<'a>, lower: &'a Lower, len: ByteCount) -> Self {
        Self { below: Some((below, lower)), start: ByteOffset::ZERO, len }
    }

    pub(super) fn len(&self) -> ByteCount {
        self.len
    }

    /// Also returns how many bytes are contiguous there.
    pub(super) fn locate(&self, at: ByteOffset) -> Located {
        let left = ByteCount::new(self.len.get().saturating_sub(at.get()));
        if left == ByteCount::ZERO {
            return Located::Never;
        }
        let Some((below, lower)) = self.below else {
            let drive = self.start.checked_add(ByteCount::new(at.get()));
            return drive.map_or(Located::Never, |drive| Located::Here(drive, left));
        };
        match lower.locate(at) {
            Located::Here(there, len) => match below.locate(there) {
                Located::Here(drive, more) => Located::Here(drive, len.min(more).min(left)),
                Located::Later(more) => Located::Later(len.min(more)),
                Located::Never => Located::Later(len),
            },
            elsewhere => elsewhere,
        }
    }

    pub(super) fn drive_at(&self, at: ByteOffset) -> Option<ByteOffset> {
        match self.locate(at) {
            Located::Here(drive, _) => Some(drive),
            _ => None,
        }
    }

    pub(super) fn pieces(&self) -> Vec<Piece> {
        let Some((below, lower)) = self.below else {
            let piece = Piece { span: Span::first(self.len), below: ByteOffset::ZERO, drive: self.start };
            return Span::new(self.start, self.len).map(|_| piece).into_iter().collect();
        };
        let mut pieces: Vec<Piece> = Vec::new();
        for run in &lower.runs {
            let (mut at, mut listed) = (run.span.start(), 0);
            // Holes count as steps.
            for _ in 0..PIECES_OF_RUN * PIECES_OF_RUN {
                let step = match run.locate(at) {
                    Located::Never => break,
                    Located::Later(len) => len,
                    Located::Here(there, len) => match below.locate(there) {
                        Located::Here(drive, more) => {
                            let len = len.min(more);
                            let span = Span::new(at, len).filter(|span| span.end().get() <= self.len.get());
                            pieces.extend(span.map(|span| Piece { span, below: there, drive }));
                            listed += 1;
                            len
                        }
                        Located::Later(more) => len.min(more),
                        Located::Never => len,
                    },
                };
                match at.checked_add(step) {
                    Some(next) if listed < PIECES_OF_RUN => at = next,
                    _ => break,
                }
            }
        }
        pieces.sort_by_key(|piece| piece.span.start());
        // Of two copies on one drive, only the first is listed.
        remove_overlaps(&mut pieces, |piece| piece.span);
        pieces.truncate(MAX_PIECES);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use straddle_device::live::{Every, Run};

    use super::*;

    fn span(start: u64, len: u64) -> Span {
        Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap()
    }

    fn lower(runs: Vec<Run>) -> Lower {
        Lower { device: "x".to_owned(), holds_data: true, runs }
    }

    #[test]
    fn a_volume_on_a_striped_array_is_cut() {
        // Member 1 of 2 with chunks of 100 bytes, and a volume that begins at byte 250 of the array.
        let every =
            Every { chunk: ByteCount::new(100), period: ByteCount::new(200), step: ByteCount::new(100) };
        let member =
            lower(vec![Run { span: span(100, 900), offset: ByteOffset::new(10), every: Some(every) }]);
        let volume = lower(vec![Run::whole(span(0, 300), ByteOffset::new(250))]);
        let first = Ground::first(ByteOffset::new(1000), ByteCount::new(2000));
        let array = Ground::on(&first, &member, ByteCount::new(1000));
        let ground = Ground::on(&array, &volume, ByteCount::new(300));
        let pieces: Vec<_> = ground.pieces().iter().map(|p| (p.span, p.below.get(), p.drive.get())).collect();
        assert_eq!(pieces, [(span(50, 100), 300, 1110), (span(250, 50), 500, 1210)]);
        assert_eq!(ground.drive_at(ByteOffset::ZERO), None);
        assert_eq!(ground.drive_at(ByteOffset::new(260)), Some(ByteOffset::new(1220)));
        assert_eq!(ground.locate(ByteOffset::new(300)), Located::Never);
    }
}
