//! What a disk keeps outside of its partitions: boot code, boot loaders, and data that no partition lists any more.
//!
//! Invariants: firmware and boot code look for boot loaders at fixed places, so these keep theirs. Nothing is copied
//! over a table or into a partition. Data that are not copied are named. Without consent a copy writes only where the
//! new disk holds zeros: all of these places are read before the first write, except holes of a file.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr;
use straddle_layout::{TableKind, first_written, member_marks, taken};
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use super::run::{CopyWatch, Stage, WINDOW, sectors};
use super::{Copy, CopyError, Source};
use crate::encode::{CurrentGpt, writes};
use crate::fingerprint::bytes_of;
use crate::plan::{Format, Plan, Situation, WIPED, array_sectors};
use crate::realign::unallocated::ends;
use crate::relocate::{Disk as _, FileAccess, Progress};

/// Boot loaders of single-board computers end at 16 MiB.
pub(super) const MAX_LOADER: ByteOffset = ByteOffset::new(32 * MIB);

/// At both ends of unallocated space data are looked for that are not copied.
const LOOK: ByteCount = ByteCount::new(64 * MIB);

pub(super) struct Gap {
    pub(super) copied: Vec<Span>,
    /// Of each piece of data that is not copied, the first byte.
    left: Vec<ByteOffset>,
    /// The same between and after partitions.
    unlisted: Vec<ByteOffset>,
}

impl Gap {
    pub(super) fn of(source: &Situation<'_>, plan: &Plan) -> Result<Self, CopyError> {
        let parts = source.stack.partitions.iter().map(|partition| partition.span.start());
        let first = parts.min().unwrap_or_default().min(MAX_LOADER).min(ByteOffset::new(source.size().get()));
        let whole = Span::first(ByteCount::new(first.get()));
        let own = table_of(source)?;
        let replaced = whole.gaps([room(plan)]);
        let copied = whole.gaps(own.iter().chain(&replaced).copied());
        let mut left = Vec::new();
        for span in replaced.into_iter().flat_map(|span| span.gaps(own.iter().copied())) {
            left.extend(first_written_byte(source.medium, span)?);
        }
        let listed = source.stack.partitions.iter().map(|partition| (partition.span, partition.role));
        let usable = source.stack.usable.unwrap_or(Span::first(source.size()));
        let others = usable.gaps([whole].into_iter().chain(taken(listed, true, source.stack.block)));
        let mut unlisted = Vec::new();
        for span in others {
            for end in ends(span, LOOK) {
                if let Some(at) = first_written(source.medium, end)? {
                    unlisted.push(at);
                    break;
                }
            }
        }
        Ok(Self { copied, left, unlisted })
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let unlisted = self.unlisted.iter().map(|at| {
            format!(
                "data from byte {at} on is not copied, because it is outside all partitions (perhaps from a \
                 deleted partition)"
            )
        });
        let left = self.left.iter().map(|at| match at.get() {
            0 => "the boot code in the first sector is not copied; install the boot loader on the new disk"
                .to_owned(),
            _ => format!(
                "data before the first partition, from byte {at} on, is not copied, because the new disk has \
                 its table or a partition at this position; install the boot loader on the new disk"
            ),
        });
        left.chain(unlisted)
    }
}

/// The free space before the first partition of the new table. An MBR leaves the boot code.
pub(super) fn room(plan: &Plan) -> Span {
    let first = plan.table.spans(plan.block()).map(Span::start).min().unwrap_or_default().min(MAX_LOADER);
    let whole = Span::first(ByteCount::new(first.get()));
    if plan.table.format == Format::Mbr {
        return whole;
    }
    let table = (2 + array_sectors(plan.table.entries, plan.block())) * plan.block().get();
    let free = whole.gaps([Span::first(ByteCount::new(table))]);
    free.first().copied().unwrap_or(Span::first(ByteCount::ZERO))
}

fn table_of(source: &Situation<'_>) -> Result<Vec<Span>, CopyError> {
    if source.stack.kind != TableKind::Gpt {
        return Ok(Vec::new());
    }
    let block = source.stack.block;
    let mbr = Span::new(ByteOffset::new(mbr::DISK_ID_AT as u64), block.bytes());
    let header = Span::new(ByteOffset::new(block.get()), block.bytes());
    let array = CurrentGpt::read(source.medium, source.stack)?.primary_array();
    Ok(mbr.into_iter().chain(header).chain(array).collect())
}

fn first_written_byte(medium: &dyn Medium, span: Span) -> Result<Option<ByteOffset>, ReadError> {
    for window in span.pieces(WINDOW) {
        if let Some(offset) = first_set(&bytes_of(medium, window)?) {
            return Ok(window.start().checked_add(ByteCount::new(offset as u64)));
        }
    }
    Ok(None)
}

#[derive(Default)]
pub(super) struct Lead(Vec<(ByteOffset, Vec<u8>)>);

impl Lead {
    pub(super) fn read(copy: &Copy, source: &Source<'_>) -> Result<Self, ReadError> {
        let read = |span: &Span| Ok((span.start(), bytes_of(source.medium(), *span)?));
        copy.lead.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn code(&self) -> &[u8] {
        let first = self.0.iter().find(|(at, _)| *at == ByteOffset::ZERO);
        first.map_or(&[], |(_, bytes)| &bytes[..bytes.len().min(mbr::DISK_ID_AT)])
    }

    pub(super) fn core(&self) -> impl Iterator<Item = (ByteOffset, &[u8])> {
        self.0.iter().filter_map(|(at, bytes)| {
            let skipped = if *at == ByteOffset::ZERO { mbr::SECTOR_BYTES } else { 0 };
            let core = bytes.get(skipped..).filter(|core| !core.is_empty())?;
            Some((at.checked_add(ByteCount::new(skipped as u64))?, core))
        })
    }
}

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

pub(super) fn first_set(bytes: &[u8]) -> Option<usize> {
    let is_set = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) != 0;
    let start = bytes.chunks(PIECE).position(is_set)? * PIECE;
    Some(start + bytes[start..].iter().position(|byte| *byte != 0)?)
}
