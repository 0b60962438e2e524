//! The boot sectors of NTFS, FAT, exFAT and SYSLINUX, which record where their partition starts, and the
//! sectors that GRUB lists.
//!
//! Invariants: what is written, what is guarded against torn physical sectors and what the journal has room
//! for is one list, [`sites`]. Only the recorded start changes, and for exFAT the checksum. A sector that
//! records neither the old start nor the new one is refused.
//!
//! Offsets: BPB_HiddSec at byte 28 of the boot sector of FAT (Microsoft, FAT specification) and of NTFS;
//! PartitionOffset at byte 64 of exFAT's, whose 11 first sectors are under the checksum in the 12th, without
//! bytes 106, 107 and 112 (Microsoft, exFAT specification, 3.1 and 3.4).

use straddle_device::Medium;
use straddle_layout::FsKind;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::media::{flush, write};
use super::{MoveError, Reference, boot};
use crate::fingerprint::bytes_of;
use crate::plan::Plan;
use crate::relocate::RelocateError;
use crate::target::Disk;

/// The sectors of exFAT's boot region that are under its checksum, and those with the checksum itself.
const EXFAT_SUMMED: usize = 11;
const EXFAT_REGION: u64 = EXFAT_SUMMED as u64 + 1;
/// PartitionOffset.
const OFFSET: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Old,
    New,
}

/// Bytes of a partition that are written at once, with numbers that depend on its place.
pub(crate) struct Site {
    /// Where they are in the partition.
    offset: ByteCount,
    len: ByteCount,
    form: Form,
    numbers: Vec<Number>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    BootSector,
    /// The boot region of exFAT, with sectors of this size in bytes.
    Exfat(usize),
    /// The first sector of GRUB's core image, with a list of this number of pieces.
    GrubCore(usize),
    GrubImage,
}

/// A little-endian number before and after the move.
struct Number {
    at: usize,
    len: usize,
    old: u64,
    new: u64,
}

/// Returns everything in a partition that changes because of `reference`; `None` if that cannot be recorded.
pub(crate) fn sites(reference: &Reference) -> Option<Vec<Site>> {
    let sector = ByteCount::new(boot::SECTOR);
    match reference {
        Reference::BootSector { kind, recorded, correct, sector, copies } => {
            let number = |at, len| Some(vec![Number { at, len, old: *recorded, new: (*correct)? }]);
            let site = |copy: ByteOffset| {
                let (offset, len) = (ByteCount::new(copy.get()), copy_len(*kind, *sector)?);
                Some(match kind {
                    FsKind::Exfat => {
                        let form = Form::Exfat(usize::try_from(sector.get()).ok()?);
                        Site { offset, len, form, numbers: number(OFFSET, 8)? }
                    }
                    _ => Site { offset, len, form: Form::BootSector, numbers: number(boot::HIDDEN, 4)? },
                })
            };
            [ByteOffset::ZERO].into_iter().chain(copies.iter().copied()).map(site).collect()
        }
        Reference::Syslinux { recorded, correct } => {
            let numbers = vec![Number { at: boot::HIDDEN, len: 4, old: *recorded, new: (*correct)? }];
            Some(vec![Site { offset: ByteCount::ZERO, len: sector, form: Form::BootSector, numbers }])
        }
        // A boot image in the first sector of the disk is part of the table.
        Reference::Grub { in_partition, core, recorded, correct, pieces } => {
            let listed = pieces.iter().enumerate().map(|(index, old)| {
                let new =
                    u64::try_from(i128::from(*old) + i128::from(*correct) - i128::from(*recorded)).ok()?;
                Some(Number { at: boot::entry_at(index)?, len: 8, old: *old, new })
            });
            let (offset, form) = (ByteCount::new(core.get()), Form::GrubCore(pieces.len()));
            let mut found = vec![Site { offset, len: sector, form, numbers: listed.collect::<Option<_>>()? }];
            if *in_partition {
                let numbers = vec![Number { at: boot::KERNEL_SECTOR, len: 8, old: *recorded, new: *correct }];
                found.push(Site { offset: ByteCount::ZERO, len: sector, form: Form::GrubImage, numbers });
            }
            Some(found)
        }
        _ => Some(Vec::new()),
    }
}

/// The bytes of a boot sector or, for exFAT, of the boot region that its checksum covers.
pub(super) fn copy_len(kind: FsKind, sector: ByteCount) -> Option<ByteCount> {
    let sectors = if kind == FsKind::Exfat { EXFAT_REGION } else { 1 };
    sector.get().checked_mul(sectors).map(ByteCount::new)
}

/// Checks that a start can be recorded wherever `reference` has it, for a partition at `place`.
pub(crate) fn check(medium: &dyn Medium, place: Span, reference: &Reference) -> Result<(), MoveError> {
    for site in sites(reference).ok_or_else(|| MoveError::Changed(place.start()))? {
        // What lies after the end of the contents does not move.
        let Some(span) = site.span(place.start()).filter(|span| place.contains(*span)) else { continue };
        let found = bytes_of(medium, span)?;
        site.recorded(&found, Which::New).ok_or(MoveError::Changed(span.start()))?;
    }
    Ok(())
}

/// Records the starts of partitions, whose data are in their new places, durably, and reads them back.
pub(crate) fn record(
    disk: &mut dyn Disk,
    plan: &Plan,
    references: &[(u32, Reference)],
    which: Which,
) -> Result<(), MoveError> {
    let places =
        references.iter().filter_map(|(number, one)| Some((plan.span(plan.table.entry(*number)?)?, one)));
    let mut written = Vec::new();
    for (place, reference) in places {
        let unrecordable = || MoveError::Changed(place.start());
        for site in sites(reference).ok_or_else(unrecordable)? {
            // Nothing outside the partition is written.
            let span = site.span(place.start()).filter(|span| place.contains(*span));
            let span = span.ok_or_else(unrecordable)?;
            let found = bytes_of(disk, span)?;
            let bytes = site.recorded(&found, which).ok_or(MoveError::Changed(span.start()))?;
            if bytes != found {
                write(disk, span.start(), &bytes)?;
            }
            written.push((place, span, site));
        }
    }
    flush(disk)?;
    for (place, span, site) in written {
        disk.drop_cache(span);
        let found = bytes_of(disk, span)?;
        if site.recorded(&found, which).as_ref() != Some(&found) {
            let (at, len) = (place.start(), ByteCount::new(boot::SECTOR));
            return Err(RelocateError::Changed { at, len }.into());
        }
    }
    Ok(())
}

impl Site {
    /// Its place on the disk, if the partition starts at byte `start`.
    pub(crate) fn span(&self, start: ByteOffset) -> Option<Span> {
        Span::new(start.checked_add(self.offset)?, self.len)
    }

    /// The places of what changes in it.
    pub(super) fn fields(&self, start: ByteOffset) -> Vec<Span> {
        let sum = match self.form {
            Form::Exfat(sector) => Some((sector.saturating_mul(EXFAT_SUMMED), sector)),
            Form::BootSector | Form::GrubCore(_) | Form::GrubImage => None,
        };
        let fields = self.numbers.iter().map(|number| (number.at, number.len)).chain(sum);
        let span = |(at, len): (usize, usize)| {
            let at = start.checked_add(self.offset)?.checked_add(ByteCount::new(at as u64))?;
            Span::new(at, ByteCount::new(len as u64))
        };
        fields.filter_map(span).collect()
    }

    /// Returns its bytes with these numbers; `None` if `found` is something else, or has other numbers.
    fn recorded(&self, found: &[u8], which: Which) -> Option<Vec<u8>> {
        let is_own = match self.form {
            Form::BootSector | Form::Exfat(_) => true,
            Form::GrubCore(pieces) => boot::pieces(found).is_some_and(|list| list.len() == pieces),
            Form::GrubImage => boot::is_boot_image(found),
        };
        let mut bytes = found.to_vec();
        for Number { at, len, old, new } in self.numbers.iter().filter(|_| is_own) {
            let field = bytes.get_mut(*at..at.checked_add(*len)?)?;
            let number = field.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
            let wanted = if which == Which::New { new } else { old };
            let digits = wanted.to_le_bytes();
            let fits = digits.iter().skip(*len).all(|byte| *byte == 0);
            if ![old, new].contains(&&number) || !fits {
                return None;
            }
            field.copy_from_slice(digits.get(..*len)?);
        }
        if let Form::Exfat(sector) = self.form {
            let (summed, kept) = bytes.split_at_mut_checked(sector.checked_mul(EXFAT_SUMMED)?)?;
            let sum = checksum(summed).to_le_bytes();
            kept.chunks_mut(4).for_each(|four| four.copy_from_slice(&sum[..four.len()]));
        }
        is_own.then_some(bytes)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let summed = bytes.iter().enumerate().filter(|(at, _)| ![106, 107, 112].contains(at));
    summed.fold(0_u32, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u32::from(*byte)))
}
