//! Encoding GUID partition tables (UEFI specification, chapter 5).
//!
//! Invariants: an existing header or entry is patched, so that bytes beyond the fields of the specification
//! are kept. Of the two copies, the one that does not count is written first. A protective MBR where there
//! was none is written last, because it makes the GPT count.

use straddle_device::Medium;
use straddle_device::fields::{array, has, le32, le64};
use straddle_layout::format::gpt::{ENTRY_BYTES, HEADER_BYTES, SIGNATURE, entry, header, header_crc};
use straddle_layout::format::mbr;
use straddle_layout::types::parse_guid;
use straddle_layout::{Stack, TableKind};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, Span};

use super::{Steps, wipes_boot_code};
use crate::error::PlanError;
use crate::fingerprint::{bytes_of, gpt_array, gpt_header};
use crate::plan::{Change, Entry, Plan, primary_is_damaged};

/// Of the header's specified fields, in bytes.
const HEADER_LENGTH: usize = header::ENTRIES_CRC + 4;
const REVISION: u32 = 0x0001_0000;
const PRIMARY_LBA: u64 = 1;

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[derive(Clone, Debug)]
pub(crate) struct CurrentGpt {
    block: u64,
    header: Vec<u8>,
    array: Vec<u8>,
}

impl CurrentGpt {
    /// The primary copy unless it is damaged, as in the layout crate.
    pub(crate) fn read(medium: &dyn Medium, stack: &Stack) -> Result<Self, PlanError> {
        let block = stack.block;
        let last = block.blocks_floor(medium.len()).get().saturating_sub(1);
        let missing = || PlanError::Unchangeable("neither copy of the GPT can be used".to_owned());
        if !primary_is_damaged(stack) {
            return Self::at(medium, block, PRIMARY_LBA).ok_or_else(missing);
        }
        let recorded = gpt_header(medium, block, Lba::new(PRIMARY_LBA))
            .map(|header| le64(&header, header::ALTERNATE_LBA))
            .filter(|lba| (PRIMARY_LBA + 1..last).contains(lba));
        let mut backups = recorded.into_iter().chain([last]);
        backups.find_map(|lba| Self::at(medium, block, lba)).ok_or_else(missing)
    }

    fn at(medium: &dyn Medium, block: BlockSize, lba: u64) -> Option<Self> {
        let header = gpt_header(medium, block, Lba::new(lba))?;
        let size = usize::try_from(le32(&header, header::HEADER_SIZE)).ok()?;
        let is_sized = (HEADER_LENGTH..=header.len()).contains(&size)
            && le32(&header, header::ENTRY_SIZE) >= ENTRY_BYTES
            && le64(&header, header::MY_LBA) == lba;
        if !is_sized || le32(&header, header::HEADER_CRC) != header_crc(&header[..size]) {
            return None;
        }
        let array = bytes_of(medium, gpt_array(&header, block)?).ok()?;
        let is_whole = crc32fast::hash(&array) == le32(&header, header::ENTRIES_CRC);
        is_whole.then(|| Self { block: block.get(), header, array })
    }

    pub(crate) fn first_usable(&self) -> u64 {
        le64(&self.header, header::FIRST_USABLE)
    }

    pub(crate) fn last_usable(&self) -> u64 {
        le64(&self.header, header::LAST_USABLE)
    }

    pub(crate) fn disk_guid(&self) -> [u8; 16] {
        array(&self.header, header::DISK_GUID)
    }

    pub(crate) fn entries(&self) -> u32 {
        le32(&self.header, header::ENTRY_COUNT)
    }

    pub(crate) fn entry_size(&self) -> u64 {
        u64::from(le32(&self.header, header::ENTRY_SIZE))
    }

    /// The addresses are not converted yet.
    fn in_blocks_of(mut self, block: u64) -> Result<Self, PlanError> {
        let len = ByteCount::new(block).in_memory();
        if usize::try_from(le32(&self.header, header::HEADER_SIZE)).is_ok_and(|size| size > len) {
            return Err(PlanError::CannotConvert(format!(
                "the header of the GPT is larger than {block} bytes"
            )));
        }
        self.header.resize(len, 0);
        self.block = block;
        Ok(self)
    }

    pub(crate) fn array_blocks(&self) -> u64 {
        (self.array.len() as u64).div_ceil(self.block)
    }

    pub(crate) fn primary_array(&self) -> Option<Span> {
        let start = self.primary_array_lba().checked_mul(self.block).map(ByteOffset::new)?;
        let len = self.array_blocks().checked_mul(self.block)?;
        Span::new(start, ByteCount::new(len))
    }

    fn my_lba(&self) -> u64 {
        le64(&self.header, header::MY_LBA)
    }

    fn other_lba(&self) -> u64 {
        le64(&self.header, header::ALTERNATE_LBA)
    }

    fn is_primary(&self) -> bool {
        self.my_lba() == PRIMARY_LBA
    }

    /// As recorded, or the last block if that is impossible.
    fn backup_lba(&self, last: u64) -> u64 {
        let lba = if self.is_primary() { self.other_lba() } else { self.my_lba() };
        if (PRIMARY_LBA + 1..=last).contains(&lba) && lba > self.last_usable() { lba } else { last }
    }

    /// As recorded, or block 2 if the backup was read.
    fn primary_array_lba(&self) -> u64 {
        if self.is_primary() { le64(&self.header, header::ENTRIES_LBA) } else { PRIMARY_LBA + 1 }
    }

    fn new(block: u64, entries: u32) -> Self {
        let mut header = vec![0; ByteCount::new(block).in_memory()];
        header[..8].copy_from_slice(SIGNATURE);
        put32(&mut header, header::REVISION, REVISION);
        put32(&mut header, header::HEADER_SIZE, HEADER_BYTES);
        put64(&mut header, header::MY_LBA, PRIMARY_LBA);
        put64(&mut header, header::ENTRIES_LBA, PRIMARY_LBA + 1);
        put32(&mut header, header::ENTRY_COUNT, entries);
        put32(&mut header, header::ENTRY_SIZE, ENTRY_BYTES);
        let len = ByteCount::new(u64::from(entries) * u64::from(ENTRY_BYTES));
        Self { block, header, array: vec![0; len.in_memory()] }
    }

    fn patch(&mut self, plan: &Plan) -> Result<(), PlanError> {
        let size = usize::try_from(le32(&self.header, header::ENTRY_SIZE)).unwrap_or(entry::NAME.end);
        for (bytes, number) in self.array.chunks_exact_mut(size).zip(1..) {
            match plan.table.entry(number) {
                None if bytes.starts_with(&[0; 16]) => {}
                None => bytes.fill(0),
                Some(planned) => match planned.change {
                    Change::Kept if plan.converts.is_none() => {}
                    Change::Kept | Change::Moved { .. } => {
                        put64(bytes, entry::START, planned.start.get());
                        put64(bytes, entry::LAST, planned.last().get());
                    }
                    Change::Grown { .. } => put64(bytes, entry::LAST, planned.last().get()),
                    Change::New => {
                        bytes.fill(0);
                        fill(bytes, planned)?;
                    }
                },
            }
        }
        Ok(())
    }

    fn header_for(
        &self,
        plan: &Plan,
        my_lba: u64,
        alternate: u64,
        array_lba: u64,
    ) -> Result<Vec<u8>, PlanError> {
        let mut bytes = self.header.clone();
        put64(&mut bytes, header::MY_LBA, my_lba);
        put64(&mut bytes, header::ALTERNATE_LBA, alternate);
        put64(&mut bytes, header::FIRST_USABLE, plan.table.first_usable.get());
        put64(&mut bytes, header::LAST_USABLE, plan.table.last_usable.get());
        let guid = parse_guid(&plan.table.id)
            .ok_or_else(|| PlanError::Invalid("the disk GUID is not valid".to_owned()))?;
        bytes[header::DISK_GUID..header::DISK_GUID + 16].copy_from_slice(&guid);
        put64(&mut bytes, header::ENTRIES_LBA, array_lba);
        put32(&mut bytes, header::ENTRIES_CRC, crc32fast::hash(&self.array));
        let size = usize::try_from(le32(&bytes, header::HEADER_SIZE)).unwrap_or(HEADER_LENGTH);
        let crc = header_crc(&bytes[..size]);
        put32(&mut bytes, header::HEADER_CRC, crc);
        Ok(bytes)
    }
}

fn fill(bytes: &mut [u8], planned: &Entry) -> Result<(), PlanError> {
    let guid = |text: &str| {
        parse_guid(text).ok_or_else(|| {
            PlanError::Invalid(format!("partition {}: '{text}' is not a GUID", planned.number))
        })
    };
    bytes[..16].copy_from_slice(&guid(&planned.kind)?);
    bytes[entry::GUID..entry::START].copy_from_slice(&guid(planned.uuid.as_deref().unwrap_or_default())?);
    put64(bytes, entry::START, planned.start.get());
    put64(bytes, entry::LAST, planned.last().get());
    put64(bytes, entry::ATTRIBUTES, planned.attributes);
    for (place, unit) in bytes[entry::NAME].chunks_exact_mut(2).zip(planned.name.encode_utf16()) {
        place.copy_from_slice(&unit.to_le_bytes());
    }
    Ok(())
}

pub(super) fn encode(plan: &Plan, stack: &Stack, steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let last = plan.block().blocks_floor(plan.disk.size).last_lba().unwrap_or_default().get();
    let old = if plan.fresh { None } else { Some(CurrentGpt::read(steps.medium, stack)?) };
    let mut table = match &old {
        Some(old) if plan.converts.is_some() => old.clone().in_blocks_of(steps.block)?,
        Some(old) => old.clone(),
        None => CurrentGpt::new(steps.block, plan.table.entries),
    };
    // If the table is converted, none of its structures is in its final place yet.
    let placed = old.as_ref().filter(|_| plan.converts.is_none());
    let backup = match placed {
        Some(old) if !plan.relocate_backup => old.backup_lba(last),
        _ => last,
    };
    let backup_array = backup.saturating_sub(table.array_blocks());
    let primary_array = placed.map_or(PRIMARY_LBA + 1, CurrentGpt::primary_array_lba);
    let has_room = primary_array > PRIMARY_LBA
        && primary_array.saturating_add(table.array_blocks()) <= plan.table.first_usable.get()
        && backup_array > plan.table.last_usable.get();
    if !has_room {
        let why = "the entry arrays of the GPT overlap the usable space; to move the backup to the end of \
                   the disk, use --relocate-backup";
        return Err(PlanError::Unchangeable(why.to_owned()));
    }
    table.patch(plan)?;
    let primary = (PRIMARY_LBA, primary_array, "primary");
    let second = (backup, backup_array, "backup");
    // The copy that counts is written last, or not at all if the plan does not use its place.
    let backup_counts = match placed {
        Some(old) => old.my_lba() == backup,
        None => primary_is_damaged(stack),
    };
    let order = if backup_counts { [primary, second] } else { [second, primary] };
    for (index, (lba, array, name)) in order.into_iter().enumerate() {
        let header = table.header_for(plan, lba, order[1 - index].0, array)?;
        steps.write(array.saturating_mul(steps.block), &table.array, &format!("{name} GPT, entries"))?;
        steps.write(lba.saturating_mul(steps.block), &header, &format!("{name} GPT, header"))?;
        steps.flush();
    }
    protect(plan, stack, last, steps)?;
    steps.flush();
    if plan.converts.is_some() {
        forget(old.as_ref(), stack.block.get(), steps)?;
    }
    Ok(())
}

/// Clears the headers of the former table, which counts in sectors of `block`, where the new one writes
/// nothing: other tools would still offer it.
pub(super) fn forget(old: Option<&CurrentGpt>, block: u64, steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let last = (steps.medium.len().get() / block).saturating_sub(1);
    let mut headers = vec![PRIMARY_LBA, last];
    headers.extend(old.into_iter().flat_map(|old| [old.my_lba(), old.other_lba()]));
    headers.sort_unstable();
    headers.dedup();
    for lba in headers.into_iter().filter(|lba| (PRIMARY_LBA..=last).contains(lba)) {
        let at = lba.saturating_mul(block);
        let unit = steps.read(at, steps.unit)?;
        if has(&unit, 0, SIGNATURE) && !steps.writes(at) {
            steps.write(at, &vec![0; unit.len()], "header of the former GPT")?;
        }
    }
    steps.flush();
    Ok(())
}

/// A protective entry without its 32-bit fields: from LBA 1 (cylinder 0, head 0, sector 2) to an end too
/// large for CHS (table 5-4).
const PROTECTIVE: [u8; 8] = [0x00, 0x00, 0x02, 0x00, 0xEE, 0xFF, 0xFF, 0xFF];

fn protect(plan: &Plan, stack: &Stack, last: u64, steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let mut sector = steps.sector(Lba::new(0))?;
    let covered = u32::try_from(last).unwrap_or(u32::MAX);
    let is_signed = has(&sector, mbr::SIGNATURE_AT, mbr::SIGNATURE);
    let slots = || (0..4).map(|slot| mbr::ENTRIES_AT + slot * mbr::ENTRY_BYTES);
    let protective = slots().find(|at| is_signed && sector[at + 4] == 0xEE && le32(&sector, at + 8) == 1);
    match protective {
        // A hybrid MBR, or an entry that covers less on purpose, is kept. After a relocation or a conversion
        // the disk's size in sectors differs, and the entry of an MBR that is not hybrid is updated.
        Some(at) if !plan.fresh => {
            if (plan.relocate_backup || plan.converts.is_some()) && stack.kind != TableKind::HybridMbr {
                put32(&mut sector, at + 12, covered);
            }
        }
        // One that begins elsewhere, which Linux ignores (`pmbr_part_valid`, block/partitions/efi.c). A hybrid MBR
        // lists other partitions after it.
        None if !plan.fresh && is_signed && slots().any(|at| sector[at + 4] == 0xEE) => {
            let others =
                slots().filter(|at| !matches!(sector[at + 4], 0 | 0xEE)).map(|at| le32(&sector, at + 8));
            let until = others.min().map_or(covered, |first| first.saturating_sub(1).clamp(1, covered));
            if let Some(at) = slots().find(|at| sector[at + 4] == 0xEE) {
                sector[at + 1..at + 4].copy_from_slice(&PROTECTIVE[1..4]);
                put32(&mut sector, at + 8, 1);
                put32(&mut sector, at + 12, until);
            }
        }
        None if !plan.fresh && is_signed && slots().any(|at| sector[at + 4] != 0) => {}
        _ => {
            if wipes_boot_code(plan, steps.medium, stack)? {
                sector[..mbr::ENTRIES_AT].fill(0);
            }
            sector[mbr::ENTRIES_AT..mbr::SIGNATURE_AT].fill(0);
            let entry = &mut sector[mbr::ENTRIES_AT..mbr::ENTRIES_AT + mbr::ENTRY_BYTES];
            entry[..8].copy_from_slice(&PROTECTIVE);
            put32(entry, 8, 1);
            put32(entry, 12, covered);
            sector[mbr::SIGNATURE_AT..mbr::SECTOR_BYTES].copy_from_slice(mbr::SIGNATURE);
        }
    }
    Ok(steps.write(0, &sector, "protective MBR")?)
}
