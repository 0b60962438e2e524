//! What records where a partition is: boot code that lists sectors of the disk (GRUB, LILO and SYSLINUX), and the
//! boot sectors of NTFS, FAT and exFAT.
//!
//! Invariants: bytes are a boot loader's only if its fixed parts are there. What is written, what is guarded against
//! torn physical sectors and what the journal has room for is one list, [`sites`]. Only the recorded start changes,
//! and for exFAT the checksum. A sector with neither the old start nor the new one is refused.
//!
//! GRUB's boot image records the first sector of the core image; that sector lists the others. Both count 512-byte
//! sectors from the start of the disk. The core image's Reed-Solomon code does not cover its first sector. Offsets
//! are those of include/grub/i386/pc/boot.h, grub-core/boot/i386/pc/boot.S and diskboot.S; what is recorded is in
//! `SETUP` of util/setup.c (GRUB 2.00 to 2.12). GRUB Legacy: stage1/stage1.h. LILO: first.S. SYSLINUX: diskstart.inc,
//! which adds the hidden sectors to what it lists. BPB_HiddSec is at byte 28 of the boot sector of FAT (Microsoft,
//! FAT specification) and of NTFS; PartitionOffset at byte 64 of exFAT's, whose 11 first sectors are under the
//! checksum in the 12th, without bytes 106, 107 and 112 (Microsoft, exFAT specification, 3.1 and 3.4).

use straddle_device::fields::{byte, has, le16, le32, le64};
use straddle_device::{Medium, ReadError};
use straddle_layout::format::mbr;
use straddle_layout::{Content, FsKind, Partition, Stack, types};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::media::{flush, write};
use super::{MoveError, Reference};
use crate::fingerprint::bytes_of;
use crate::plan::Plan;
use crate::relocate::RelocateError;
use crate::target::Disk;

/// BIOS boot loaders count these, whatever the disk's sectors are.
pub(super) const SECTOR: u64 = 512;
pub(super) const SECTOR_LEN: usize = 512;

/// The usual size of a BIOS boot partition.
const CORE: usize = 1 << 20;

/// The first instruction, over the BIOS parameter block to `LOCAL(after_BPB)`.
const JUMP: &[u8] = &[0xEB, 0x63, 0x90];
/// `LOCAL(kernel_address)`, 16 bits, and `GRUB_BOOT_MACHINE_KERNEL_ADDR`.
const KERNEL_ADDRESS: (usize, u16) = (0x5A, 0x8000);
/// `GRUB_BOOT_MACHINE_KERNEL_SECTOR`, 64 bits.
pub(super) const KERNEL_SECTOR: usize = 0x5C;
/// `GRUB_BOOT_MACHINE_BOOT_DRIVE`, 8 bits: the value for the disk that was booted from.
const BOOT_DRIVE: (usize, u8) = (0x64, 0xFF);
const SIGNATURE: (usize, &[u8]) = (510, &[0x55, 0xAA]);
/// The messages of boot.S, before the partition table.
const BOOT_MESSAGES: &[u8] = b"GRUB \0Geom\0Hard Disk\0Read\0 Error";
const BOOT_CODE: std::ops::Range<usize> = 0x65..0x1B8;

/// The first instruction of diskboot.S, `pushw %dx`, and its messages.
const CORE_START: &[u8] = &[0x52];
const CORE_MESSAGES: &[u8] = b"loading\0.\0\r\n\0Geom\0Read\0 Error\0";
/// `GRUB_BOOT_MACHINE_LIST_SIZE`: first sector, 64 bits; number of sectors and segment, 16 bits each.
const ENTRY: usize = 12;
/// The list grows downwards from the end of the sector.
const FIRST_ENTRY: usize = SECTOR_LEN - ENTRY;
const ENTRY_SECTORS: usize = 8;
const ENTRY_SEGMENT: usize = 10;
/// `GRUB_BOOT_MACHINE_KERNEL_SEG` + 0x20, where the second sector is loaded; and the segments of a sector.
const FIRST_SEGMENT: u16 = 0x820;
const SECTOR_SEGMENTS: u16 = 0x20;

/// GRUB Legacy's stage 1: the jump over the parameter block; the first sector of the next stage, 32 bits.
const LEGACY: (&[u8], usize) = (&[0xEB, 0x48, 0x90], 0x44);
/// The same of GRUB 1.9x, with 64 bits.
const OLD: (&[u8], usize) = (&[0xEB, 0x4C, 0x90], 0x5C);
const LILO: (usize, &[u8]) = (6, b"LILO");
const SYSLINUX: (usize, [&[u8]; 2]) = (3, [b"EXTLINUX", b"SYSLINUX"]);
/// BPB_HiddSec.
pub(super) const HIDDEN: usize = 28;

#[derive(Clone, Debug, Default)]
pub(crate) struct Loaders {
    grubs: Vec<Seen>,
    has_lilo: bool,
    /// With the hidden sectors of the partition.
    syslinux: Vec<(ByteOffset, u64)>,
    empty: Vec<ByteOffset>,
    /// Not zeros in the disk's first sector.
    pub(super) has_code: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    at: ByteOffset,
    core: u64,
    /// First sector and number of sectors.
    pieces: Option<Vec<(u64, u16)>>,
}

impl Loaders {
    pub(super) fn read(medium: &dyn Medium, stack: &Stack) -> Result<Self, ReadError> {
        let mut found = Self::default();
        let starts = stack.partitions.iter().map(|partition| partition.span.start());
        for at in [ByteOffset::ZERO].into_iter().chain(starts) {
            let Some(boot) = sector(medium, at)? else { continue };
            if at == ByteOffset::ZERO {
                found.has_code = boot.iter().take(mbr::DISK_ID_AT).any(|byte| *byte != 0);
            }
            if !has(&boot, SIGNATURE.0, SIGNATURE.1) {
                continue;
            }
            if is_boot_image(&boot) {
                let core = le64(&boot, KERNEL_SECTOR);
                let first = core.checked_mul(SECTOR).map(ByteOffset::new);
                let first = first.map(|at| sector(medium, at)).transpose()?.flatten();
                found.grubs.push(Seen { at, core, pieces: first.and_then(|first| pieces(&first)) });
            } else if has(&boot, 0, LEGACY.0) {
                let core = u64::from(le32(&boot, LEGACY.1));
                found.grubs.push(Seen { at, core, pieces: None });
            } else if has(&boot, 0, OLD.0) {
                found.grubs.push(Seen { at, core: le64(&boot, OLD.1), pieces: None });
            } else if has(&boot, LILO.0, LILO.1) {
                found.has_lilo = true;
            } else if SYSLINUX.1.iter().any(|name| has(&boot, SYSLINUX.0, name)) {
                found.syslinux.push((at, u64::from(le32(&boot, HIDDEN))));
            }
        }
        let is_bios_boot = |one: &&Partition| types::name(&one.kind) == Some("BIOS boot");
        let empty = stack.partitions.iter().filter(is_bios_boot).map(|one| one.span);
        found.empty = empty.filter(|span| is_empty(medium, *span)).map(Span::start).collect();
        Ok(found)
    }

    pub(super) fn is_empty(&self, start: ByteOffset) -> bool {
        self.empty.contains(&start)
    }

    pub(super) fn references(&self, partition: &Partition, to: ByteOffset) -> Vec<Reference> {
        let from = partition.span;
        let grubs = self.grubs.iter().filter(|grub| grub.is_in(from));
        let mut found: Vec<Reference> =
            grubs.map(|grub| grub.moved(from, to).unwrap_or(Reference::GrubElsewhere)).collect();
        found.dedup();
        let content = partition.layer.as_ref().map(|layer| layer.kind).or(partition.content);
        let kind = content.and_then(Content::file_system);
        if self.has_lilo && kind.is_none_or(|kind| !kind.has_boot_sector()) {
            found.push(Reference::Lilo);
        }
        // The hidden sectors of FAT and NTFS are a reference of their own.
        let listed = self.syslinux.iter().find(|(at, _)| *at == from.start());
        if let Some((_, recorded)) = listed
            && *recorded != 0
            && kind.is_none_or(|kind| !kind.has_boot_sector())
        {
            let correct = to.get().is_multiple_of(SECTOR).then_some(to.get() / SECTOR);
            let correct = correct.filter(|sectors| u32::try_from(*sectors).is_ok());
            found.push(Reference::Syslinux { recorded: *recorded, correct });
        }
        found
    }
}

impl Seen {
    fn is_in(&self, span: Span) -> bool {
        let pieces = self.pieces.iter().flatten().copied();
        pieces.chain([(self.core, 1)]).any(|(at, count)| piece(at, count).is_none_or(|p| p.overlaps(span)))
    }

    /// `None` if the loader is also elsewhere, the core image is not understood, or a sector is too large.
    fn moved(&self, from: Span, to: ByteOffset) -> Option<Reference> {
        let in_partition = self.at == from.start();
        let pieces = self.pieces.as_ref()?;
        let mut spans = pieces.iter().copied().chain([(self.core, 1)]).map(|(at, count)| piece(at, count));
        let is_inside = spans.all(|span| span.is_some_and(|span| from.contains(span)));
        if !is_inside || !(in_partition || self.at == ByteOffset::ZERO) {
            return None;
        }
        let core = piece(self.core, 1)?.start().checked_since(from.start())?;
        let moved = to.checked_add(core).filter(|at| at.get().is_multiple_of(SECTOR))?;
        Some(Reference::Grub {
            in_partition,
            core: ByteOffset::new(core.get()),
            recorded: self.core,
            correct: moved.get() / SECTOR,
            pieces: pieces.iter().map(|(at, _)| *at).collect(),
        })
    }
}

pub(crate) fn starts_grub(disk: &dyn Medium) -> Result<bool, ReadError> {
    Ok(sector(disk, ByteOffset::ZERO)?.is_some_and(|boot| is_boot_image(&boot)))
}

/// Whether a BIOS boot partition holds nothing: GRUB's core image begins in its first sector.
pub(crate) fn is_empty(medium: &dyn Medium, span: Span) -> bool {
    let mut first = vec![0; usize::try_from(span.len().get()).unwrap_or(CORE).min(CORE)];
    medium.read_at(span.start(), &mut first).is_ok() && first.iter().all(|byte| *byte == 0)
}

fn sector(medium: &dyn Medium, at: ByteOffset) -> Result<Option<Vec<u8>>, ReadError> {
    let span = Span::new(at, ByteCount::new(SECTOR));
    let span = span.filter(|span| Span::first(medium.len()).contains(*span));
    span.map(|span| bytes_of(medium, span)).transpose()
}

fn piece(at: u64, sectors: u16) -> Option<Span> {
    let start = ByteOffset::new(at.checked_mul(SECTOR)?);
    Span::new(start, ByteCount::new(u64::from(sectors) * SECTOR))
}

pub(super) fn is_boot_image(sector: &[u8]) -> bool {
    has(sector, 0, JUMP)
        && le16(sector, KERNEL_ADDRESS.0) == KERNEL_ADDRESS.1
        && byte(sector, BOOT_DRIVE.0) == BOOT_DRIVE.1
        && has(sector, SIGNATURE.0, SIGNATURE.1)
        && position(sector.get(BOOT_CODE).unwrap_or(&[]), BOOT_MESSAGES).is_some()
}

pub(super) fn entry_at(index: usize) -> Option<usize> {
    FIRST_ENTRY.checked_sub(index.checked_mul(ENTRY)?)
}

/// First sector and number of sectors of each piece. `None` if this is not such a sector, or if the pieces
/// are not loaded one after the other.
pub(super) fn pieces(core: &[u8]) -> Option<Vec<(u64, u16)>> {
    let messages = position(core, CORE_MESSAGES).filter(|_| has(core, 0, CORE_START))?;
    let code_end = messages.checked_add(CORE_MESSAGES.len())?;
    let mut found = Vec::new();
    let mut segment = FIRST_SEGMENT;
    while let Some(at) = entry_at(found.len()).filter(|at| *at >= code_end) {
        let entry = core.get(at..)?;
        let sectors = le16(entry, ENTRY_SECTORS);
        if sectors == 0 {
            return Some(found).filter(|found| !found.is_empty());
        }
        if le16(entry, ENTRY_SEGMENT) != segment {
            return None;
        }
        found.push((le64(entry, 0), sectors));
        segment = segment.checked_add(sectors.checked_mul(SECTOR_SEGMENTS)?)?;
    }
    None
}

fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

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
    offset: ByteCount,
    len: ByteCount,
    form: Form,
    numbers: Vec<Number>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    BootSector,
    /// With sectors of this size in bytes.
    Exfat(usize),
    /// A list of this number of pieces.
    GrubCore(usize),
    GrubImage,
}

struct Number {
    at: usize,
    len: usize,
    old: u64,
    new: u64,
}

pub(crate) fn sites(reference: &Reference) -> Option<Vec<Site>> {
    let sector = ByteCount::new(SECTOR);
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
                    _ => Site { offset, len, form: Form::BootSector, numbers: number(HIDDEN, 4)? },
                })
            };
            [ByteOffset::ZERO].into_iter().chain(copies.iter().copied()).map(site).collect()
        }
        Reference::Syslinux { recorded, correct } => {
            let numbers = vec![Number { at: HIDDEN, len: 4, old: *recorded, new: (*correct)? }];
            Some(vec![Site { offset: ByteCount::ZERO, len: sector, form: Form::BootSector, numbers }])
        }
        // A boot image in the first sector of the disk is part of the table.
        Reference::Grub { in_partition, core, recorded, correct, pieces } => {
            let listed = pieces.iter().enumerate().map(|(index, old)| {
                let new =
                    u64::try_from(i128::from(*old) + i128::from(*correct) - i128::from(*recorded)).ok()?;
                Some(Number { at: entry_at(index)?, len: 8, old: *old, new })
            });
            let (offset, form) = (ByteCount::new(core.get()), Form::GrubCore(pieces.len()));
            let mut found = vec![Site { offset, len: sector, form, numbers: listed.collect::<Option<_>>()? }];
            if *in_partition {
                let numbers = vec![Number { at: KERNEL_SECTOR, len: 8, old: *recorded, new: *correct }];
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

pub(crate) fn check(medium: &dyn Medium, place: Span, reference: &Reference) -> Result<(), MoveError> {
    for site in sites(reference).ok_or_else(|| MoveError::Changed(place.start()))? {
        // What lies after the end of the contents does not move.
        let Some(span) = site.span(place.start()).filter(|span| place.contains(*span)) else { continue };
        let found = bytes_of(medium, span)?;
        site.recorded(&found, Which::New).ok_or(MoveError::Changed(span.start()))?;
    }
    Ok(())
}

/// Data must be in their new places.
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
            let (at, len) = (place.start(), ByteCount::new(SECTOR));
            return Err(RelocateError::Changed { at, len }.into());
        }
    }
    Ok(())
}

impl Site {
    pub(crate) fn span(&self, start: ByteOffset) -> Option<Span> {
        Span::new(start.checked_add(self.offset)?, self.len)
    }

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

    /// `None` if `found` is something else, or has other numbers.
    fn recorded(&self, found: &[u8], which: Which) -> Option<Vec<u8>> {
        let is_own = match self.form {
            Form::BootSector | Form::Exfat(_) => true,
            Form::GrubCore(count) => pieces(found).is_some_and(|list| list.len() == count),
            Form::GrubImage => is_boot_image(found),
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
