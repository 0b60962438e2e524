//! What shares a medium with its partition table: the metadata of an array of which the whole disk is a member, and
//! contents that are older than the table or still in use.
//!
//! A table belongs to the array, or is older, if no partition covers the array's metadata, and also if it reaches
//! past the end of the disk; otherwise it is the disk's. Both are reported, as libblkid would.

use straddle_device::fields::{byte, has, le16, le32};
use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use crate::model::content::Content;
use crate::model::layer::{Facts, Layer};
use crate::model::stack::{Partition, Problem, Role, Stack, TableKind};
use crate::read::{read_in_use, table_in_boot_sector, table_of};
use crate::reader::Reader;
use crate::signature::{self, Mark};

const ISO_SECTOR: u64 = 2048;

/// Something on a medium that its stack does not describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// What it is.
    pub what: Neighbour,
    /// The bytes that show it; for a table, its first sector.
    pub at: Span,
    /// Whether a partition covers those bytes. It is then left over, or part of that partition's content.
    pub is_covered: bool,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// A partition table (blkid's PTTYPE): of the array of which the medium is a member, or an older one.
    Table(&'static str),
    /// Anything else.
    Content(Content),
}

impl Beside {
    /// Its name: blkid's TYPE, or the PTTYPE of a table.
    pub fn name(&self) -> &'static str {
        match self.what {
            Neighbour::Table(name) => name,
            Neighbour::Content(content) => content.name(),
        }
    }

    /// The content, unless it is a partition table.
    pub fn content(&self) -> Option<Content> {
        if let Neighbour::Content(content) = self.what { Some(content) } else { None }
    }

    /// Whether it is a partition table.
    pub fn is_table(&self) -> bool {
        matches!(self.what, Neighbour::Table(_))
    }

    /// Whether it is the file system of an optical medium.
    pub fn is_optical(&self) -> bool {
        self.content().is_some_and(Content::is_optical)
    }
}

/// Returns what is on `medium` that `stack`, which was read from it, does not describe.
pub fn beside(medium: &dyn Medium, stack: &Stack) -> Result<Vec<Beside>, ReadError> {
    let reader = Reader::open(medium, BlockSize::B512)?;
    let own = if let TableKind::Content(content) = stack.kind { Some(content) } else { None };
    let mut found = Vec::new();
    let at = Span::first(stack.block.bytes());
    let table = |name| Beside { what: Neighbour::Table(name), at, is_covered: false };
    if own.is_some_and(Content::is_array_member) {
        return Ok(table_of(&reader, stack.block).map(table).into_iter().collect());
    }
    if own.is_some() {
        let in_boot_sector = table_in_boot_sector(&reader, stack.block).map(|_| "dos");
        let any = || table_of(&reader, stack.block).filter(|name| matches!(*name, "dos" | "gpt"));
        found.extend(in_boot_sector.or_else(any).map(table));
    }
    for mark in signature::everything(&reader).into_iter().filter(|mark| Some(mark.content) != own) {
        let optical = mark.content.is_optical();
        // Content that fills the medium may hold anything that does not occupy a whole medium by design.
        if own.is_some() && !optical && !mark.content.is_array_member() {
            continue;
        }
        let over = stack.partitions.iter().find(|partition| covers(partition, mark.at));
        if !optical && over.is_some_and(|partition| is_of(&reader, partition, mark)) {
            continue;
        }
        let what = Neighbour::Content(mark.content);
        found.push(Beside { what, at: mark.at, is_covered: over.is_some() });
    }
    Ok(found)
}

/// The bytes of the file system of an optical medium and of the boot images in its catalog. Its size counts in
/// 2048-byte sectors, or in the block size it states (ECMA-119, 8.4; El Torito 1.0).
pub fn optical_extent(medium: &dyn Medium) -> Result<Option<Span>, ReadError> {
    Ok(optical_extent_of(&Reader::open(medium, BlockSize::B512)?))
}

pub(crate) fn optical_extent_of(reader: &Reader<'_>) -> Option<Span> {
    let sector = |lba: u64| {
        let at = ByteOffset::new(lba.saturating_mul(ISO_SECTOR));
        reader.read_up_to(at, usize::try_from(ISO_SECTOR).unwrap_or(0), reader.end())
    };
    let volume = sector(16);
    if !has(&volume, 0, b"\x01CD001") {
        return None;
    }
    let block = match le16(&volume, 128) {
        0 => ISO_SECTOR,
        block => u64::from(block),
    };
    let mut end = u64::from(le32(&volume, 80)).saturating_mul(block);
    let boot = sector(17);
    if has(&boot, 0, b"\0CD001\x01EL TORITO SPECIFICATION") {
        for entry in sector(u64::from(le32(&boot, 71))).chunks_exact(32) {
            // Entries marked bootable or not bootable; the others are headers or list nothing.
            if matches!(byte(entry, 0), 0 | 0x88) {
                let at = u64::from(le32(entry, 8)).saturating_mul(ISO_SECTOR);
                end = end.max(at.saturating_add(u64::from(le16(entry, 6)) * 512));
            }
        }
    }
    Some(Span::first(ByteCount::new(end.min(reader.len().get()))))
}

/// Returns the spans of all marks of `medium` as an array member.
pub fn member_marks(medium: &dyn Medium) -> Result<Vec<Span>, ReadError> {
    let reader = Reader::open(medium, BlockSize::B512)?;
    Ok(signature::array_members(&reader).into_iter().map(|mark| mark.at).collect())
}

/// A partition table that is not part of the content for which the whole medium is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalTable {
    /// The table's name: blkid's PTTYPE.
    pub name: &'static str,
    /// Number and content of its first partition with known content, else its first; `None` if not read.
    pub partition: Option<(u32, Option<Content>)>,
}

/// Returns the table on `medium` that contradicts `stack`, which takes the whole medium for a member of an array
/// without data where the table is, or for a file system with the table in its boot sector.
pub fn rival_table(medium: &dyn Medium, stack: &Stack) -> Result<Option<RivalTable>, ReadError> {
    let TableKind::Content(content) = stack.kind else { return Ok(None) };
    let reader = Reader::open(medium, BlockSize::B512)?;
    let (name, table) = if content.is_array_member() {
        // A table in the array's own or unknown space is the array's.
        if !stack.layer.as_ref().is_some_and(leaves_start) {
            return Ok(None);
        }
        let Some(name) = table_of(&reader, stack.block) else { return Ok(None) };
        (name, read_in_use(medium, None, None, false)?)
    } else {
        match table_in_boot_sector(&reader, stack.block) {
            Some(table) => ("dos", table),
            None => return Ok(None),
        }
    };
    // A table of a kind known only by name may list anything.
    let is_read = matches!(table.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr);
    let mut listed = table.partitions.iter().filter(|partition| partition.role != Role::Extended);
    let first = listed.clone().next();
    let partition = listed.find(|partition| partition.content.is_some()).or(first);
    let partition = partition.map(|partition| (partition.number, partition.content));
    Ok((!is_read || partition.is_some()).then_some(RivalTable { name, partition }))
}

/// Content of the medium as a whole, beside a table that does not list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalContent {
    /// The content.
    pub content: Content,
    /// The table's name: blkid's PTTYPE.
    pub table: &'static str,
    /// The number of the table's first partition; `None` for a GPT that cannot be read.
    pub partition: Option<u32>,
    /// Whether content is recognised in one of the table's partitions.
    pub shows_partition: bool,
}

/// Returns the content of the medium as a whole, if no partition with recognised content covers its signature;
/// `found` is what is [`beside`] the table. Images of optical media have both by design and are left out.
pub fn rival_content(stack: &Stack, found: &[Beside]) -> Option<RivalContent> {
    let mut listed = stack.partitions.iter().filter(|partition| partition.role != Role::Extended);
    let table = match stack.kind {
        TableKind::Gpt | TableKind::HybridMbr => "gpt",
        TableKind::Mbr => "dos",
        _ => return None,
    };
    let first = listed.clone().next().map(|partition| partition.number);
    let is_unread = |problem: &Problem| {
        matches!(problem, Problem::GptUnusable { .. } | Problem::ProtectiveWithoutGpt { .. })
    };
    if first.is_none() && !stack.problems.iter().any(is_unread) {
        return None;
    }
    let is_of_known =
        |at: Span| listed.clone().any(|partition| partition.content.is_some() && covers(partition, at));
    let is_whole = |found: &Beside| {
        let content = found.content().filter(|it| !it.is_optical() && !it.is_array_member());
        content.filter(|_| !is_of_known(found.at))
    };
    let content = found.iter().find_map(is_whole)?;
    let shows_partition = listed.any(|partition| partition.content.is_some());
    Some(RivalContent { content, table, partition: first, shows_partition })
}

pub(crate) fn member(reader: &Reader<'_>, stack: &Stack) -> Option<Content> {
    let is_table = matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr);
    let marks = if is_table { signature::array_members(reader) } else { signature::at_end(reader) };
    // The table of a striped array reaches past the end of each member.
    let is_larger = stack.partitions.iter().any(|partition| partition.span.end() > reader.end())
        || stack.problems.iter().any(|problem| matches!(problem, Problem::GptPastEnd { .. }));
    let is_past_table = |mark: &Mark| {
        let is_covered = stack.partitions.iter().any(|partition| covers(partition, mark.at));
        is_larger || !is_covered
    };
    marks.into_iter().find(is_past_table).map(|mark| mark.content)
}

fn covers(partition: &Partition, at: Span) -> bool {
    partition.role != Role::Extended && partition.span.contains(at)
}

/// The first bytes of the disk, where a table is, are outside of the array's data.
fn leaves_start(member: &Layer) -> bool {
    let mut layers = vec![member];
    let mut is_placed = false;
    while let Some(layer) = layers.pop() {
        if let Facts::Md(md) = &layer.facts {
            is_placed = true;
            if md.data_offset == ByteCount::ZERO && layer.drive == Some(ByteOffset::ZERO) {
                return false;
            }
        }
        is_placed |= !layer.space.is_empty();
        if layer.space.iter().any(|piece| piece.drive == ByteOffset::ZERO) {
            return false;
        }
        layers.extend(&layer.children);
    }
    is_placed
}

fn is_of(reader: &Reader<'_>, partition: &Partition, mark: Mark) -> bool {
    partition.content == Some(mark.content)
        || signature::is_marked_at_end(reader, partition.span, mark.content)
}
