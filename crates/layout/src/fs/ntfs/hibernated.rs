//! Whether Windows is hibernated with the volume in memory: `hiberfil.sys` in the root directory, as
//! `ntfs_volume_check_hiberfile` of libntfs-3g/volume.c sees it.
//!
//! Where the file cannot be read, Windows counts as hibernated. An unreadable directory lists nothing.

use straddle_device::fields::{byte, le16, le32, le64};

use super::table::{Attribute, FileTable, attribute, restored};
use crate::model::view::View;

const ROOT: u64 = 5;
/// The name of a directory's index, in UTF-16.
const INDEX: &[u8] = b"$\0I\x003\x000\0";
const NAME: &[u8] = b"HIBERFIL.SYS";
/// Overwritten when Windows has resumed.
const MARKS: [&[u8]; 2] = [b"hibr", b"HIBR"];
/// A shorter file means that a Windows elsewhere has the volume in memory (`NTFS_HIBERFILE_HEADER_SIZE`).
const HEADER: u64 = 4096;
/// Blocks of the index; a path through it has no more than a few.
const MOST_NODES: usize = 32;
const BLOCKS: std::ops::RangeInclusive<u64> = 512..=64 * 1024;

/// The root of an index: `index_block_size`, and the header of its entries.
mod root {
    pub(super) const BLOCK: usize = 8;
    pub(super) const HEADER: usize = 0x10;
}

mod block {
    pub(super) const MAGIC: &[u8] = b"INDX";
    pub(super) const HEADER: usize = 0x18;
    /// Counts blocks that are smaller than a cluster.
    pub(super) const SMALL: u64 = 512;
}

/// The header of entries (`struct INDEX_HDR`): where they begin and end, from the header on.
mod entries {
    pub(super) const AT: usize = 0;
    pub(super) const END: usize = 4;
}

/// An entry of a directory's index (`struct NTFS_DE`): first the reference to the file's record, last, in 64 bits,
/// the number of the block below.
mod entry {
    pub(super) const LEN: usize = 8;
    pub(super) const FLAGS: usize = 0x0C;
    pub(super) const HAS_BELOW: u16 = 1;
    pub(super) const IS_LAST: u16 = 2;
    pub(super) const MIN_LEN: usize = 0x10;
    pub(super) const NAME_LEN: usize = 0x50;
    pub(super) const NAME_AT: usize = 0x52;
    /// The lower 48 bits of the reference are the record's number.
    pub(super) const RECORD: u64 = 0xFFFF_FFFF_FFFF;
}

pub(super) fn is_hibernated(view: &View<'_>, boot: &[u8]) -> bool {
    let Some(mut table) = FileTable::open(view, boot) else { return false };
    let files = table.follow().and_then(|()| find(&mut table)).unwrap_or_default();
    files.into_iter().any(|file| is_resumed_from(&mut table, file).unwrap_or(true))
}

/// True also if another Windows has the volume in memory; `None` if unreadable.
fn is_resumed_from(table: &mut FileTable<'_, '_>, file: u64) -> Option<bool> {
    let first = table.first_part(file, (attribute::DATA, &[]))?;
    let first = Attribute(&first);
    if let Some(data) = first.resident() {
        let is_short = u64::try_from(data.len()).is_ok_and(|len| len < HEADER);
        return Some(is_short || MARKS.iter().any(|mark| data.starts_with(mark)));
    }
    let (size, valid) = first.sizes()?;
    if size < HEADER {
        return Some(true);
    }
    if first.is_encoded() {
        return None;
    }
    let mark = MARKS[0].len();
    if u64::try_from(mark).is_ok_and(|mark| valid < mark) {
        return Some(false);
    }
    let start = table.mapped(&first.runs(), 0, mark)?;
    Some(MARKS.contains(&start.as_slice()))
}

/// Several files may differ only in case.
fn find(table: &mut FileTable<'_, '_>) -> Option<Vec<u64>> {
    let roots = table.parts(ROOT, (attribute::INDEX_ROOT, INDEX))?;
    let root = roots.iter().find_map(|bytes| Attribute(bytes).resident())?;
    let mut found = Vec::new();
    let mut below = look(root.get(root::HEADER..)?, &mut found);
    let size = u64::from(le32(root, root::BLOCK));
    if below.is_empty() || !BLOCKS.contains(&size) || !size.is_power_of_two() {
        return Some(found);
    }
    let unit = if table.cluster <= size { table.cluster } else { block::SMALL };
    let parts = table.parts(ROOT, (attribute::INDEX_BLOCKS, INDEX)).unwrap_or_default();
    let runs: Vec<_> = parts.iter().flat_map(|bytes| Attribute(bytes).runs()).collect();
    for _ in 0..MOST_NODES {
        let Some(number) = below.pop() else { break };
        let node = number
            .checked_mul(unit)
            .and_then(|at| restored(table.mapped(&runs, at, usize::try_from(size).ok()?)?, block::MAGIC));
        if let Some(entries) = node.as_deref().and_then(|node| node.get(block::HEADER..)) {
            below.extend(look(entries, &mut found));
        }
    }
    Some(found)
}

fn look(node: &[u8], found: &mut Vec<u64>) -> Vec<u64> {
    let mut below = Vec::new();
    let bound = |at| usize::try_from(le32(node, at)).unwrap_or(usize::MAX);
    let end = bound(entries::END).min(node.len());
    let mut rest = node.get(bound(entries::AT)..end).unwrap_or_default();
    loop {
        let len = usize::from(le16(rest, entry::LEN));
        let Some((this, after)) = rest.split_at_checked(len).filter(|_| len >= entry::MIN_LEN) else {
            return below;
        };
        let flags = le16(this, entry::FLAGS);
        let order = if flags & entry::IS_LAST == 0 { by_name(this) } else { std::cmp::Ordering::Greater };
        if order.is_ge() && flags & entry::HAS_BELOW != 0 {
            below.extend(len.checked_sub(8).map(|at| le64(this, at)));
        }
        if order.is_eq() {
            found.push(le64(this, 0) & entry::RECORD);
        }
        if order.is_gt() {
            return below;
        }
        rest = after;
    }
}

/// Only letters of ASCII have an upper case in the file's name.
fn by_name(entry: &[u8]) -> std::cmp::Ordering {
    let len = usize::from(byte(entry, entry::NAME_LEN)) * 2;
    let name = entry.get(entry::NAME_AT..).and_then(|rest| rest.get(..len)).unwrap_or_default();
    let units = name.chunks_exact(2).map(|pair| le16(pair, 0));
    let upper = units.map(|unit| u8::try_from(unit).map_or(unit, |one| u16::from(one.to_ascii_uppercase())));
    upper.cmp(NAME.iter().map(|one| u16::from(*one)))
}
