//! The recorded number of sectors before NTFS, FAT and exFAT, judged only on the disk's own partitions, where it is
//! known.

use straddle_layout::layer::{Facts, FileSystem};
use straddle_layout::{FsKind, Partition, Role, TableKind};
use straddle_units::{ByteCount, ByteOffset};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Command, Finding, Fix, Risk, Severity};
use crate::shell::operand;

/// In the boot sectors of FAT and NTFS: 32 bits, little endian (`BPB_HiddSec`).
const HIDDEN_AT: u64 = 28;

fn in_boot_sector(partition: &Partition) -> Option<(FsKind, &FileSystem)> {
    let layer = partition.layer.as_ref()?;
    let kind = layer.kind.file_system().filter(|kind| kind.has_boot_sector())?;
    match &layer.facts {
        Facts::FileSystem(fs) => Some((kind, fs)),
        _ => None,
    }
}

pub(crate) fn check(context: &Context<'_>, partition: &Partition, findings: &mut Vec<Finding>) {
    let Some((kind, fs)) = in_boot_sector(partition) else { return };
    let Some((hidden, sector)) = fs.hidden_sectors.zip(fs.sector) else { return };
    let Some(start) = count(partition.span.start(), sector) else { return };
    // Zero means unspecified, as mkfs writes on an image, or as exFAT defines.
    if hidden == 0
        || hidden == start
        || context.stack.is_in_iso(partition)
        || hidden == behind_record(context, partition, sector)
    {
        return;
    }
    // Only a BIOS's boot code reads the number, in the active partition.
    let boots = context.stack.kind == TableKind::Mbr
        && partition.attributes.bootable
        && kind.boots_from_recorded_start();
    let message = format!(
        "its {kind} boot sector records sector {hidden} as the start, but the partition starts at sector \
         {start}, so it was moved or copied{}",
        if boots { ", and Windows cannot boot from it" } else { "" }
    );
    let severity = if boots { Severity::Warning } else { Severity::Advice };
    let at = partition.span.start();
    let finding = Finding::on_partition(rules::HIDDEN_SECTORS, partition.number, at, message);
    let finding = finding.fixed_by(fix(context, partition, kind, fs, start));
    findings.push(Finding { severity, ..finding });
}

fn count(at: ByteOffset, sector: ByteCount) -> Option<u64> {
    (sector != ByteCount::ZERO && at.get().is_multiple_of(sector.get())).then(|| at.get() / sector.get())
}

/// Zero unless the partition is logical, as DOS and Windows record it.
fn behind_record(context: &Context<'_>, partition: &Partition, sector: ByteCount) -> u64 {
    let Role::Logical { ebr } = partition.role else { return 0 };
    let ebr = ebr.to_bytes(context.stack.block);
    let behind = ebr.and_then(|ebr| partition.span.start().checked_since(ebr));
    behind.and_then(|behind| count(ByteOffset::new(behind.get()), sector)).unwrap_or(0)
}

pub(crate) const ASLEEP: &str = "it holds a hibernated system; start that system and shut it down (Windows: \
                                 shutdown /s /f /t 0), then check again";

fn fix(context: &Context<'_>, partition: &Partition, kind: FsKind, fs: &FileSystem, start: u64) -> Fix {
    if fs.is_hibernated {
        return Fix::advice(ASLEEP);
    }
    let (Ok(number), true) = (u32::try_from(start), kind.boots_from_recorded_start()) else {
        return Fix::advice("none needed: no exFAT driver uses this field, and mkfs.exfat rewrites it");
    };
    let octal: String = number.to_le_bytes().iter().map(|byte| format!("\\{byte:03o}")).collect();
    let write = |sector: ByteOffset| {
        let at = partition.span.start().get().saturating_add(sector.get()).saturating_add(HIDDEN_AT);
        let line =
            format!("printf '{octal}' | dd of={} bs=1 seek={at} conv=notrunc", operand(context.target));
        Command::other("dd", line)
    };
    // All copies are rewritten, because file system checkers compare them.
    let sectors = std::iter::once(ByteOffset::ZERO).chain(fs.boot_copies.iter().copied());
    let copies = match fs.boot_copies.len() {
        0 => "",
        1 => " and into its copy",
        _ => " and into its copies",
    };
    Fix {
        summary: format!("write {start} into its boot sector{copies}"),
        commands: sectors.map(write).collect(),
        risk: Some(Risk::Safe),
        caution: Some("unmount the partition first; each command changes four bytes".to_owned()),
    }
}
