//! Encoding MBRs and chains of extended boot records.
//!
//! Invariants: writing one sector, the MBR or one record of the chain, makes the new table valid. All new
//! records are written before that, in sectors where the old table has none. A change that needs more than
//! one such sector is refused, except of chains of logical partitions that moved ([`moved_chains`]).

use std::collections::BTreeMap;

use straddle_device::fields::{has, le32};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr::{
    ACTIVE, DISK_ID_AT, ENTRIES_AT, ENTRY_BYTES, SECTOR_BYTES, SIGNATURE, SIGNATURE_AT,
};
use straddle_layout::types::is_extended;
use straddle_layout::{Partition, Role, Stack, TableKind};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount};

use super::gpt::CurrentGpt;
use super::{Steps, wipes_boot_code};
use crate::error::PlanError;
use crate::fingerprint::bytes_at;
use crate::plan::{Change, Entry, Plan, last_of};

/// No reader follows more records than this.
const MOST_RECORDS: usize = 1024;
/// The geometry that every BIOS reports for large disks.
const HEADS: u64 = 255;
const TRACK: u64 = 63;

pub(super) fn slot(index: usize) -> std::ops::Range<usize> {
    ENTRIES_AT + index * ENTRY_BYTES..ENTRIES_AT + (index + 1) * ENTRY_BYTES
}

fn put32(bytes: &mut [u8], at: usize, value: u64) -> Result<(), PlanError> {
    let value = u32::try_from(value)
        .map_err(|_| PlanError::Invalid(format!("sector {value} needs more than 32 bits")))?;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    Ok(())
}

/// The largest values if they cannot be encoded.
fn chs(lba: Lba) -> [u8; 3] {
    let lba = lba.get();
    let (cylinder, head, sector) = (lba / (HEADS * TRACK), lba / TRACK % HEADS, lba % TRACK + 1);
    if cylinder > 1023 {
        return [0xFE, 0xFF, 0xFF];
    }
    let low = |n: u64| u8::try_from(n & 0xFF).unwrap_or(0xFF);
    [low(head), low(sector | (cylinder >> 2 & 0xC0)), low(cylinder)]
}

fn linked(record: &[u8], index: usize, base: Lba) -> Lba {
    base.saturating_add(LbaCount::new(u64::from(le32(&record[slot(index)], 8))))
}

fn is_used(record: &[u8], index: usize) -> bool {
    le32(&record[slot(index)], 12) != 0
}

fn is_link(record: &[u8], index: usize) -> bool {
    is_used(record, index) && is_extended(record[slot(index)][4])
}

fn blank(steps: &Steps<'_>) -> Vec<u8> {
    let mut record = vec![0; ByteCount::new(steps.block).in_memory()];
    record[SIGNATURE_AT..SIGNATURE_AT + 2].copy_from_slice(SIGNATURE);
    record
}

fn fill(bytes: &mut [u8], entry: &Entry, base: Lba) -> Result<(), PlanError> {
    let id = u8::from_str_radix(&entry.kind, 16)
        .map_err(|_| PlanError::Invalid(format!("the type of partition {} is not valid", entry.number)))?;
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

fn replace(bytes: &mut [u8], entry: &Entry, base: Lba) -> Result<(), PlanError> {
    fill_with(bytes, bytes[0], bytes[4], (entry.start, entry.sectors), base)
}

fn resize(bytes: &mut [u8], entry: &Entry) -> Result<(), PlanError> {
    bytes[5..8].copy_from_slice(&chs(entry.last()));
    put32(bytes, 12, entry.sectors.get())
}

/// The numbers of the MBR's entries that list no partition but are not zero, or all of a hybrid image, whose
/// boot code reads them.
pub(crate) fn unlisted_slots(medium: &dyn Medium, stack: &Stack) -> Result<Vec<u32>, ReadError> {
    let mbr = bytes_at(medium, ByteOffset::ZERO, SIGNATURE_AT + 2)?;
    let is_unlisted = |number: &u32| {
        let bytes = &mbr[slot(usize::try_from(number - 1).unwrap_or(0))];
        let is_window = |one: &Partition| one.number == *number && stack.is_window(one);
        (le32(bytes, 12) == 0 && bytes.iter().any(|byte| *byte != 0))
            || stack.partitions.iter().any(is_window)
    };
    Ok((1..=4).filter(is_unlisted).collect())
}

pub(super) fn encode(plan: &Plan, stack: &Stack, steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let mut mbr = steps.sector(Lba::default())?;
    if plan.fresh {
        if wipes_boot_code(plan, steps.medium, stack)? {
            mbr[..ENTRIES_AT].fill(0);
        }
        let id = u32::from_str_radix(&plan.table.id, 16);
        let id = id.map_err(|_| PlanError::Invalid("the disk identifier is not valid".to_owned()))?;
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
                    let why = format!("entry {number} is in use, but lists no partition");
                    return Err(PlanError::Unchangeable(why));
                }
                Change::New => fill(bytes, entry, Lba::default())?,
            },
        }
    }
    let is_gpt = matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr);
    if plan.moves_logical() {
        let (_, new) = moved_chains(plan, stack, steps)?;
        for (at, record) in new.iter().rev() {
            steps.write(steps.byte(*at), record, "extended boot record")?;
        }
        steps.flush();
        steps.write(0, &mbr, "MBR")?;
        steps.flush();
        return Ok(());
    }
    let (old, new) = match plan.converts {
        Some(former) => (Chain::new(), converted_chain(plan, stack, former, steps)?),
        None => {
            let old = read_chain(plan, stack, steps)?;
            let new = changed_chain(&old, plan, steps)?;
            (old, new)
        }
    };
    commit(&old, &new, &mbr, steps)?;
    steps.flush();
    if plan.fresh && is_gpt {
        let former = CurrentGpt::read(steps.medium, stack).ok();
        super::gpt::forget(former.as_ref(), stack.block.get(), steps)?;
    }
    Ok(())
}

/// In the order of the links.
type Chain = Vec<(Lba, Vec<u8>)>;

fn record_at(chain: &Chain, at: Lba) -> Option<&Vec<u8>> {
    chain.iter().find(|(lba, _)| *lba == at).map(|(_, record)| record)
}

fn read_chain(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<Chain, PlanError> {
    let mut chain = Chain::new();
    let kept = plan.table.extended().filter(|entry| entry.change != Change::New && !plan.fresh);
    let Some(extended) = kept else { return Ok(chain) };
    debug_assert_eq!(stack.kind, TableKind::Mbr);
    let odd = |why: &str| Err(PlanError::Unchangeable(format!("the chain of logical partitions {why}")));
    let first = match extended.change {
        Change::Moved { from, .. } => from,
        _ => extended.start,
    };
    let mut at = first;
    loop {
        let record = steps.sector(at)?;
        if !has(&record, SIGNATURE_AT, SIGNATURE) || chain.len() > MOST_RECORDS {
            return odd("cannot be followed");
        }
        let has_link = is_link(&record, 1);
        let has_others = is_used(&record, 2) || is_used(&record, 3) || (is_used(&record, 1) && !has_link);
        if is_link(&record, 0) || has_others {
            return odd("has entries in unusual positions");
        }
        let next = linked(&record, 1, first);
        chain.push((at, record));
        if !has_link {
            return Ok(chain);
        }
        if record_at(&chain, next).is_some() {
            return odd("forms a loop");
        }
        at = next;
    }
}

fn converted_chain(
    plan: &Plan,
    stack: &Stack,
    former: BlockSize,
    steps: &Steps<'_>,
) -> Result<Chain, PlanError> {
    let mut chain = Chain::new();
    let Some(extended) = plan.table.extended() else { return Ok(chain) };
    let cannot = |why: &str| PlanError::CannotConvert(why.to_owned());
    let logical = plan.table.logical();
    if logical.first().is_some_and(|(ebr, _)| *ebr != extended.start) {
        return Err(cannot("the first extended boot record is not at the start of the extended partition"));
    }
    for (index, (ebr, entry)) in logical.iter().enumerate() {
        let present = stack.partitions.iter().find(|partition| partition.number == entry.number);
        let Some(Role::Logical { ebr: was }) = present.map(|partition| partition.role) else {
            return Err(cannot(&format!("there is no logical partition {}", entry.number)));
        };
        let mut record = steps.read(was.byte(former).get(), SECTOR_BYTES as u64)?;
        if !is_used(&record, 0) || is_link(&record, 0) || is_used(&record, 2) || is_used(&record, 3) {
            return Err(cannot("the chain of logical partitions has entries in unusual positions"));
        }
        record.resize(ByteCount::new(steps.block).in_memory(), 0);
        replace(&mut record[slot(0)], entry, *ebr)?;
        record[slot(1)].fill(0);
        link(&mut record, extended, logical.get(index + 1).map(|(next, entry)| (*next, Some(*entry))))?;
        chain.push((*ebr, record));
    }
    if chain.is_empty() {
        chain.push((extended.start, blank(steps)));
    }
    Ok(chain)
}

/// The records of removed partitions are left out, new ones come at the end.
fn changed_chain(old: &Chain, plan: &Plan, steps: &Steps<'_>) -> Result<Chain, PlanError> {
    let mut chain = Chain::new();
    let Some(extended) = plan.table.extended() else { return Ok(chain) };
    let order = plan.table.logical();
    let wanted: BTreeMap<Lba, &Entry> = order.iter().copied().collect();
    let mut places = vec![extended.start];
    let kept = old.iter().map(|(at, _)| *at).filter(|at| wanted.contains_key(at));
    let added = order.iter().map(|(at, _)| *at).filter(|at| record_at(old, *at).is_none());
    places.extend(kept.chain(added).filter(|at| *at != extended.start));
    for (index, at) in places.iter().enumerate() {
        let mut record = record_at(old, *at).cloned().unwrap_or_else(|| blank(steps));
        let bytes = &mut record[slot(0)];
        match wanted.get(at) {
            None => bytes.fill(0),
            Some(entry) => match entry.change {
                Change::Kept => take_over(old, bytes, entry, *at)?,
                Change::Grown { .. } => {
                    take_over(old, bytes, entry, *at)?;
                    resize(bytes, entry)?;
                }
                Change::Moved { .. } => replace(bytes, entry, *at)?,
                Change::New => {
                    bytes.fill(0);
                    fill(bytes, entry, *at)?;
                }
            },
        }
        link(&mut record, extended, places.get(index + 1).map(|next| (*next, wanted.get(next).copied())))?;
        chain.push((*at, record));
    }
    Ok(chain)
}

/// Copies the entry that lists `entry`'s start from another record into the one at `at`, unless that has it.
fn take_over(old: &Chain, bytes: &mut [u8], entry: &Entry, at: Lba) -> Result<(), PlanError> {
    match old.iter().find(|(lba, record)| linked(record, 0, *lba) == entry.start) {
        Some((other, record)) if *other != at => {
            bytes.copy_from_slice(&record[slot(0)]);
            replace(bytes, entry, at)
        }
        _ => Ok(()),
    }
}

fn link(record: &mut [u8], extended: &Entry, next: Option<(Lba, Option<&Entry>)>) -> Result<(), PlanError> {
    let Some((next, entry)) = next else {
        let bytes = &mut record[slot(1)];
        if bytes[4] != 0 || le32(bytes, 12) != 0 {
            bytes.fill(0);
        }
        return Ok(());
    };
    // The size of a correct link is kept (no reader uses it): growing a partition changes one sector.
    if is_extended(record[slot(1)][4]) && linked(record, 1, extended.start) == next {
        return Ok(());
    }
    // As in DOS, a link covers the next record and its partition.
    let end = entry.map_or(next.saturating_add(LbaCount::new(1)), Entry::end);
    fill_with(&mut record[slot(1)], 0, 0x05, (next, end.since(next)), extended.start)
}

fn commit(old: &Chain, new: &Chain, mbr: &[u8], steps: &mut Steps<'_>) -> Result<(), PlanError> {
    let mut committing = Vec::new();
    // The last of the chain first, so that no link leads to a record that is not written yet.
    for (at, record) in new.iter().rev() {
        match record_at(old, *at) {
            None => steps.write(steps.byte(*at), record, "extended boot record")?,
            Some(before) if before != record => committing.push((*at, &record[..], "extended boot record")),
            Some(_) => {}
        }
    }
    steps.flush();
    if steps.sector(Lba::default())? != mbr {
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

/// The present chain, and the one with moved partitions. The record of a partition that stays changes at most
/// in its link. They are written while the table does not list their container ([`crate::realign`]).
fn moved_chains(plan: &Plan, stack: &Stack, steps: &Steps<'_>) -> Result<(Chain, Chain), PlanError> {
    let old = read_chain(plan, stack, steps)?;
    let missing = || PlanError::Unchangeable("the chain of logical partitions has gaps".to_owned());
    let extended = plan.table.extended().ok_or_else(missing)?;
    let logical = plan.table.logical();
    let follower = |index: usize| logical.get(index).map(|(next, entry)| (*next, Some(*entry)));
    let mut new = Chain::new();
    if logical.first().is_none_or(|(ebr, _)| *ebr != extended.start) {
        let mut head = blank(steps);
        link(&mut head, extended, follower(0))?;
        new.push((extended.start, head));
    }
    for (index, (ebr, entry)) in logical.iter().enumerate() {
        let was = plan.before.iter().find(|was| was.number == entry.number);
        let was = was.and_then(|was| record_at(&old, was.ebr()?));
        let mut record = was.ok_or_else(missing)?.clone();
        if entry.change != Change::Kept {
            replace(&mut record[slot(0)], entry, *ebr)?;
        }
        if logical.get(index + 1).is_some_and(|(_, next)| next.change != Change::Kept) {
            record[slot(1)].fill(0);
        }
        link(&mut record, extended, follower(index + 1))?;
        new.push((*ebr, record));
    }
    Ok((old, new))
}

/// Records at their bytes.
pub(crate) type Laid = Vec<(u64, Vec<u8>)>;

pub(crate) fn chains(
    plan: &Plan,
    medium: &dyn Medium,
    stack: &Stack,
) -> Result<Option<[Laid; 2]>, PlanError> {
    if !plan.moves_logical() {
        return Ok(None);
    }
    let steps = Steps::new(plan, medium, stack);
    let (old, new) = moved_chains(plan, stack, &steps)?;
    let laid = |chain: Chain| chain.into_iter().map(|(at, record)| (steps.byte(at), record)).collect();
    Ok(Some([old, new].map(laid)))
}
