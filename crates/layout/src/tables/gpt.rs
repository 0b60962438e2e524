//! GUID partition tables (UEFI specification, chapter 5): choosing the copy and the block size.
//!
//! A copy is used only if it has passed every check of [`copy`], the primary one before the backup. What is wrong
//! with the other copy is a [`Problem`].

mod copy;

use straddle_device::Medium;
use straddle_device::fields::{array, le64, utf16_le};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::model::stack::{Attributes, Partition, PartitionType, Problem, Structure};
use crate::read::USUAL;
use crate::reader::Reader;
use crate::tables::format::gpt::entry;
use copy::{Broken, GptCopy, Header, RawEntry};

const PRIMARY_LBA: Lba = Lba::new(1);

/// In bytes, before the backup's header, as every tool writes it.
pub(crate) const BACKUP_ARRAY: u64 = 128 * 128;

pub(crate) struct GptTable {
    copy: GptCopy,
    pub(crate) problems: Vec<Problem>,
}

pub(crate) enum Search {
    Table(Box<GptTable>),
    Unusable { block: BlockSize, at: ByteOffset, why: String },
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Primary,
    Both,
}

/// In order of `groups`; of one group the table that fits the medium best.
pub(crate) fn find(reader: &Reader<'_>, groups: &[Vec<BlockSize>], depth: Depth) -> Search {
    let mut unusable = Search::Nothing;
    for group in groups {
        match find_in_group(reader, group, depth) {
            Search::Table(table) => return Search::Table(table),
            found if matches!(unusable, Search::Nothing) => unusable = found,
            _ => {}
        }
    }
    unusable
}

/// First for a good primary copy in each block size, then for a good backup.
fn find_in_group(reader: &Reader<'_>, group: &[BlockSize], depth: Depth) -> Search {
    let (mut primaries, mut broken) = (Vec::new(), Vec::new());
    for block in group.iter().copied() {
        match GptCopy::read(reader, block, PRIMARY_LBA) {
            Ok(copy) => primaries.push(copy),
            Err(primary) => broken.push((block, primary)),
        }
    }
    let fit = |copy: &GptCopy, last: Lba| distance_to_end(reader, copy.header.block, last);
    if let Some(primary) = primaries.into_iter().min_by_key(|copy| fit(copy, copy.header.alternate)) {
        return Search::Table(Box::new(with_primary(reader, primary, depth)));
    }
    if depth == Depth::Primary {
        return Search::Nothing;
    }
    let (mut backups, mut unusable) = (Vec::new(), Search::Nothing);
    for (block, primary) in broken {
        match find_backup(reader, block, &primary) {
            Ok(backup) => backups.push((primary, backup)),
            Err(backup) if !primary.is_announced() && backup.is_of_other_disk => {}
            Err(backup) if primary.is_announced() || backup.is_announced() => {
                let why = format!("primary: {}; backup: {}", primary.flaw, backup.flaw);
                unusable = Search::Unusable { block, at: byte_of(PRIMARY_LBA, block), why };
            }
            Err(_) => {}
        }
    }
    match backups.into_iter().min_by_key(|(_, copy)| fit(copy, copy.header.my_lba)) {
        Some((primary, backup)) => Search::Table(Box::new(with_backup(reader, &primary, backup))),
        None => unusable,
    }
}

/// Left at the end of the medium by another disk; no primary header is on this medium.
pub(crate) fn left_over(reader: &Reader<'_>) -> Option<ByteOffset> {
    USUAL.into_iter().find_map(|block| {
        let last = last_block(reader, block)?;
        let backup = GptCopy::read(reader, block, last).err().filter(|backup| backup.is_of_other_disk)?;
        let is_alone =
            GptCopy::read(reader, block, PRIMARY_LBA).is_err_and(|primary| !primary.is_announced());
        is_alone.then(|| backup.at.checked_back(ByteCount::new(BACKUP_ARRAY)).unwrap_or(ByteOffset::ZERO))
    })
}

/// The copy of a GPT whose header is at byte `at`, if it is whole and in its own place, in sectors of 512 or of 4096
/// bytes: the bytes of its header, and of its entries up to the end of a sector. The disk may have another table now.
pub fn gpt_copy(medium: &dyn Medium, at: ByteOffset) -> Option<[Span; 2]> {
    let reader = Reader::open(medium, BlockSize::B512).ok()?;
    USUAL.into_iter().find_map(|block| {
        let copy = GptCopy::read(&reader, block, Lba::from_bytes_exact(at, block)?).ok()?;
        let array = copy.header.array;
        let sectors = ByteCount::new(array.len().get().next_multiple_of(block.get()));
        Some([Span::new(at, block.bytes())?, Span::new(array.start(), sectors)?])
    })
}

/// Whether a valid GPT header is at byte `at`, its place in sectors of 512 or 4096; its entries may be gone.
pub fn is_gpt_header(medium: &dyn Medium, at: ByteOffset) -> bool {
    let Ok(reader) = Reader::open(medium, BlockSize::B512) else { return false };
    let is_one =
        |block| Lba::from_bytes_exact(at, block).is_some_and(|lba| Header::read(&reader, block, lba).is_ok());
    USUAL.into_iter().any(is_one)
}

pub(crate) fn backup(reader: &Reader<'_>, block: BlockSize) -> Option<(ByteOffset, Vec<Partition>)> {
    let primary = GptCopy::read(reader, block, PRIMARY_LBA).ok()?;
    let copy = GptCopy::read(reader, block, primary.header.alternate).ok()?;
    let table = GptTable { copy, problems: Vec::new() };
    Some((table.header().at, table.partitions().0))
}

/// A stale table's end is elsewhere.
fn distance_to_end(reader: &Reader<'_>, block: BlockSize, last: Lba) -> u128 {
    let end = (u128::from(last.get()) + 1) * u128::from(block.get());
    end.abs_diff(u128::from(reader.len().get()))
}

fn last_block(reader: &Reader<'_>, block: BlockSize) -> Option<Lba> {
    block.blocks_floor(reader.len()).last_lba().filter(|last| *last > PRIMARY_LBA)
}

fn byte_of(lba: Lba, block: BlockSize) -> ByteOffset {
    lba.to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX))
}

/// Where the broken primary header points, otherwise in the last block.
fn find_backup(reader: &Reader<'_>, block: BlockSize, primary: &Broken) -> Result<GptCopy, Broken> {
    let last = last_block(reader, block);
    let said = primary.other.filter(|other| *other > PRIMARY_LBA && Some(*other) < last);
    if let Some(Ok(copy)) = said.map(|lba| GptCopy::read(reader, block, lba)) {
        return Ok(copy);
    }
    GptCopy::read(reader, block, last.unwrap_or(Lba::new(u64::MAX)))
}

fn with_primary(reader: &Reader<'_>, primary: GptCopy, depth: Depth) -> GptTable {
    let header = &primary.header;
    let block = header.block;
    let mut problems = Vec::new();
    let last = last_block(reader, block).unwrap_or(PRIMARY_LBA);
    let thought_last = header.alternate.max(header.last_usable);
    if thought_last > last {
        problems.push(Problem::GptPastEnd { at: byte_of(thought_last, block) });
    }
    if depth == Depth::Both && header.alternate <= last {
        problems.extend(check_backup(reader, header, last));
    }
    GptTable { copy: primary, problems }
}

fn check_backup(reader: &Reader<'_>, primary: &Header, last: Lba) -> Option<Problem> {
    let block = primary.block;
    let at = byte_of(primary.alternate, block);
    if primary.alternate <= PRIMARY_LBA {
        let why = format!("the primary header says that the backup is at LBA {}", primary.alternate);
        return Some(Problem::GptBackupDamaged { at: byte_of(last, block), why });
    }
    match GptCopy::read(reader, block, primary.alternate) {
        Err(Broken { at, flaw, .. }) => {
            let elsewhere = primary.alternate != last && GptCopy::read(reader, block, last).is_ok();
            let note = if elsewhere { ", although an intact backup is in the last block" } else { "" };
            Some(Problem::GptBackupDamaged { at, why: format!("{flaw}{note}") })
        }
        Ok(backup) if !primary.agrees_with(&backup.header) => {
            let at = copy::first_difference(reader, primary, &backup.header);
            Some(Problem::GptCopiesDiffer { at: at.unwrap_or(backup.header.at) })
        }
        Ok(_) if primary.alternate < last => {
            Some(Problem::GptBackupMisplaced { at, expected: byte_of(last, block) })
        }
        Ok(_) => None,
    }
}

fn with_backup(reader: &Reader<'_>, primary: &Broken, backup: GptCopy) -> GptTable {
    let (block, at, lba) = (backup.header.block, backup.header.at, backup.header.my_lba);
    let mut problems = vec![Problem::GptPrimaryDamaged { at: primary.at, why: primary.flaw.clone() }];
    if let Some(last) = last_block(reader, block).filter(|last| lba < *last) {
        problems.push(Problem::GptBackupMisplaced { at, expected: byte_of(last, block) });
    }
    GptTable { copy: backup, problems }
}

impl GptTable {
    pub(crate) const fn header(&self) -> &Header {
        &self.copy.header
    }

    /// The protective MBR, the copy in use, and the place of the other.
    pub(crate) fn structures(&self) -> Vec<(Structure, Span)> {
        let (header, block, one) = (self.header(), self.header().block, LbaCount::new(1));
        let array = LbaCount::new(header.array.len().get().div_ceil(block.get()));
        let is_primary = header.my_lba == PRIMARY_LBA;
        let (own, other) = match is_primary {
            true => (Structure::Gpt, Structure::BackupGpt),
            false => (Structure::BackupGpt, Structure::Gpt),
        };
        let of_other = || {
            let (first, end) = if is_primary {
                let behind_usable = header.last_usable.checked_add(one)?;
                let before = header.alternate.get().checked_sub(array.get())?;
                (behind_usable.max(Lba::new(before)), header.alternate.checked_add(one)?)
            } else {
                let behind = PRIMARY_LBA.checked_add(one)?.checked_add(array)?;
                (PRIMARY_LBA, behind.min(header.first_usable))
            };
            Some((other, Span::of_blocks(first, end.checked_since(first)?, block)?))
        };
        let own_header = Span::of_blocks(header.my_lba, one, block).map(|span| (own, span));
        let mbr = (Structure::Mbr, Span::first(block.bytes()));
        [Some(mbr), own_header, Some((own, header.array)), of_other()].into_iter().flatten().collect()
    }

    pub(crate) fn partitions(&self) -> (Vec<Partition>, Vec<Problem>) {
        let mut partitions = Vec::with_capacity(self.copy.listing.used.len());
        let mut problems = Vec::new();
        for entry in &self.copy.listing.used {
            match partition(entry, self.header().block) {
                Ok(partition) => partitions.push(partition),
                Err(why) => problems.push(Problem::BadEntry { number: entry.number, at: entry.at, why }),
            }
        }
        problems.extend(self.copy.listing.cut_at.map(|at| Problem::TooManyPartitions { at }));
        (partitions, problems)
    }
}

fn partition(entry: &RawEntry, block: BlockSize) -> Result<Partition, String> {
    let bytes = &entry.bytes;
    let (start, last) = (Lba::new(le64(bytes, entry::START)), Lba::new(le64(bytes, entry::LAST)));
    let more = last
        .checked_since(start)
        .ok_or_else(|| format!("the partition ends (LBA {last}) before it starts (LBA {start})"))?;
    let counted = more.get().checked_add(1).map(LbaCount::new);
    let partition = counted
        .and_then(|count| Partition::at(entry.number, start, count, block))
        .ok_or_else(|| format!("the end of the partition (LBA {last}) is beyond byte 2^64"))?;
    Ok(Partition {
        kind: PartitionType::Guid(array(bytes, 0)),
        attributes: Attributes {
            gpt: le64(bytes, entry::ATTRIBUTES),
            guid: Some(array(bytes, entry::GUID)),
            name: utf16_le(&bytes[entry::NAME]),
            bootable: false,
        },
        ..partition
    })
}
