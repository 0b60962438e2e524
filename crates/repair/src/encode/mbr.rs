//! Encoding MBRs and chains of extended boot records.
//!
//! Invariants: writing one sector, the MBR or one record of the chain, makes the new table valid.
//! All new records are written before that, in sectors where the old table has none. A change that needs more
//! than one such sector is refused. Only chains of logical partitions that moved are written otherwise ([`Chain::both`]).

use std::collections::BTreeMap;

use straddle_device::fields::{has, le32};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr::{ACTIVE, DISK_ID_AT, ENTRIES_AT, ENTRY_BYTES, SIGNATURE, SIGNATURE_AT};
use straddle_layout::types::is_extended;
use straddle_layout::{Partition, Role, Stack, TableKind};
use straddle_units::{ByteOffset, Lba, LbaCount};

use super::gpt::CurrentGpt;
use super::{Steps, wipes_boot_code};
use crate::error::PlanError;
use crate::plan::{Change, Entry, Plan, Slot, last_of};

/// No reader follows more records than this.
const MOST_RECORDS: usize = 1024;
/// The geometry that every BIOS reports for large disks.
const HEADS: u64 = 255;
const TRACK: u64 = 63;

/// The byte range of an entry in a table of four.
pub(super) fn slot(index: usize) -> std::ops::Range<usize> {
    ENTRIES_AT + index * ENTRY_BYTES..ENTRIES_AT + (index + 1) * ENTRY_BYTES
}

fn put32(bytes: &mut [u8], at: usize, value: u64) -> Result<(), PlanError> {
    let value = u32::try_from(value)
        .map_err(|_| PlanError::Invalid(format!("sector {value} needs more than 32 bits")))?;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

/// Returns the cylinder, head and sector of an address, or the largest values that can be encoded.
fn chs(lba: Lba) -> [u8; 3] {
    let lba = lba.get();
    let (cylinder, head, sector) = (lba / (HEADS * TRACK), lba / TRACK % HEADS, lba % TRACK + 1);
    if cylinder > 1023 {
        return [0xFE, 0xFF, 0xFF];
    }
    let low = |n: u64| u8::try_from(n & 0xFF).unwrap_or(0xFF);
    [low(head), low(sector | (cylinder >> 2 & 0xC0)), low(cylinder)]
}

/// The sector `count` sectors after `lba`; saturates.
fn behind(lba: Lba, count: u32) -> Lba {
    lba.checked_add(LbaCount::new(u64::from(count))).unwrap_or(Lba::new(u64::MAX))
}

/// Fills in an entry for a partition whose start is counted from `base`.
fn fill(bytes: &mut [u8], entry: &Entry, base: Lba) -> Result<(), PlanError> {
    let invalid = || PlanError::Invalid(format!("partition {}: its type is invalid", entry.number));
    let id = u8::from_str_radix(&entry.kind, 16).map_err(|_| invalid())?;
    fill_with(bytes, if entry.bootable { ACTIVE } else { 0 }, id, (entry.start, entry.sectors), base)
}

fn fill_with(
    bytes: &mut [u8],
    status: u8,
    id: u8,
    (start, sectors): (Lba, LbaCount),
    base: Lba,
) -> Result<(), PlanError> {
    bytes[0] = status;
    bytes[1..4].copy_from_slice(&chs(start));
    bytes[4] = id;
    bytes[5..8].copy_from_slice(&chs(last_of(start, sectors)));
    put32(bytes, 8, start.checked_since(base).unwrap_or_default().get())?;
    put32(bytes, 12, sectors.get())
}

/// Changes the position of an entry, whose start is counted from `base`.
fn replace(bytes: &mut [u8], entry: &Entry, base: Lba) -> Result<(), PlanError> {
    fill_with(bytes, bytes[0], bytes[4], (entry.start, entry.sectors), base)
}

fn resize(bytes: &mut [u8], entry: &Entry) -> Result<(), PlanError> {
    bytes[5..8].copy_from_slice(&chs(entry.last()));
    put32(bytes, 12, entry.sectors.get())
}

/// Returns the numbers of the MBR's entries that list no partition but are not zero, or all of a hybrid image: the boot
/// code of such images reads them.
pub(crate) fn unlisted_slots(medium: &dyn Medium, stack: &Stack) -> Result<Vec<u32>, ReadError> {
    let mut mbr = [0; SIGNATURE_AT + 2];
    medium.read_at(ByteOffset::ZERO, &mut mbr)?;
    let is_unlisted = |number: &u32| {
        let bytes = &mbr[slot(usize::try_from(number - 1).unwrap_or(0))];
        let is_window = |one: &Partition| one.number == *number && stack.is_window(one);
        (le32(bytes, 12) == 0 && bytes.iter().any(|byte| *byte != 0))
            || stack.partitions.iter().any(is_window)
    };
    Ok((1..=4).filter(is_unlisted).collect())
}

pub(super) fn encode(plan: &Plan, stack: &Stack, steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let mut mbr = steps.read(0, steps.block)?;
    if plan.fresh {
        if wipes_boot_code(plan, steps.medium, stack)? {
            mbr[..ENTRIES_AT].fill(0);
        }
        let id = u32::from_str_radix(&plan.table.id, 16);
        let id = id.map_err(|_| PlanError::Invalid("its disk identifier is invalid".to_owned()))?;
        mbr[DISK_ID_AT..DISK_ID_AT + 4].copy_from_slice(&id.to_le_bytes());
        mbr[ENTRIES_AT..SIGNATURE_AT].fill(0);
        mbr[SIGNATURE_AT..SIGNATURE_AT + 2].copy_from_slice(SIGNATURE);
    }
    let kept = if plan.fresh { Vec::new() } else { unlisted_slots(steps.medium, stack)? };
    for number in 1..=4 {
        let bytes = &mut mbr[slot(usize::try_from(number - 1).unwrap_or(0))];
        match plan.table.entry(number) {
            None if kept.contains(&number) => {}
            None => bytes.fill(0),
            Some(entry) => match entry.change {
                Change::Kept if plan.converts.is_none() => {}
                Change::Kept | Change::Moved { .. } => replace(bytes, entry, Lba::default())?,
                Change::Grown { .. } => resize(bytes, entry)?,
                Change::New if kept.contains(&number) => {
                    let why = format!("entry {number} is in use, but lists nothing");
                    return Err(PlanError::Unchangeable(why));
                }
                Change::New => fill(bytes, entry, Lba::default())?,
            },
        }
    }
    if plan.moves_logical() {
        let (_, new) = Chain::both(plan, stack, steps)?;
        for (at, record) in new.records.iter().rev() {
            steps.write(steps.byte(*at), record, "extended boot record")?;
        }
        steps.flush();
        steps.write(0, &mbr, "MBR")?;
        steps.flush();
        return Ok(());
    }
    let (old, new) = match plan.converts {
        Some(former) => (Chain::default(), Chain::converted(plan, stack, former, steps)?),
        None => {
            let old = Chain::read(plan, stack, steps)?;
            let new = old.changed(plan, steps)?;
            (old, new)
        }
    };
    commit(&old, &new, &mbr, steps)?;
    steps.flush();
    forget_gpt(plan, stack, steps)
}

/// A chain of records: the sector and the bytes of each, in the order of their links.
#[derive(Clone, Debug, Default)]
struct Chain {
    records: Vec<(Lba, Vec<u8>)>,
}

impl Chain {
    /// Reads the present table's chain, if its container is kept.
    fn read(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<Self, PlanError> {
        let mut chain = Self::default();
        let kept = |entry: &&Entry| entry.slot == Slot::Extended && entry.change != Change::New;
        let Some(extended) = plan.table.partitions.iter().find(kept).filter(|_| !plan.fresh) else {
            return Ok(chain);
        };
        debug_assert_eq!(stack.kind, TableKind::Mbr);
        let odd = |why: &str| PlanError::Unchangeable(format!("its chain of logical partitions {why}"));
        let first = match extended.change {
            Change::Moved { from, .. } => from,
            _ => extended.start,
        };
        let mut at = first;
        loop {
            let record = steps.read(steps.byte(at), steps.block)?;
            if !has(&record, SIGNATURE_AT, SIGNATURE) || chain.records.len() > MOST_RECORDS {
                return Err(odd("cannot be followed"));
            }
            let used = |index: usize| {
                let bytes = &record[slot(index)];
                le32(bytes, 12) != 0
            };
            let is_link = |index: usize| used(index) && is_extended(record[slot(index)][4]);
            if is_link(0) || used(2) || used(3) || (used(1) && !is_link(1)) {
                return Err(odd("has entries in unusual positions"));
            }
            let next = is_link(1).then(|| behind(first, le32(&record[slot(1)], 8)));
            chain.records.push((at, record));
            match next {
                Some(next) if chain.records.iter().any(|(at, _)| *at == next) => {
                    return Err(odd("is a loop"));
                }
                Some(next) => at = next,
                None => return Ok(chain),
            }
        }
    }

    /// Rewrites the chain of a table that counts in sectors of `former` for its new positions.
    fn converted(
        plan: &Plan,
        stack: &Stack,
        former: straddle_units::BlockSize,
        steps: &Steps<'_>,
    ) -> Result<Self, PlanError> {
        let mut chain = Self::default();
        let Some(extended) = plan.table.extended() else {
            return Ok(chain);
        };
        let cannot = |why: String| PlanError::CannotConvert(why);
        let logical = plan.table.logical();
        if logical.first().is_some_and(|(ebr, _)| *ebr != extended.start) {
            return Err(cannot(
                "its first extended boot record is not at the start of the extended partition".to_owned(),
            ));
        }
        let len = usize::try_from(steps.block).unwrap_or(512);
        for (index, (ebr, entry)) in logical.iter().enumerate() {
            let at = stack.partitions.iter().find(|p| p.number == entry.number).and_then(|p| match p.role {
                Role::Logical { ebr } => ebr.to_bytes(former),
                _ => None,
            });
            let at = at.ok_or_else(|| cannot(format!("there is no logical partition {}", entry.number)))?;
            let mut record = steps.read(at.get(), 512)?;
            let used = |index: usize| le32(&record[slot(index)], 12) != 0;
            if !used(0) || is_extended(record[slot(0)][4]) || used(2) || used(3) {
                return Err(cannot(
                    "its chain of logical partitions has entries in unusual positions".to_owned(),
                ));
            }
            record.resize(len, 0);
            replace(&mut record[slot(0)], entry, *ebr)?;
            record[slot(1)].fill(0);
            link(&mut record, extended, logical.get(index + 1).map(|(next, entry)| (*next, Some(entry))))?;
            chain.records.push((*ebr, record));
        }
        if chain.records.is_empty() {
            let mut record = vec![0; len];
            record[SIGNATURE_AT..SIGNATURE_AT + 2].copy_from_slice(SIGNATURE);
            chain.records.push((extended.start, record));
        }
        Ok(chain)
    }

    /// Returns the chain that `plan` requires: the records of removed partitions are left out, new ones come
    /// at the end.
    fn changed(&self, plan: &Plan, steps: &Steps<'_>) -> Result<Self, PlanError> {
        let Some(extended) = plan.table.extended() else {
            return Ok(Self::default());
        };
        let order = plan.table.logical();
        let wanted: BTreeMap<Lba, &Entry> = order.iter().copied().collect();
        let is_old = |at: Lba| self.records.iter().any(|(old, _)| *old == at);
        // The first record is always at the container's start, in use or not.
        let mut places = vec![extended.start];
        places.extend(
            self.records
                .iter()
                .map(|(at, _)| *at)
                .filter(|at| *at != extended.start && wanted.contains_key(at)),
        );
        places.extend(order.into_iter().map(|(at, _)| at).filter(|at| *at != extended.start && !is_old(*at)));
        let mut chain = Self::default();
        for (index, at) in places.iter().enumerate() {
            let mut record = match self.records.iter().find(|(old, _)| old == at) {
                Some((_, bytes)) => bytes.clone(),
                None => vec![0; usize::try_from(steps.block).unwrap_or(512)],
            };
            record[SIGNATURE_AT..SIGNATURE_AT + 2].copy_from_slice(SIGNATURE);
            match wanted.get(at) {
                None => record[slot(0)].fill(0),
                Some(entry) => match entry.change {
                    Change::Kept => self.take_over(&mut record[slot(0)], entry, *at)?,
                    Change::Grown { .. } => {
                        self.take_over(&mut record[slot(0)], entry, *at)?;
                        resize(&mut record[slot(0)], entry)?;
                    }
                    Change::Moved { .. } => replace(&mut record[slot(0)], entry, *at)?,
                    Change::New => {
                        record[slot(0)].fill(0);
                        fill(&mut record[slot(0)], entry, *at)?;
                    }
                },
            }
            link(&mut record, extended, places.get(index + 1).map(|next| (*next, wanted.get(next))))?;
            chain.records.push((*at, record));
        }
        Ok(chain)
    }
}

impl Chain {
    /// Copies the entry that lists `entry`'s start from another record into the record at sector `at`, unless
    /// that record lists it itself.
    fn take_over(&self, bytes: &mut [u8], entry: &Entry, at: Lba) -> Result<(), PlanError> {
        let lists = |(at, record): &&(Lba, Vec<u8>)| behind(*at, le32(&record[slot(0)], 8)) == entry.start;
        match self.records.iter().find(lists) {
            Some((other, record)) if *other != at => {
                bytes.copy_from_slice(&record[slot(0)]);
                replace(bytes, entry, at)
            }
            _ => Ok(()),
        }
    }
}

/// Points a record's link at the next record; a link that already leads there is left unchanged.
fn link(record: &mut [u8], extended: &Entry, next: Option<(Lba, Option<&&Entry>)>) -> Result<(), PlanError> {
    let bytes = &mut record[slot(1)];
    let Some((next, entry)) = next else {
        if bytes[4] != 0 || le32(bytes, 12) != 0 {
            bytes.fill(0);
        }
        return Ok(());
    };
    // No reader uses the size of a link. The size of a correct link is kept, so that growing a partition
    // changes only one sector.
    if is_extended(bytes[4]) && behind(extended.start, le32(bytes, 8)) == next {
        return Ok(());
    }
    // As in DOS, a link covers the next record and its partition.
    let end = entry.map_or(behind(next, 1), |entry| entry.end());
    let sectors = end.checked_since(next).unwrap_or_default();
    fill_with(bytes, 0, 0x05, (next, sectors), extended.start)
}

/// Writes the new records, and then the one sector that makes them count.
fn commit(old: &Chain, new: &Chain, mbr: &[u8], steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let is_old = |at: Lba| old.records.iter().any(|(old, _)| *old == at);
    // The last of the chain first, so that no link leads to a record that is not written yet.
    for (at, record) in new.records.iter().rev().filter(|(at, _)| !is_old(*at)) {
        steps.write(steps.byte(*at), record, "extended boot record")?;
    }
    steps.flush();
    let mut committing = Vec::new();
    for (at, record) in new.records.iter().filter(|(at, _)| is_old(*at)) {
        let before = old.records.iter().find(|(old, _)| old == at).map(|(_, bytes)| bytes);
        if before != Some(record) {
            committing.push((*at, record.as_slice(), "extended boot record"));
        }
    }
    if steps.read(0, steps.block)? != mbr {
        committing.push((Lba::default(), mbr, "MBR"));
    }
    if committing.len() > 1 {
        return Err(PlanError::TwoSteps(committing.len()));
    }
    for (at, bytes, what) in committing {
        steps.write(steps.byte(at), bytes, what)?;
    }
    Ok(())
}

/// Clears the headers of a GPT that is replaced.
fn forget_gpt(plan: &Plan, stack: &Stack, steps: &mut Steps<'_>) -> Result<(), PlanError> {
    if !plan.fresh || !matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr) {
        return Ok(());
    }
    super::gpt::forget(CurrentGpt::read(steps.medium, stack).ok().as_ref(), stack.block.get(), steps)
}

/// Records at their bytes.
pub(crate) type Laid = Vec<(u64, Vec<u8>)>;

impl Chain {
    /// Returns the present chain, and the one of the new table, in which logical partitions have moved. A record of a
    /// partition that stays changes at most in its link. These chains do not become valid with one sector: they are written
    /// while the table does not list their container ([`crate::realign`]).
    fn both(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<(Self, Self), PlanError> {
        let old = Self::read(plan, stack, steps)?;
        let new = old.relaid(plan, steps)?;
        Ok((old, new))
    }

    fn laid(self, steps: &Steps<'_>) -> Laid {
        self.records.into_iter().map(|(at, record)| (steps.byte(at), record)).collect()
    }

    /// Gives each logical partition its new record.
    fn relaid(&self, plan: &Plan, steps: &Steps<'_>) -> Result<Self, PlanError> {
        let missing = || PlanError::Unchangeable("its chain of logical partitions has gaps".to_owned());
        let extended = plan.table.extended().ok_or_else(missing)?;
        let logical = plan.table.logical();
        let mut chain = Self::default();
        let follower = |index: usize| logical.get(index).map(|(next, entry)| (*next, Some(entry)));
        if logical.first().is_none_or(|(ebr, _)| *ebr != extended.start) {
            let mut head = vec![0; usize::try_from(steps.block).unwrap_or(512)];
            head[SIGNATURE_AT..SIGNATURE_AT + 2].copy_from_slice(SIGNATURE);
            link(&mut head, extended, follower(0))?;
            chain.records.push((extended.start, head));
        }
        for (index, (ebr, entry)) in logical.iter().enumerate() {
            let was = plan.before.iter().find(|was| was.number == entry.number);
            let was = was.and_then(|was| match was.slot {
                Slot::Logical { ebr } => self.records.iter().find(|(at, _)| *at == ebr),
                _ => None,
            });
            let mut record = was.ok_or_else(missing)?.1.clone();
            if entry.change != Change::Kept {
                replace(&mut record[slot(0)], entry, *ebr)?;
            }
            let next = follower(index + 1);
            if next.is_some_and(|(_, next)| next.is_some_and(|next| next.change != Change::Kept)) {
                record[slot(1)].fill(0);
            }
            link(&mut record, extended, next)?;
            chain.records.push((*ebr, record));
        }
        Ok(chain)
    }
}

/// Returns the records of the table before and after the plan; `None` if no logical partition moves.
pub(crate) fn chains(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<Option<[Laid; 2]>, PlanError> {
    if !plan.moves_logical() {
        return Ok(None);
    }
    let (old, new) = Chain::both(plan, stack, steps)?;
    Ok(Some([old.laid(steps), new.laid(steps)]))
}
