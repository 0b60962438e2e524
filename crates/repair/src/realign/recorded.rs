//! The boot sectors of NTFS, FAT, exFAT and SYSLINUX, which record where their partition starts, and the sectors
//! that GRUB lists.
//!
//! The law of this module: only the recorded start changes, and for exFAT the checksum over it. A sector that
//! records neither the old start nor the new one is refused.
//!
//! Offsets: BPB_HiddSec at byte 28 of the boot sector of FAT (Microsoft, FAT specification) and of NTFS;
//! PartitionOffset at byte 64 of exFAT's, whose 11 first sectors are under the checksum in the 12th, without
//! bytes 106, 107 and 112 (Microsoft, exFAT specification, 3.1 and 3.4).

use straddle_device::fields::le64;
use straddle_layout::FsKind;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::refer::copy_len;
use super::{MoveError, Reference, boot};
use crate::fingerprint::bytes_of;
use crate::target::Disk;

/// The sectors of exFAT's boot region that are under its checksum.
const EXFAT_SUMMED: usize = 11;
/// BPB_HiddSec.
const HIDDEN: usize = 28;
/// PartitionOffset.
const OFFSET: usize = 64;

/// Which start is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// That of the place where the partition was.
    Old,
    /// That of its new place.
    New,
}

/// Records the start of a partition in its boot sectors; `place` is where its bytes are now.
pub(crate) fn record(
    disk: &mut dyn Disk,
    place: Span,
    reference: &Reference,
    which: Which,
) -> Result<(), MoveError> {
    if let Reference::Syslinux { recorded, correct } = reference {
        let correct = correct.ok_or(MoveError::Unrecordable(place.start()))?;
        let wanted = if which == Which::New { correct } else { *recorded };
        let starts = Starts { wanted, known: [*recorded, correct] };
        return hidden(disk, place.start(), ByteCount::new(boot::SECTOR), starts);
    }
    if let Reference::Grub { .. } = reference {
        return grub(disk, place, reference, which);
    }
    let Reference::BootSector { kind, recorded, correct, sector, copies } = reference else { return Ok(()) };
    let correct = correct.ok_or(MoveError::Unrecordable(place.start()))?;
    let wanted = if which == Which::New { correct } else { *recorded };
    for copy in [ByteOffset::ZERO].into_iter().chain(copies.iter().copied()) {
        let start = place.start().checked_add(ByteCount::new(copy.get()));
        let start = start.ok_or(MoveError::Unrecordable(place.start()))?;
        // Nothing outside the partition is written.
        let bytes = copy_len(*kind, *sector).and_then(|len| Span::new(start, len));
        if !bytes.is_some_and(|bytes| place.contains(bytes)) {
            return Err(MoveError::Unrecordable(start));
        }
        let starts = Starts { wanted, known: [*recorded, correct] };
        if *kind == FsKind::Exfat {
            exfat(disk, start, *sector, starts)?;
        } else {
            hidden(disk, start, *sector, starts)?;
        }
    }
    Ok(())
}

/// Returns the spans that [`record`] may write for a partition that starts at `start`, and those of their bytes
/// that change.
pub(super) fn recorded(reference: &Reference, start: ByteOffset) -> (Vec<Span>, Vec<Span>) {
    let Reference::BootSector { kind, sector, copies, .. } = reference else { return Default::default() };
    let (mut written, mut fields) = (Vec::new(), Vec::new());
    for copy in [ByteOffset::ZERO].into_iter().chain(copies.iter().copied()) {
        let part = |skipped: u64, len: u64| {
            let at = start.checked_add(ByteCount::new(copy.get().checked_add(skipped)?))?;
            Span::new(at, ByteCount::new(len))
        };
        let (sector, summed) = (sector.get(), EXFAT_SUMMED as u64);
        if *kind == FsKind::Exfat {
            written.extend(part(0, sector.saturating_mul(summed + 1)));
            fields.extend(part(OFFSET as u64, 8));
            fields.extend(part(sector.saturating_mul(summed), sector));
        } else {
            written.extend(part(0, sector));
            fields.extend(part(HIDDEN as u64, 4));
        }
    }
    (written, fields)
}

#[derive(Clone, Copy)]
struct Starts {
    wanted: u64,
    known: [u64; 2],
}

fn read(disk: &dyn Disk, at: ByteOffset, len: ByteCount) -> Result<Vec<u8>, MoveError> {
    let span = Span::new(at, len).ok_or(MoveError::Unrecordable(at))?;
    Ok(bytes_of(disk, span)?)
}

fn write(disk: &mut dyn Disk, at: ByteOffset, bytes: &[u8]) -> Result<(), MoveError> {
    disk.write_at(at, bytes).map_err(|source| MoveError::Write { at, source })
}

fn hidden(
    disk: &mut dyn Disk,
    at: ByteOffset,
    sector: ByteCount,
    Starts { wanted, known }: Starts,
) -> Result<(), MoveError> {
    let mut bytes = read(disk, at, sector)?;
    let field = bytes.get_mut(HIDDEN..HIDDEN + 4).ok_or(MoveError::Unrecordable(at))?;
    let found = field.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    if !known.contains(&found) {
        return Err(MoveError::Changed(at));
    }
    let wanted_bytes = u32::try_from(wanted).map_err(|_| MoveError::Unrecordable(at))?.to_le_bytes();
    if found == wanted {
        return Ok(());
    }
    field.copy_from_slice(&wanted_bytes);
    write(disk, at, &bytes)
}

fn exfat(
    disk: &mut dyn Disk,
    at: ByteOffset,
    sector: ByteCount,
    Starts { wanted, known }: Starts,
) -> Result<(), MoveError> {
    let len = usize::try_from(sector.get()).map_err(|_| MoveError::Unrecordable(at))?;
    let region = ByteCount::new(sector.get().saturating_mul(EXFAT_SUMMED as u64 + 1));
    let mut bytes = read(disk, at, region)?;
    let (summed, kept) = bytes.split_at_mut(len * EXFAT_SUMMED);
    let field = summed.get_mut(OFFSET..OFFSET + 8).ok_or(MoveError::Unrecordable(at))?;
    let found = field.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    if !known.contains(&found) {
        return Err(MoveError::Changed(at));
    }
    field.copy_from_slice(&wanted.to_le_bytes());
    let (sum, is_recorded) = (checksum(summed).to_le_bytes(), found == wanted);
    let is_summed = kept.chunks(4).all(|four| four == sum);
    if is_recorded && is_summed {
        return Ok(());
    }
    kept.chunks_mut(4).for_each(|four| four.copy_from_slice(&sum[..four.len()]));
    write(disk, at, &bytes)
}

fn checksum(bytes: &[u8]) -> u32 {
    let summed = bytes.iter().enumerate().filter(|(at, _)| ![106, 107, 112].contains(at));
    summed.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u32::from(*byte)))
}

/// Records the sectors of GRUB's core image, which is in the partition, in its first sector, and in the boot
/// image if that is in the partition. A boot image in the first sector of the disk is part of the table.
fn grub(disk: &mut dyn Disk, place: Span, reference: &Reference, which: Which) -> Result<(), MoveError> {
    let Reference::Grub { in_partition, core, recorded, correct, pieces } = reference else { return Ok(()) };
    let sector = ByteCount::new(boot::SECTOR);
    let starts = |old: u64, new: u64| Starts {
        wanted: if which == Which::New { new } else { old },
        known: [old, new],
    };
    let at = place.start().checked_add(ByteCount::new(core.get()));
    let at = at.ok_or(MoveError::Unrecordable(place.start()))?;
    let mut bytes = read(disk, at, sector)?;
    if boot::pieces(&bytes).is_none_or(|found| found.len() != pieces.len()) {
        return Err(MoveError::Changed(at));
    }
    let mut is_changed = false;
    for (index, old) in pieces.iter().enumerate() {
        let new = shifted(*old, *recorded, *correct).ok_or(MoveError::Unrecordable(at))?;
        let field = boot::entry_at(index).ok_or(MoveError::Unrecordable(at))?;
        is_changed |= put_sector(&mut bytes, field, starts(*old, new), at)?;
    }
    if is_changed {
        write(disk, at, &bytes)?;
    }
    if *in_partition {
        let at = place.start();
        let mut bytes = read(disk, at, sector)?;
        if !boot::is_boot_image(&bytes) {
            return Err(MoveError::Changed(at));
        }
        if put_sector(&mut bytes, boot::KERNEL_SECTOR, starts(*recorded, *correct), at)? {
            write(disk, at, &bytes)?;
        }
    }
    Ok(())
}

/// Writes a sector's number of 64 bits into bytes that were read at `at`; returns whether it changes.
fn put_sector(bytes: &mut [u8], field: usize, starts: Starts, at: ByteOffset) -> Result<bool, MoveError> {
    let found = le64(bytes, field);
    if !starts.known.contains(&found) {
        return Err(MoveError::Changed(at));
    }
    let place = bytes.get_mut(field..).and_then(<[u8]>::first_chunk_mut::<8>);
    *place.ok_or(MoveError::Unrecordable(at))? = starts.wanted.to_le_bytes();
    Ok(found != starts.wanted)
}

/// What `sector` becomes when `from` becomes `to`.
fn shifted(sector: u64, from: u64, to: u64) -> Option<u64> {
    match to.checked_sub(from) {
        Some(up) => sector.checked_add(up),
        None => sector.checked_sub(from.checked_sub(to)?),
    }
}
