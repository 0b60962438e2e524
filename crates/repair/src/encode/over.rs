//! What a table may be written over.
//!
//! Invariants: a table is written only over sectors that are erased (zeros or ones), hold a structure of a partition
//! table, or are listed as lost in the plan. That is checked where a plan is made and again before anything is
//! written, when data have moved away.

use straddle_device::fields::{array, has, le32, le64};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::gpt::{self, entry, header};
use straddle_layout::format::mbr;
use straddle_layout::view::View;
use straddle_layout::{Stack, gpt_copy, is_erased, read_layers};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, Span};

use super::mbr::slot;
use super::{Step, Steps, writes};
use crate::error::PlanError;
use crate::fingerprint::{Structure, bytes_of, gpt_array, gpt_header, structures};
use crate::lost::Lost;
use crate::plan::{Change, Entry, Plan};

const SECTOR: usize = mbr::SECTOR_BYTES;
/// Larger entries are a multiple of this.
const ENTRY: usize = gpt::ENTRY_BYTES as usize;
/// The attribute bits of an entry that are reserved and zero (UEFI specification, table 5-8).
const RESERVED: u64 = 0x0000_FFFF_FFFF_FFF8;
/// No disk has more sectors.
const MOST_SECTORS: u64 = 1 << 48;

pub(super) fn check(
    plan: &Plan,
    medium: &dyn Medium,
    stack: &Stack,
    steps: &[Step],
) -> Result<(), PlanError> {
    if let Some((lost, at)) = overwritten(plan, medium, stack, steps)?.first() {
        let number = lost.partition.unwrap_or_default();
        return Err(PlanError::OverPartition { number, content: lost.what(), at: *at });
    }
    let Some(first) = unaccounted(plan, medium, stack, steps)?.first().copied() else { return Ok(()) };
    let at = first.start();
    if plan.converts.is_some() {
        let why = format!("the converted table would overwrite other data at byte {at}");
        return Err(PlanError::CannotConvert(why));
    }
    if plan.table.partitions.iter().any(Entry::is_moved) {
        let why = format!(
            "the table would overwrite other data at byte {at}, perhaps a boot loader; to allow this, use \
             'straddle plan --repair --wipe'"
        );
        return Err(PlanError::Unchangeable(why));
    }
    Err(PlanError::Occupied { at })
}

/// Dropped partitions over whose contents `steps` would write, unless the plan lists them as overwritten.
///
/// Every byte up to the end of recognised contents counts, zeros too; else what is not erased.
fn overwritten<'a>(
    plan: &'a Plan,
    medium: &dyn Medium,
    stack: &Stack,
    steps: &[Step],
) -> Result<Vec<(&'a Lost, ByteOffset)>, ReadError> {
    let mut found = Vec::new();
    let is_kept = |lost: &&Lost| plan.fresh && lost.partition.is_some() && !lost.is_overwritten;
    for lost in plan.lost.iter().filter(is_kept) {
        let mut written = changed(steps).filter(|(span, ..)| span.overlaps(lost.at)).peekable();
        if written.peek().is_none() {
            continue;
        }
        let layer = read_layers(&View::of_drive(medium), lost.at, Some(stack.block));
        let used = layer.map(|layer| layer.used(lost.at.len()).unwrap_or(lost.at.len()));
        let end = used.and_then(|used| lost.at.start().checked_add(used)).unwrap_or(lost.at.start());
        let debris = [BlockSize::B512, BlockSize::B4096].map(|block| {
            let last = block.blocks_floor(medium.len()).last_lba()?.to_bytes(block)?;
            gpt_copy(medium, last)
        });
        let is_debris = |span: Span| debris.iter().flatten().flatten().any(|one| one.contains(span));
        let is_data = |(span, old, _): &(Span, &[u8], &[u8])| {
            span.start() < end || !(is_erased(old) || is_debris(*span))
        };
        found.extend(written.find(is_data).map(|(span, ..)| (lost, span.start().max(lost.at.start()))));
    }
    Ok(found)
}

fn changed(steps: &[Step]) -> impl Iterator<Item = (Span, &[u8], &[u8])> {
    writes(steps).flat_map(|(at, old, new, _)| {
        let sectors = (at..).step_by(SECTOR).zip(old.chunks(SECTOR).zip(new.chunks(SECTOR)));
        sectors
            .filter(|(at, (old, new))| *at != 0 && old != new)
            .filter_map(|(at, (old, new))| Some((Span::of_buffer(ByteOffset::new(at), old)?, old, new)))
    })
}

fn unaccounted(
    plan: &Plan,
    medium: &dyn Medium,
    stack: &Stack,
    steps: &[Step],
) -> Result<Vec<Span>, ReadError> {
    let is_structure = |at: Span, old: &[u8], new: &[u8]| {
        is_erased(old) || is_header(at.start().get(), old, new) || is_record(old) || are_entries(old, new)
    };
    let mut odd: Vec<Span> = changed(steps)
        .filter(|(span, old, new)| !is_structure(*span, old, new))
        .map(|(span, ..)| span)
        .collect();
    if !odd.is_empty() {
        let known = known(plan, medium, stack)?;
        odd.retain(|span| !known.iter().any(|one| one.contains(*span)));
    }
    Ok(Span::union(odd))
}

fn known(plan: &Plan, medium: &dyn Medium, stack: &Stack) -> Result<Vec<Span>, ReadError> {
    let mut known: Vec<Span> = plan.lost.iter().map(|lost| lost.at).collect();
    known.extend(plan.table.partitions.iter().filter_map(|entry| match entry.change {
        Change::Moved { from, sectors } => Span::of_blocks(from, sectors, plan.block()),
        _ => None,
    }));
    if plan.moves_logical() {
        // They are written only where the moves may write.
        known.extend(plan.record_sectors());
    }
    let found = structures(medium, stack, plan.block())?;
    let records = found.into_iter().filter(|(structure, _)| *structure == Structure::ExtendedBootRecord);
    known.extend(records.map(|(_, span)| span));
    let mut blocks = vec![BlockSize::B512, BlockSize::B4096, plan.block(), stack.block];
    blocks.sort_unstable();
    blocks.dedup();
    for block in blocks {
        let last = block.blocks_floor(medium.len()).last_lba().unwrap_or_default();
        let mut headers = vec![Lba::new(1), last];
        let primary = gpt_header(medium, block, Lba::new(1));
        headers.extend(primary.map(|header| Lba::new(le64(&header, header::ALTERNATE_LBA))));
        known.extend(headers.into_iter().filter_map(|lba| whole_array(medium, block, lba)));
    }
    Ok(known)
}

/// A header of any table; or a damaged one that is rewritten there, or whose size and place are right.
fn is_header(at: u64, old: &[u8], new: &[u8]) -> bool {
    let is_signed = |bytes| has(bytes, 0, gpt::SIGNATURE);
    let guid = |bytes| array::<16>(bytes, header::DISK_GUID);
    let blocks = [BlockSize::B512, BlockSize::B4096].map(BlockSize::get);
    let is_at = |block: u64| le64(old, header::MY_LBA).checked_mul(block) == Some(at);
    let is_placed = le32(old, header::HEADER_SIZE) == gpt::HEADER_BYTES && blocks.into_iter().any(is_at);
    is_signed(old) || is_placed || (is_signed(new) && guid(old) == guid(new))
}

/// An extended boot record, of which only the first two entries are used.
fn is_record(old: &[u8]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    is_zero(&old[..mbr::ENTRIES_AT]) && is_zero(&old[slot(2).start..mbr::SIGNATURE_AT])
}

fn are_entries(old: &[u8], new: &[u8]) -> bool {
    old.chunks(ENTRY).zip(new.chunks(ENTRY)).all(|(old, new)| {
        let fields = [0..entry::GUID, entry::GUID..entry::START, entry::START..entry::ATTRIBUTES];
        let same =
            fields.into_iter().filter(|field| old.get(field.clone()) == new.get(field.clone())).count();
        let bits: u32 = old.iter().zip(new).map(|(old, new)| (old ^ new).count_ones()).sum();
        let is_damaged = (same >= 2 && !is_erased(new)) || bits <= 1;
        let is_empty = is_erased(old) || old.iter().map(|byte| byte.count_ones()).sum::<u32>() <= 1;
        is_damaged || is_empty || is_entry(old)
    })
}

/// Can be an entry of any disk. A zero type is a deleted one. One field may be damaged, not the place.
fn is_entry(bytes: &[u8]) -> bool {
    let (start, last) = (le64(bytes, entry::START), le64(bytes, entry::LAST));
    let is_placed = start >= 1 && start <= last && last < MOST_SECTORS;
    let units = bytes[entry::NAME].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let is_named = char::decode_utf16(units).all(|unit| unit.is_ok());
    let is_identified = bytes[entry::GUID..entry::START].iter().any(|byte| *byte != 0);
    let is_usual = le64(bytes, entry::ATTRIBUTES) & RESERVED == 0;
    is_placed && [is_named, is_identified, is_usual].into_iter().filter(|holds| *holds).count() >= 2
}

fn whole_array(medium: &dyn Medium, block: BlockSize, lba: Lba) -> Option<Span> {
    let header = gpt_header(medium, block, lba)?;
    let array = gpt_array(&header, block)?;
    let is_whole = crc32fast::hash(&bytes_of(medium, array).ok()?) == le32(&header, header::ENTRIES_CRC);
    let len = array.len().get().next_multiple_of(SECTOR as u64);
    Span::new(array.start(), ByteCount::new(len)).filter(|_| is_whole)
}

impl Plan {
    /// What its table would overwrite although no table accounts for it, and the partitions whose contents it
    /// would overwrite; nothing if the table cannot be written.
    pub(crate) fn writes_over(
        &self,
        medium: &dyn Medium,
        stack: &Stack,
    ) -> Result<(Vec<Span>, Vec<Option<u32>>), PlanError> {
        let Ok(Steps { steps, .. }) = Steps::of_table(self, medium, stack) else {
            return Ok(Default::default());
        };
        let partitions =
            overwritten(self, medium, stack, &steps)?.iter().map(|(lost, _)| lost.partition).collect();
        Ok((unaccounted(self, medium, stack, &steps)?, partitions))
    }
}
