//! How much a missed boundary matters, given what is written there.
//!
//! Invariants: it only lowers severities of findings on placement, with the reason. What is written once loses
//! nothing.

use straddle_layout::layer::{Facts, FileSystem, Layer, Md};
use straddle_layout::{Content, FsKind, Partition, PartitionType, Role, TableKind, Unclaimed, types};
use straddle_units::ByteCount;

use crate::Context;
use crate::catalogue::Code;
use crate::finding::{Finding, Severity, Subject};

const MBR_PREP: u8 = 0x41;
const MBR_ESP: u8 = 0xEF;

/// FAT that firmware boots from, and Linux: a file system, LVM.
const MBR_FATS: [u8; 3] = [0x0B, 0x0C, 0x0E];
const MBR_LINUX: [u8; 2] = [0x83, 0x8E];

/// bootfs and boot (Raspberry Pi OS), RECOVERY (NOOBS), system-boot (Ubuntu), RASPIFIRM (Debian).
const BOARD_LABELS: [&str; 3] = ["boot", "firm", "recovery"];

const BOARD_BOOT_MOST: ByteCount = ByteCount::new(1 << 30);

/// Any cluster size will do: only updates of the boot loader write to a boot partition.
const FAT: Content = Content::FileSystem(FsKind::Vfat);

pub(crate) fn placement(context: &Context<'_>, partition: &Partition, found: &mut [Finding]) {
    let weighs = |f: &Finding| f.severity > Severity::Advice;
    if !found.iter().any(weighs) {
        return;
    }
    let nothing = nothing_is_lost(context, partition);
    for finding in found.iter_mut().filter(|f| weighs(f)) {
        if let Some(why) = &nothing {
            lower(finding, why);
        } else if finding.rule.code == Code::END_STRADDLES {
            match tail(context, partition) {
                (true, why) => lower(finding, &why),
                (false, why) => finding.message += &format!("; {why}"),
            }
        }
    }
}

pub(crate) fn contents(context: &Context<'_>, findings: &mut [Finding]) {
    let is_placed =
        [Code::FS_BLOCK_SMALL, Code::FS_BLOCK_BELOW_UNIT, Code::DATA_AREA_OFF, Code::START_STRADDLES];
    for finding in findings.iter_mut().filter(|f| is_placed.contains(&f.rule.code)) {
        let why = match finding.subject {
            Subject::Partition(number) if !finding.layer.is_empty() => {
                context.partition(number).and_then(|partition| nothing_is_lost(context, partition))
            }
            Subject::Disk => match &context.stack.kind {
                TableKind::Content(content) if content.is_only_read() => {
                    Some(format!("{content} is read-only"))
                }
                _ => None,
            },
            Subject::Partition(_) => None,
        };
        if let Some(why) = why {
            lower(finding, &why);
        }
    }
}

fn lower(finding: &mut Finding, why: &str) {
    finding.severity = Severity::Advice;
    finding.message += &format!("; harmless here: {why}");
    finding.unfixed();
}

/// `None` if the position matters.
pub(crate) fn nothing_is_lost(context: &Context<'_>, partition: &Partition) -> Option<String> {
    if context.stack.is_in_iso(partition) {
        return Some("it is part of an ISO 9660 image, which is read-only".to_owned());
    }
    if let Some(name) = partition.content.filter(|content| content.is_only_read()) {
        return Some(format!("{name} is read-only"));
    }
    if is_boards_boot(context, partition) {
        return Some(
            "it is read only by firmware, and written only by kernel and boot loader updates".to_owned(),
        );
    }
    if let Some(why) = is_too_small(context, partition) {
        return Some(why);
    }
    let kind = match partition.kind {
        PartitionType::Guid(_) => types::name(&partition.kind).unwrap_or(""),
        PartitionType::Mbr(MBR_PREP) => "PowerPC PReP boot",
        PartitionType::Mbr(MBR_ESP) => "EFI System",
        _ => "",
    };
    let why = match (kind, partition.content) {
        ("BIOS boot" | "FreeBSD boot" | "PowerPC PReP boot", None) => {
            "it holds only a boot loader, which is written only once"
        }
        ("Microsoft reserved", None) => "a Microsoft reserved partition stores no data",
        ("Microsoft LDM metadata", _) => "it holds only the dynamic disk's database",
        ("EFI System" | "Linux extended boot", None | Some(FAT)) => {
            "it is read only by firmware, and written only by boot loader updates"
        }
        _ => return None,
    };
    Some(why.to_owned())
}

/// Below a physical sector a partition cannot be aligned, or hold a file system.
fn is_too_small(context: &Context<'_>, partition: &Partition) -> Option<String> {
    let physical = context.topology.physical.value();
    let is_small = partition.span.len() < physical && partition.content.is_none();
    is_small.then(|| {
        let [len, physical] = [partition.span.len(), physical].map(ByteCount::get);
        format!(
            "it is smaller ({len} bytes) than a physical sector ({physical} bytes), so both ends cannot be \
            aligned, and its contents are unknown"
        )
    })
}

/// A small FAT, active or so labelled, first on an MBR with Linux.
fn is_boards_boot(context: &Context<'_>, partition: &Partition) -> bool {
    let all = || context.stack.partitions.iter();
    let is = |partition: &Partition, kinds: &[u8]| matches!(partition.kind, PartitionType::Mbr(kind) if kinds.contains(&kind));
    let label = partition.layer.as_ref().map(|layer| layer.name.to_ascii_lowercase()).unwrap_or_default();
    partition.content == Some(FAT)
        && is(partition, &MBR_FATS)
        && (partition.attributes.bootable || BOARD_LABELS.iter().any(|part| label.contains(part)))
        && partition.span.len() <= BOARD_BOOT_MOST
        && all().all(|other| other.span.start() >= partition.span.start())
        && all().any(|other| is(other, &MBR_LINUX))
}

/// Whether the content leaves the partition's last bytes, in a partial physical sector, and the sector's rest unused;
/// why.
fn tail(context: &Context<'_>, partition: &Partition) -> (bool, String) {
    if let Some(next) = sharing(context, partition) {
        return (false, format!("partition {next} begins in the same sector"));
    }
    let len = partition.span.len();
    let rest = len.remainder(context.topology.physical.value());
    let Some(layer) = &partition.layer else {
        // Where only the kernel's list was read, nothing was looked for.
        let is_read = !matches!(context.stack.kind, TableKind::Kernel);
        return match partition.content {
            None if partition.unclaimed == Unclaimed::Nothing && is_read => {
                let why = "the partition looks empty, and a file system with 4 KiB blocks would leave them \
                           unused";
                (true, why.to_owned())
            }
            None => (false, "its contents are unknown and may use these bytes".to_owned()),
            Some(name) => (false, format!("it is not known whether {name} uses these bytes")),
        };
    };
    let is_unused = leaves(layer, len, rest);
    let why = match &layer.facts {
        Facts::Luks(luks) if is_unused && luks.sector_size <= ByteCount::new(512) => {
            "LUKS encrypts each 512-byte sector separately, and a file system in it uses only whole blocks"
                .to_owned()
        }
        _ if is_unused => format!("the {} in it does not use these bytes", layer.kind),
        Facts::Luks(luks) if luks.is_refused(len) => format!(
            "LUKS with {}-byte sectors does not use these bytes, and cannot be opened on a device that ends \
             with them",
            luks.sector_size.get()
        ),
        _ => format!("the {} in it may use these bytes", layer.kind),
    };
    (is_unused, why)
}

fn sharing(context: &Context<'_>, partition: &Partition) -> Option<u32> {
    let end = partition.span.end();
    let sector_ends = context.topology.physical_boundary()?.ceil(end)?;
    let begins_there =
        |p: &&Partition| p.role != Role::Extended && p.span.start() >= end && p.span.start() < sector_ends;
    context.stack.partitions.iter().find(begins_there).map(|p| p.number)
}

pub(crate) fn leaves(layer: &Layer, len: ByteCount, rest: ByteCount) -> bool {
    let leaves = |used: ByteCount| used.checked_add(rest).is_some_and(|end| end <= len);
    match &layer.facts {
        Facts::FileSystem(FileSystem { extent: Some(extent), .. }) if leaves(*extent) => true,
        Facts::FileSystem(_) if layer.kind.is_swap() => false,
        _ if layer.kind.is_only_read() => true,
        Facts::FileSystem(fs) => allocates(layer.kind, fs).is_some_and(|unit| unit > rest),
        // Extents are measured in MiB; metadata is at the front.
        Facts::Pv(_) => true,
        // Sectors of 512 bytes are encrypted by themselves: only the content could use the tail.
        Facts::Luks(luks) if luks.is_refused(len) => false,
        Facts::Luks(luks) => luks.sector_size <= ByteCount::new(512) || layer.used(len).is_some_and(leaves),
        // A superblock at the end lies on a multiple of 4 KiB.
        Facts::Md(md) => uses(md).is_some_and(leaves),
        Facts::Lv(_) | Facts::Mapped(_) | Facts::Table(_) | Facts::Opaque => false,
    }
}

fn uses(md: &Md) -> Option<ByteCount> {
    let odd = if md.chunk == ByteCount::ZERO { ByteCount::ZERO } else { md.data_size.remainder(md.chunk) };
    let whole = md.data_size.get().checked_sub(odd.get()).filter(|size| *size != 0).map(ByteCount::new)?;
    md.data_offset.checked_add(whole)
}

/// `vdev_open`, module/zfs/vdev.c.
const ZFS_LABEL: ByteCount = ByteCount::new(256 * 1024);

/// The allocation unit of a file system, if it is known: a smaller rest at its end is never allocated.
///
/// Not inlined: in the loop over findings, LLVM 22 (rustc 1.95) reads `cluster` or `block` before it is known that
/// there is a file system, at an address formed from a meaningless byte.
#[inline(never)]
fn allocates(kind: Content, fs: &FileSystem) -> Option<ByteCount> {
    let unit = match kind.file_system()? {
        FsKind::Zfs => ZFS_LABEL,
        _ => fs.cluster.unwrap_or(fs.block),
    };
    Some(unit).filter(|unit| *unit != ByteCount::ZERO)
}
