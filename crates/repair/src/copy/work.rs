//! The data of a copy: read, written, and read back. What cannot be read is listed, or stops the copy.

use std::ops::ControlFlow;

use crate::relocate::{Bad, Disk as _, FileAccess, Move, Progress, filler};
use sha2::{Digest, Sha256};
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use super::run::{CopyWatch, Stage, write};
use super::{CopyError, Source};
use crate::target::Disk;

/// How many bytes are copied at a time.
pub(super) const WINDOW: ByteCount = ByteCount::new(4 * MIB);
/// The unit of holes.
const HOLE: usize = 4096;
/// The unit in which what cannot be read is skipped.
const SECTOR: usize = 512;

/// What a sector of the source that cannot be read does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// It stops the copy.
    #[default]
    Stops,
    /// A filler takes its place, and it is listed.
    IsListed,
}

pub(super) struct Work<'w, 'd> {
    source: &'w Source<'w>,
    pub(super) disk: &'d mut dyn Disk,
    unreadable: Unreadable,
    pub(super) bad: Vec<Bad>,
    done: u64,
    total: u64,
    watch: CopyWatch<'w>,
}

/// The windows of an extent: where they are on the source and on the new disk.
fn windows(extent: Move) -> impl Iterator<Item = (Span, ByteOffset)> {
    extent.from.pieces(WINDOW).filter_map(move |part| {
        let offset = part.start().checked_since(extent.from.start())?;
        Some((part, extent.to.checked_add(offset)?))
    })
}

impl<'w, 'd> Work<'w, 'd> {
    pub(super) fn new(
        (source, disk): (&'w Source<'w>, &'d mut dyn Disk),
        unreadable: Unreadable,
        total: u64,
        watch: CopyWatch<'w>,
    ) -> Self {
        Self { source, disk, unreadable, bad: Vec::new(), done: 0, total, watch }
    }

    /// Copies all extents; returns the hash of each window, or `None` if that was stopped.
    pub(super) fn copy(&mut self, extents: &[Move]) -> Result<Option<Vec<[u8; 32]>>, CopyError> {
        let mut hashes = Vec::new();
        let mut buffer = Vec::new();
        for (from, to) in extents.iter().copied().flat_map(windows) {
            self.read(from, to, &mut buffer)?;
            hashes.push(Sha256::digest(&buffer).into());
            self.write(to, &buffer)?;
            if self.advance(from.len()) {
                return Ok(None);
            }
        }
        Ok(Some(hashes))
    }

    /// Reads what was written back; false if that was stopped.
    pub(super) fn verify(&mut self, extents: &[Move], hashes: &[[u8; 32]]) -> Result<bool, CopyError> {
        let mut buffer = Vec::new();
        for ((from, to), hash) in extents.iter().copied().flat_map(windows).zip(hashes) {
            let span = Span::new(to, from.len()).ok_or(CopyError::TooLarge)?;
            self.disk.drop_cache(span);
            buffer.resize(from.len().in_memory(), 0);
            self.disk.read_at(to, &mut buffer)?;
            if Sha256::digest(&buffer)[..] != hash[..] {
                return Err(CopyError::Differs { at: to, len: from.len().get() });
            }
            if self.advance(from.len()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts what is done; true if it is to be stopped.
    fn advance(&mut self, len: ByteCount) -> bool {
        self.done = self.done.saturating_add(len.get());
        let skipped = self.bad.iter().fold(0_u64, |sum, bad| sum.saturating_add(bad.from.len().get()));
        let progress = Progress {
            done: ByteCount::new(self.done),
            total: ByteCount::new(self.total),
            is_back: false,
            skipped: ByteCount::new(skipped),
        };
        (self.watch)(Stage::Copying, progress) == ControlFlow::Break(())
    }

    fn read(&mut self, from: Span, to: ByteOffset, buffer: &mut Vec<u8>) -> Result<(), CopyError> {
        buffer.clear();
        buffer.resize(from.len().in_memory(), 0);
        let holes = self.source.raw().map(|file| FileAccess::new(file).holes(from)).unwrap_or_default();
        if holes.iter().any(|hole| hole.contains(from)) {
            return Ok(());
        }
        match self.source.medium().read_at(from.start(), buffer) {
            Ok(()) => Ok(()),
            Err(source) if self.unreadable == Unreadable::Stops => {
                Err(CopyError::Unreadable { at: from.start(), source })
            }
            Err(_) => self.read_rest(from, to, buffer),
        }
    }

    /// Reads a window sector by sector, with a filler for those that cannot be read.
    fn read_rest(&mut self, from: Span, to: ByteOffset, buffer: &mut [u8]) -> Result<(), CopyError> {
        let mut offset = ByteCount::ZERO;
        for sector in buffer.chunks_mut(SECTOR) {
            let at = from.start().checked_add(offset).ok_or(CopyError::TooLarge)?;
            let from = Span::of_buffer(at, sector).ok_or(CopyError::TooLarge)?;
            if self.source.medium().read_at(at, sector).is_err() {
                sector.copy_from_slice(&filler(at)[..sector.len()]);
                self.list(Bad { from, to: to.checked_add(offset).ok_or(CopyError::TooLarge)? });
            }
            offset = offset.checked_add(from.len()).ok_or(CopyError::TooLarge)?;
        }
        Ok(())
    }

    /// Lists what could not be read, joined with what is listed before it.
    fn list(&mut self, bad: Bad) {
        match self.bad.last_mut().and_then(|last| Some((last.joined(bad)?, last))) {
            Some((both, last)) => *last = both,
            None => self.bad.push(bad),
        }
    }

    /// Writes a window. In a file zeros become holes.
    fn write(&mut self, to: ByteOffset, bytes: &[u8]) -> Result<(), CopyError> {
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let zeros = is_zero(&rest[..rest.len().min(HOLE)]);
            let len: usize =
                rest.chunks(HOLE).take_while(|block| is_zero(block) == zeros).map(<[u8]>::len).sum();
            let offset = ByteCount::new(at as u64);
            let place = to.checked_add(offset).and_then(|to| Span::of_buffer(to, &rest[..len]));
            let place = place.ok_or(CopyError::TooLarge)?;
            if !zeros || len < HOLE || self.disk.punch(place).is_err() {
                write(self.disk, place.start(), &rest[..len])?;
            }
            at += len;
        }
        Ok(())
    }
}
