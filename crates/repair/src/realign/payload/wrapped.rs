//! The start of a disk whose file system gets a partition around it.
//!
//! The law of this module: sector 0 alone decides. It gets the marker before anything else changes, and loses
//! it when nothing else has to change. So the disk is at every moment the old one, or marked, or the new one.

use straddle_device::Medium;
use straddle_layout::Stack;
use straddle_layout::format::mbr;
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, Span};

use super::super::guard::Guard;
use super::super::{guard, heads, sample};
use super::{Payload, Place, marker_in};
use crate::encode::{Step, encode};
use crate::foresee::lay_over;
use crate::plan::{Format, WIPED, former};
use crate::realign::{Journal, MoveError, Realign, RealignError};

/// The length of the start of the disk that moves with the table, not with the data.
pub(in crate::realign) const HEAD: ByteCount = WIPED;

/// The bytes of its start by which an old file system is known: superblocks are in them as a rule.
const OLD_HEAD: usize = 4096;

impl Payload {
    /// Prepares the start of the disk, with the old contents that the partition is to begin with.
    pub(super) fn wrapped(
        realign: &Realign,
        disk: &dyn Medium,
        stack: &Stack,
        id: [u8; 16],
    ) -> Result<Self, MoveError> {
        let plan = &realign.plan;
        let len = usize::try_from(HEAD.get()).unwrap_or(usize::MAX);
        let mut old = vec![0; len];
        disk.read_at(ByteOffset::ZERO, &mut old)?;
        let mut new = old.clone();
        let mut places = Vec::new();
        for step in encode(plan, disk, stack)? {
            let Step::Write { at, old, new: bytes, .. } = step else { continue };
            if at < HEAD.get() {
                lay_over(&mut new, 0, &bytes, at);
            } else if plan.table().format == Format::Gpt {
                // The backup counts for nothing while sector 0 announces no GPT. What an MBR leaves behind
                // itself, such as an old backup, is overwritten by data or counts for nothing.
                places.push(Place { at, marked: old.clone(), old, new: bytes, flush: false });
            }
        }
        let mut marked = vec![0; len];
        marked[..mbr::SECTOR_BYTES].copy_from_slice(&marker(realign, id)?);
        places.last_mut().into_iter().for_each(|place: &mut Place| place.flush = true);
        let sector = mbr::SECTOR_BYTES;
        let part = |bytes: &[u8], is_first: bool| {
            if is_first { bytes[..sector].to_vec() } else { bytes[sector..].to_vec() }
        };
        for (at, is_first) in [(mbr::SECTOR_BYTES as u64, false), (0, true)] {
            places.push(Place {
                at,
                old: part(&old, is_first),
                marked: part(&marked, is_first),
                new: part(&new, is_first),
                flush: true,
            });
        }
        // Sector 0 decides; a power cut may tear what is beside it in its physical sector.
        let first = Span::first(ByteCount::new(mbr::SECTOR_BYTES as u64));
        let guards = Guard::of_table(disk, realign.blocks, std::iter::once(first));
        Ok(Self {
            realign: realign.clone(),
            places,
            records: Vec::new(),
            guards,
            boot_guards: Guard::of_boot_sectors(disk, realign),
            new_guards: Vec::new(),
            old_guards: Vec::new(),
            rest: Vec::new(),
            spares: Vec::new(),
            samples: sample::take(disk, realign),
            heads: heads::take(disk, realign),
            birth: None,
        })
    }

    /// Whether the disk begins as before the move of what filled it.
    pub(in crate::realign) fn has_old_head(&self, disk: &dyn Medium) -> bool {
        let mut found = [0; OLD_HEAD];
        self.realign.is_wrap()
            && disk.read_at(ByteOffset::ZERO, &mut found).is_ok()
            && self.head().get(..OLD_HEAD) == Some(&found[..])
    }

    /// Whether the first bytes of what filled the disk are neither in their old place nor in their new one.
    pub(in crate::realign) fn is_headless(&self, disk: &dyn Medium) -> bool {
        self.realign.is_wrap() && !self.has_old_head(disk) && !self.has_new_head(disk)
    }

    /// Whether they are in their new place, but for what records that place.
    fn has_new_head(&self, disk: &dyn Medium) -> bool {
        let start = self.realign.moves.first().and_then(|one| one.to.checked_back(HEAD));
        let (head, fields) = (self.head(), guard::fields(&self.realign));
        let mut found = vec![0; head.len()];
        let is_read = start.is_some_and(|start| disk.read_at(start, &mut found).is_ok());
        let mut sectors = (0..)
            .step_by(mbr::SECTOR_BYTES)
            .zip(head.chunks(mbr::SECTOR_BYTES).zip(found.chunks(mbr::SECTOR_BYTES)));
        is_read
            && sectors.all(|(at, (old, new))| {
                old == new || sample::hash(old, at, &fields) == sample::hash(new, at, &fields)
            })
    }

    /// The first bytes of the file system, as they were.
    pub(in crate::realign) fn head(&self) -> Vec<u8> {
        let mut head: Vec<&Place> = self.places.iter().filter(|place| place.at < HEAD.get()).collect();
        head.sort_by_key(|place| place.at);
        head.iter().flat_map(|place| place.old.iter().copied()).collect()
    }
}

/// The sector that marks the disk. It is an MBR whatever the new table is, because one sector is written whole
/// or not at all.
fn marker(realign: &Realign, id: [u8; 16]) -> Result<[u8; mbr::SECTOR_BYTES], RealignError> {
    let block = realign.plan.block();
    let place = match realign.journal {
        Journal::Inside(place) => place,
        Journal::Elsewhere { .. } => beside_head(realign)?,
    };
    marker_sector(place, block, [id[0], id[1], id[2], id[3]])
}

/// A place for the marker in the new partition, where no file system begins.
fn beside_head(realign: &Realign) -> Result<Span, RealignError> {
    let entry = realign.plan.table().partitions.first();
    let place = entry.and_then(|entry| former(entry.start, entry.sectors, realign.plan.block()));
    place.and_then(|place| marker_in(place, realign.plan.block(), &[place.start()])).ok_or_else(too_small)
}

fn too_small() -> RealignError {
    RealignError::Invalid("the partition is too small to be marked".to_owned())
}

/// An MBR with an entry that marks `place`, as far as it can say.
pub(crate) fn marker_sector(
    place: Span,
    block: BlockSize,
    id: [u8; 4],
) -> Result<[u8; mbr::SECTOR_BYTES], RealignError> {
    let beyond = || RealignError::Invalid("the marker's place is beyond the reach of an MBR".to_owned());
    let start = Lba::from_bytes_exact(place.start(), block).ok_or_else(beyond)?;
    let start = u32::try_from(start.get()).map_err(|_| beyond())?;
    let sectors = u32::try_from(block.blocks_floor(place.len()).get()).unwrap_or(u32::MAX);
    let mut sector = [0; mbr::SECTOR_BYTES];
    sector[mbr::DISK_ID_AT..mbr::DISK_ID_AT + 4].copy_from_slice(&id);
    let entry = &mut sector[mbr::ENTRIES_AT..mbr::ENTRIES_AT + mbr::ENTRY_BYTES];
    entry[..8].copy_from_slice(&[0, 0xFE, 0xFF, 0xFF, straddle_layout::MARKER_TYPE, 0xFE, 0xFF, 0xFF]);
    entry[8..12].copy_from_slice(&start.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    sector[mbr::SIGNATURE_AT..].copy_from_slice(mbr::SIGNATURE);
    Ok(sector)
}
