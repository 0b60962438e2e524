//! One window on the disk: what is read for it, kept of it and written.

use straddle_units::{Boundary, ByteOffset, Span};

use crate::relocate::disk::Disks;
use crate::relocate::error::{Device, RelocateError};
use crate::relocate::journal::{Hash, Hasher, Kind, Record, Saved, hash, hash_both, in_memory};
use crate::relocate::sequence::{Window, hull};

/// What is read back at a time.
const PIECE: usize = 1 << 20;

/// What the journal has of a window that is copied: the bytes of the window and those that it overwrites, as
/// one span if they are adjacent or overlap, else one behind the other.
pub(crate) struct Shape {
    pub(crate) window: Window,
    hull: Option<Span>,
}

impl Shape {
    pub(crate) fn new(window: Window) -> Self {
        let (from, written) = (window.from, window.written);
        let is_near = from.start() <= written.end() && written.start() <= from.end();
        Self { window, hull: if is_near { hull(from, written) } else { None } }
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.hull.map_or_else(|| vec![self.window.from, self.window.written], |hull| vec![hull])
    }

    /// What is read before the window is written.
    pub(crate) fn read_first(&self) -> Vec<Span> {
        if self.window.is_direct { vec![self.window.from] } else { self.spans() }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans().iter().map(|span| in_memory(span.len())).sum()
    }

    /// Where in the copy the bytes of the window begin.
    pub(crate) fn moved_at(&self) -> usize {
        self.hull.map_or(0, |hull| distance(hull.start(), self.window.from.start()))
    }

    pub(crate) fn moved<'b>(&self, copy: &'b [u8]) -> &'b [u8] {
        &copy[self.moved_at()..][..in_memory(self.window.from.len())]
    }

    /// What the window overwrites.
    pub(crate) fn overwritten<'b>(&self, copy: &'b [u8]) -> &'b [u8] {
        let at = self.hull.map_or(in_memory(self.window.from.len()), |hull| {
            distance(hull.start(), self.window.written.start())
        });
        &copy[at..][..in_memory(self.window.written.len())]
    }

    /// What is to be written: the bytes of the window, and the rest of its first and last physical sector.
    pub(crate) fn content(&self, copy: &[u8]) -> Vec<u8> {
        let mut content = self.overwritten(copy).to_vec();
        let at = distance(self.window.written.start(), self.window.to.start());
        let moved = self.moved(copy);
        content[at..at + moved.len()].copy_from_slice(moved);
        content
    }

    /// Whether a record describes this window.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        record.saved().is_none_or(|saved| {
            saved.len == self.len() as u64
                && saved.at == self.moved_at() as u64
                && saved.moved == self.window.from.len().get()
        })
    }

    pub(crate) fn kind(&self, copy: &[u8]) -> Kind {
        let (at, moved) = (self.moved_at(), self.moved(copy));
        let rest = hash_both(&copy[..at], &copy[at + moved.len()..]);
        let (len, at, count) = (copy.len() as u64, at as u64, moved.len() as u64);
        Kind::Copied { moved: hash(moved), saved: Saved { len, at, moved: count, rest } }
    }
}

fn distance(from: ByteOffset, to: ByteOffset) -> usize {
    to.checked_since(from).map_or(usize::MAX, in_memory)
}

pub(crate) fn read(disks: &mut Disks<'_>, span: Span) -> Result<Vec<u8>, RelocateError> {
    let mut bytes = vec![0; in_memory(span.len())];
    disks.read(Device::Data, span.start(), &mut bytes)?;
    Ok(bytes)
}

pub(crate) fn write(disks: &mut Disks<'_>, span: Span, bytes: &[u8]) -> Result<(), RelocateError> {
    disks.write(Device::Data, span.start(), bytes)
}

/// The holes at `from`, where they are if `from` is moved to `to`: whole physical sectors.
pub(crate) fn holes(disks: &mut Disks<'_>, from: Span, to: Span, blocks: Boundary) -> Vec<Span> {
    let shifted = |hole: Span| {
        let (first, last) = (hole.start().max(from.start()), hole.end().min(from.end()));
        let at = |byte: ByteOffset| {
            let offset = byte.checked_since(from.start())?.get();
            Some(ByteOffset::new(to.start().get() + offset))
        };
        let (start, end) = (blocks.ceil(at(first)?)?, blocks.floor(at(last)?)?);
        Span::between(start, end).filter(|hole| !hole.is_empty())
    };
    disks.get(Device::Data).holes(from).into_iter().filter_map(shifted).collect()
}

/// Writes the bytes of `span`, and as holes those of them that lie in `holes` and are zeros.
pub(crate) fn write_sparse(
    disks: &mut Disks<'_>,
    span: Span,
    bytes: &[u8],
    holes: &[Span],
) -> Result<(), RelocateError> {
    let mut at = 0;
    for hole in holes {
        let (start, len) = (distance(span.start(), hole.start()), in_memory(hole.len()));
        // The disk may be wrong, and the bytes are what the journal promises.
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let Some(zeros) = bytes.get(start..start.saturating_add(len)).filter(|zeros| is_zero(zeros)) else {
            continue;
        };
        if start < at {
            continue;
        }
        disks.write_at(span.start(), at, &bytes[at..start])?;
        if disks.get(Device::Data).punch(*hole).is_err() {
            disks.write_at(span.start(), start, zeros)?;
        }
        at = start + len;
    }
    disks.write_at(span.start(), at, &bytes[at..])
}

/// Writes the bytes of `span`, but for what is in `kept`.
pub(crate) fn write_without(
    disks: &mut Disks<'_>,
    span: Span,
    bytes: &[u8],
    holes: &[Span],
    kept: &[Span],
) -> Result<(), RelocateError> {
    let parts = span.gaps(kept.iter().copied());
    if parts == [span] {
        return write_sparse(disks, span, bytes, holes);
    }
    for part in parts {
        let from = distance(span.start(), part.start());
        write(disks, part, &bytes[from..from + in_memory(part.len())])?;
    }
    Ok(())
}

/// Whether the medium has at `span` what has this hash.
pub(crate) fn holds(disks: &mut Disks<'_>, span: Span, moved: Hash) -> Result<bool, RelocateError> {
    disks.get(Device::Data).drop_cache(span);
    is_cached(disks, &[span], moved)
}

/// The same, if the cache was dropped before.
pub(crate) fn is_cached(disks: &mut Disks<'_>, spans: &[Span], moved: Hash) -> Result<bool, RelocateError> {
    let mut hasher = Hasher::default();
    let longest = spans.iter().map(|span| in_memory(span.len())).max().unwrap_or(0);
    let mut piece = vec![0; PIECE.min(longest)];
    for span in spans {
        let (mut at, mut left) = (span.start().get(), in_memory(span.len()));
        while left > 0 {
            let len = piece.len().min(left);
            disks.read(Device::Data, ByteOffset::new(at), &mut piece[..len])?;
            hasher.add(&piece[..len]);
            at += len as u64;
            left -= len;
        }
    }
    Ok(hasher.finish() == moved)
}

/// What is not what it was.
pub(crate) fn changed(span: Span) -> RelocateError {
    let (start, len) = (span.start(), span.len().get());
    RelocateError::Damaged(format!("the {len} bytes at byte {start} are not as the journal records them"))
}
