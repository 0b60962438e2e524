//! Carrying out a copy: the marker, the data, the boot sectors, the table.
//!
//! Invariants: nothing is written to the new disk before it is known to be the plan's, unchanged and, without
//! consent, zero wherever something is written. Its table is written when everything else was read back from the
//! medium, and only if the source was not written to since it was opened. Unreadable sectors are listed, or stop the
//! copy.

use std::ops::ControlFlow;

use sha2::{Digest, Sha256};
use straddle_device::topology::{Figure, Topology};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr;
use straddle_layout::{TableKind, member_marks, read_all, read_stack};
use straddle_units::{ByteCount, ByteOffset, Lba, MIB, Span};

use super::gap::Lead;
use super::{Copy, CopyError, Item, Source, items, occupants, references_of};
use crate::apply::{Expected, check_kernel, differing, recognise_disk, tell_kernel};
use crate::encode::{Step, encode_over_all};
use crate::fingerprint::{Fingerprint, bytes_at, holds};
use crate::foresee::{After, difference};
use crate::plan::{Entry, Situation, WIPED};
use crate::realign::{Listing, MoveError, Reading, Reference, Which, hibernated, obstacle, record};
use crate::relocate::{Bad, Disk as _, Disks, FileAccess, Move, Progress, listed, read_rest};
use crate::target::{Disk, Target};

/// Where the marker of an unfinished copy has its text.
const TEXT: (usize, &[u8]) = (32, b"straddle: unfinished copy");

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The new disk is complete. The list has what could not be read.
    Complete(Vec<Bad>),
    /// It was stopped, and is to be made again.
    Stopped,
    /// It was stopped before anything was written.
    Untouched,
}

/// What a copy is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the new disk, where zeros have to be.
    Reading,
    /// Copying, and reading back what was copied.
    Copying,
}

/// Receives the stage and its progress, and may stop the copy.
pub type CopyWatch<'w> = &'w mut dyn FnMut(Stage, Progress) -> ControlFlow<()>;

pub(crate) fn is_unfinished(medium: &dyn Medium) -> Result<bool, ReadError> {
    if medium.len().get() < mbr::SECTOR_BYTES as u64 {
        return Ok(false);
    }
    let sector = bytes_at(medium, ByteOffset::ZERO, mbr::SECTOR_BYTES)?;
    let has_text = sector[TEXT.0..].starts_with(TEXT.1);
    Ok(has_text && sector[mbr::ENTRIES_AT + 4] == straddle_layout::MARKER_TYPE)
}

impl Copy {
    /// Copies `source` to `target`, and writes nowhere but in the places that are listed before the first
    /// write. `list` receives what could not be read before the table is written.
    ///
    /// # Errors
    ///
    /// [`CopyError`]. The new disk stays marked as unfinished.
    pub fn run(
        &self,
        source: &Source<'_>,
        target: &mut Target<'_>,
        unreadable: Unreadable,
        (watch, list): (CopyWatch<'_>, Listing<'_>),
    ) -> Result<Copied, CopyError> {
        let lead = self.check_source(source)?;
        if target.file().is_some_and(|file| source.is_behind(file)) {
            return Err(CopyError::Itself);
        }
        let has_begun = self.has_begun(target)?;
        check_kernel(target)?;
        // GRUB is reinstalled on the new disk; its source still starts.
        let reinstalled = |what: &Reference| *what == Reference::BiosBoot;
        for (number, what) in self.references.iter().filter(|(_, what)| !reinstalled(what)) {
            if let Some(what) = obstacle(what) {
                return Err(MoveError::Partition { number: *number, what }.into());
            }
        }
        let places = self.written(target)?;
        if !has_begun
            && self.check_empty(target, places.clone(), &|span| target.holes(span), watch)?.is_break()
        {
            return Ok(Copied::Untouched);
        }
        target.restrict_writes(places);
        let disk: &mut dyn Disk = target;
        let marks = member_marks(disk)?;
        let marker = self.marker()?;
        write(disk, ByteOffset::ZERO, &marker)?;
        flush(disk)?;
        let head = vec![0; WIPED.in_memory() - marker.len()];
        write(disk, ByteOffset::new(marker.len() as u64), &head)?;
        // A new table would be taken for that of an array of which the disk was a member.
        for mark in marks.into_iter().filter(|mark| mark.start().get() >= WIPED.get()) {
            if let Some(span) = sectors(mark, disk.len()) {
                write(disk, span.start(), &vec![0; span.len().in_memory()])?;
            }
        }
        let total = self.total().get().saturating_mul(2);
        let mut work = Work { source, disk: &mut *disk, unreadable, bad: Vec::new(), done: 0, total, watch };
        let Some(hashes) = work.copy(&self.extents)? else { return Ok(Copied::Stopped) };
        flush(work.disk)?;
        if !work.verify(&self.extents, &hashes)? {
            return Ok(Copied::Stopped);
        }
        let bad = std::mem::take(&mut work.bad);
        if let Some(path) = source.written() {
            return Err(CopyError::SourceWritten(path));
        }
        lead.core().try_for_each(|(at, core)| write(disk, at, core))?;
        flush(disk)?;
        lead.core().try_for_each(|(at, core)| read_back(disk, at, core))?;
        record(disk, &self.plan, &self.references, Which::New)?;
        list(&bad).map_err(CopyError::List)?;
        self.table(disk, &lead)?;
        Ok(Copied::Complete(bad))
    }

    fn check_source(&self, source: &Source<'_>) -> Result<Lead, CopyError> {
        let refuse = |why: &str| Err(CopyError::OtherSource(format!("the source {why}; plan again")));
        if source.medium().len() != self.source.size {
            return refuse("does not have the size that the plan records");
        }
        let block = self.source.sector;
        let stack = read_stack(source.medium(), Some(block), None)?;
        let found = Fingerprint::of(source.medium(), &stack, block, source.serial().map(str::to_owned))?;
        if found != self.source {
            return refuse("is not the disk of the plan, or its table has changed");
        }
        self.check_contents(source)?;
        Ok(Lead::read(self, source)?)
    }

    /// Checks that the contents fit in what is copied of their partitions, and references against the plan.
    fn check_contents(&self, source: &Source<'_>) -> Result<(), CopyError> {
        let refuse = |why: String| Err(CopyError::OtherSource(format!("{why}; plan again")));
        let medium = source.medium();
        let stack = read_all(medium, Some(self.source.sector), None)?;
        if let Some(number) = hibernated(&stack) {
            return refuse(format!("partition {number} of the source now holds a hibernated system"));
        }
        let mut topology = Topology::unknown();
        topology.logical = Figure::new(self.source.sector, topology.logical.source().clone());
        let situation = Situation { medium, topology: &topology, stack: &stack, serial: source.serial() };
        let (block, format) = (self.plan.block(), self.plan.table.format);
        let (items, _) = items(&situation)?;
        for one in &self.extents {
            let Some(item) = items.iter().find(|item| item.at.start() == one.from.start()) else {
                return refuse("the partitions of the source have changed".to_owned());
            };
            let number = item.partition.number;
            if one.from.len() < item.used.min(item.at.len()) {
                return refuse(format!("partition {number} of the source has grown"));
            }
            let is_there = |entry: &&Entry| self.plan.span(entry).map(Span::start) == Some(one.to);
            let entry = self.plan.table.partitions.iter().find(is_there);
            if entry.is_none_or(|entry| !is_entry_of(entry, item)) {
                return refuse(format!(
                    "partition {number} of the source would not keep its number, type, name or identity"
                ));
            }
            let Some(entry) = entry.filter(|_| item.at.start() != one.to) else { continue };
            let found = references_of(medium, item, entry, (format, block));
            let known = self.references.iter().filter(|(of, _)| *of == entry.number).map(|(_, what)| what);
            if !found.iter().eq(known) {
                return refuse(format!("the contents of partition {number} of the source have changed"));
            }
        }
        Ok(())
    }

    /// Whether the new disk has the marker of an incomplete run; else it must be as in the plan.
    fn has_begun(&self, disk: &dyn Disk) -> Result<bool, CopyError> {
        let marker = self.marker()?;
        let is_marked = holds(disk, ByteOffset::ZERO, &marker)?;
        recognise_disk(disk, &self.plan)?;
        if is_marked {
            return Ok(true);
        }
        let stack = read_stack(disk, Some(self.plan.block()), None)?;
        let planned = &self.plan.disk;
        let found = Fingerprint::of(disk, &stack, self.plan.block(), planned.serial.clone())?;
        if found == *planned && occupants(disk, &stack)? == self.over {
            return Ok(false);
        }
        let is_finished = difference(&stack, &self.plan.table).is_none();
        Err(if is_finished { CopyError::Finished } else { CopyError::Changed })
    }

    /// The sector that marks the new disk as unfinished, the same in every run of this plan: an MBR with an
    /// entry at the place of the first partition.
    fn marker(&self) -> Result<[u8; mbr::SECTOR_BYTES], CopyError> {
        let block = self.plan.block();
        // No file system begins a sector after the start of one.
        let place = self
            .plan
            .table
            .spans(block)
            .next()
            .and_then(|place| Span::between(place.start().checked_add(block.bytes())?, place.end()));
        let place = place.ok_or(CopyError::TooLarge)?;
        let start = Lba::from_bytes_exact(place.start(), block);
        let start = start.and_then(|start| u32::try_from(start.get()).ok()).ok_or(CopyError::TooLarge)?;
        let sectors = u32::try_from(block.blocks_floor(place.len()).get()).unwrap_or(u32::MAX);
        let json = serde_json::to_vec(self).map_err(|error| CopyError::Invalid(error.to_string()))?;
        let mut sector = [0; mbr::SECTOR_BYTES];
        sector[TEXT.0..TEXT.0 + TEXT.1.len()].copy_from_slice(TEXT.1);
        sector[mbr::DISK_ID_AT..mbr::DISK_ID_AT + 4].copy_from_slice(&Sha256::digest(json)[..4]);
        let entry = &mut sector[mbr::ENTRIES_AT..mbr::ENTRIES_AT + mbr::ENTRY_BYTES];
        entry[..8].copy_from_slice(&[0, 0xFE, 0xFF, 0xFF, straddle_layout::MARKER_TYPE, 0xFE, 0xFF, 0xFF]);
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
        sector[mbr::SIGNATURE_AT..].copy_from_slice(mbr::SIGNATURE);
        Ok(sector)
    }

    pub(super) fn steps(&self, disk: &dyn Medium, lead: &Lead) -> Result<Vec<Step>, CopyError> {
        let mut first = bytes_at(disk, ByteOffset::ZERO, self.plan.block().bytes().in_memory())?;
        first[..mbr::SECTOR_BYTES].fill(0);
        let code = lead.code();
        first[..code.len()].copy_from_slice(code);
        let steps = [Step::Write { at: 0, old: Vec::new(), new: first, what: String::new() }];
        let after = After { medium: disk, steps: &steps };
        let mut stack = read_stack(&after, Some(self.plan.block()), None)?;
        // What is recognised without the first sector is what the new table replaces.
        stack.kind = TableKind::None;
        stack.partitions.clear();
        Ok(encode_over_all(&self.plan, &after, &stack)?)
    }

    fn table(&self, disk: &mut dyn Disk, lead: &Lead) -> Result<(), CopyError> {
        let steps = self.steps(disk, lead)?;
        for step in &steps {
            match step {
                Step::Write { at, new, .. } => write(disk, ByteOffset::new(*at), new)?,
                Step::Flush => flush(disk)?,
            }
        }
        flush(disk)?;
        read_back(disk, ByteOffset::ZERO, lead.code())?;
        if let Some((_, at, len)) = differing(disk, &steps)? {
            return Err(CopyError::Differs { at: ByteOffset::new(at), len });
        }
        let stack = read_stack(disk, Some(self.plan.block()), None)?;
        match difference(&stack, &self.plan.table) {
            None => Ok(tell_kernel(disk, Some(Expected::of(&self.plan)))?),
            Some(why) => Err(CopyError::OtherTable(why)),
        }
    }
}

fn is_entry_of(entry: &Entry, item: &Item) -> bool {
    let old = crate::plan::kept(&item.partition);
    let has_identity = old.uuid.is_none() || old.uuid == entry.uuid;
    (entry.number, &entry.kind) == (old.number, &old.kind)
        && has_identity
        && (&entry.name, entry.attributes, entry.bootable) == (&old.name, old.attributes, old.bootable)
}

fn read_back(disk: &dyn Disk, at: ByteOffset, bytes: &[u8]) -> Result<(), CopyError> {
    disk.drop_cache(Span::of_buffer(at, bytes).ok_or(CopyError::TooLarge)?);
    if holds(disk, at, bytes)? { Ok(()) } else { Err(CopyError::Differs { at, len: bytes.len() as u64 }) }
}

pub(super) fn write(disk: &mut dyn Disk, at: ByteOffset, bytes: &[u8]) -> Result<(), CopyError> {
    disk.write_at(at, bytes).map_err(|source| CopyError::Write { at, source })
}

pub(super) fn sectors(mark: Span, len: ByteCount) -> Option<Span> {
    let sector = mbr::SECTOR_BYTES as u64;
    let start = mark.start().get() / sector * sector;
    let end = mark.end().get().div_ceil(sector).saturating_mul(sector).min(len.get());
    Span::new(ByteOffset::new(start), ByteCount::new(end.saturating_sub(start)))
}

fn flush(disk: &mut dyn Disk) -> Result<(), CopyError> {
    disk.flush().map_err(|source| CopyError::Flush { source })
}

pub(super) const WINDOW: ByteCount = ByteCount::new(4 * MIB);
const HOLE: usize = 4096;

/// What a sector of the source that cannot be read does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// It stops the copy.
    #[default]
    Stops,
    /// A filler takes its place, and it is listed.
    IsListed,
}

struct Work<'w, 'd> {
    source: &'w Source<'w>,
    disk: &'d mut dyn Disk,
    unreadable: Unreadable,
    bad: Vec<Bad>,
    done: u64,
    total: u64,
    watch: CopyWatch<'w>,
}

fn windows(extent: Move) -> impl Iterator<Item = (Span, ByteOffset)> {
    extent.from.pieces(WINDOW).filter_map(move |part| {
        let offset = part.start().checked_since(extent.from.start())?;
        Some((part, extent.to.checked_add(offset)?))
    })
}

impl Work<'_, '_> {
    fn copy(&mut self, extents: &[Move]) -> Result<Option<Vec<[u8; 32]>>, CopyError> {
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

    /// False if it was stopped.
    fn verify(&mut self, extents: &[Move], hashes: &[[u8; 32]]) -> Result<bool, CopyError> {
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

    /// True if it is to be stopped.
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
            Ok(()) => return Ok(()),
            Err(source) if self.unreadable == Unreadable::Stops => {
                return Err(CopyError::Unreadable { at: from.start(), source });
            }
            Err(_) => {}
        }
        let bad = read_rest(&mut Disks::one(&mut Reading(self.source.medium())), from, buffer);
        let to = Span::new(to, from.len()).ok_or(CopyError::TooLarge)?;
        for bad in listed(&bad, from, to) {
            match self.bad.last_mut().and_then(|last| Some((last.joined(bad)?, last))) {
                Some((both, last)) => *last = both,
                None => self.bad.push(bad),
            }
        }
        Ok(())
    }

    /// In a file zeros become holes.
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
