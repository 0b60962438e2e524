//! Numbers of partition tables.

use crate::topics::numbers::{LARGE, MIB, Numbers, SMALL, Said, bytes, sectors};

/// Sectors that a backup GPT takes at the end of a disk, with 512-byte sectors.
const BACKUP: u64 = 33;

/// What an adapter or a RAID controller keeps at the end of a disk, in sectors: some MiB.
const KEPT: u64 = 64 * MIB / SMALL;

const RELOCATE: &str = "First run straddle check DISK. If it reports S034, nothing is lost, and you can use \
                        the new space once the backup GPT is at the end of the disk. To move it, use \
                        straddle plan DISK --repair --relocate-backup, 'w' in fdisk 2.38, or 'Fix' in parted \
                        3.5. If straddle check reports S030, the table uses a different sector size. In that \
                        case, write nothing, because sgdisk 1.0.9 would replace the table with an empty one.";

/// Whether the larger count is eight times the smaller one, but for what an adapter keeps.
fn is_eightfold(small: u64, large: u64) -> bool {
    small > 0 && (large / 8).abs_diff(small) <= small / 1000
}

pub(super) fn gpt_size(numbers: &Numbers) -> Option<Vec<Said>> {
    if let Some(extra) = numbers.get("extra") {
        let first =
            format!("With 512-byte sectors, the disk is larger than its GPT by {}.", sectors(extra, SMALL)?);
        return (extra > 0).then(|| vec![Said::Is(first), Said::Writes(RELOCATE.to_owned())]);
    }
    // The kernel compares the numbers of a table that it has found in the disk's own sectors.
    let found = numbers.get("header").zip(numbers.get("last"));
    let (table, disk) = found.or_else(|| numbers.get("table").zip(numbers.get("disk")))?;
    let (by_table, by_disk) = (table.checked_add(1)?, disk.checked_add(1)?);
    if found.is_none() && is_eightfold(by_table, by_disk) {
        return Some(other_sectors(by_table, by_disk, "4096", "512"));
    }
    if found.is_none() && is_eightfold(by_disk, by_table) {
        return Some(other_sectors(by_table, by_disk, "512", "4096"));
    }
    if table > disk {
        return cut_off(by_table, by_disk);
    }
    if disk > u64::from(u32::MAX) && table == disk & u64::from(u32::MAX) {
        return Some(vec![Said::Is(format!(
            "{table} is {disk} modulo 2^32: a tool wrote the size to the 32-bit field of the protective MBR \
             without limiting it to 4294967295. No system uses that number. If straddle check reports \
             nothing about the GPT, the GPT is correct, and fdisk or straddle will correct the number when \
             they next write the table."
        ))]);
    }
    let grown = disk.checked_sub(table).filter(|grown| *grown > 0)?;
    Some(vec![
        Said::Is(format!(
            "With 512-byte sectors, the disk is larger than its table by {}.",
            sectors(grown, SMALL)?
        )),
        Said::Writes(RELOCATE.to_owned()),
    ])
}

fn other_sectors(by_table: u64, by_disk: u64, then: &str, now: &str) -> Vec<Said> {
    let ratio = if by_disk > by_table { "8 times" } else { "an eighth of" };
    vec![
        Said::Is(format!(
            "The disk has {by_disk} sectors, {ratio} the {by_table} that its table records. Most likely, the \
             GPT was written in {then}-byte sectors, behind an adapter, enclosure or host that presented \
             such sectors; here the sectors are {now} bytes (S030)."
        )),
        Said::Forbids(
            "WRITE NOTHING TO IT: no 'w' in fdisk, no sgdisk -e, no 'Fix'. With the wrong sector size, these \
             tools do not see the GPT, and sgdisk 1.0.9 -e replaces it with an empty one."
                .to_owned(),
        ),
        Said::Is(format!(
            "straddle check DISK finds a table in either sector size, and reports S030. All data is intact, \
             and accessible when the disk has {then}-byte sectors again. The disk has such sectors behind \
             its old adapter or, on Linux and without writing anything, through losetup --find --show \
             --read-only --partscan -b {then} DISK. straddle plan DISK --convert-table rewrites the table, \
             if the contents work with {now}-byte sectors."
        )),
        Said::Is(
            "If check reports S034 instead, the size of the disk or image really did change by a factor of 8."
                .to_owned(),
        ),
    ]
}

fn cut_off(by_table: u64, by_disk: u64) -> Option<Vec<Said>> {
    let lacks = by_table.checked_sub(by_disk)?;
    let whole = by_table.checked_mul(SMALL)?;
    let mut said = vec![Said::Forbids(format!(
        "With 512-byte sectors, the disk or image is shorter than its table by {} (S035). Write nothing to \
         it, neither with 'w' nor with sgdisk -e, because they move the end of the table, not the data.",
        sectors(lacks, SMALL)?
    ))];
    if lacks <= KEPT {
        said.push(Said::Is(
            "An adapter, a RAID controller or a host protected area may reserve such a small area at the \
             end; first check the disk without it."
                .to_owned(),
        ));
    }
    said.push(Said::Is(format!(
        "A copy or download was probably truncated, so repeat it. If only zeros at the end are missing (a \
         sparse file), truncate -s '>{whole}' FILE restores the length of an image. straddle check shows \
         which partitions reach past the end."
    )));
    Some(said)
}

pub(super) fn table_overlap(numbers: &Numbers) -> Option<Vec<Said>> {
    if let Some(blocks) = numbers.get("main") {
        let first = 34_u64.checked_sub(blocks)?;
        return Some(vec![
            Said::Is(format!(
                "With 512-byte sectors, a GPT of 128 entries takes sectors 0 to 33, but the first partition \
                 starts at sector {first}. The partition was created for an MBR, before 1 MiB became the \
                 usual start."
            )),
            Said::Writes(format!(
                "A GPT with {} fewer entries fits; alternatively, move the partition to 1 MiB (straddle \
                 realign).",
                blocks.checked_mul(4)?
            )),
        ]);
    }
    let blocks = numbers.get("backup")?;
    Some(match blocks {
        0 => return None,
        1..=BACKUP => vec![
            Said::Is(format!(
                "A backup GPT takes the last 33 sectors of 512 bytes, or 5 of 4096 bytes; the last partition \
                 overlaps them by {blocks} sectors."
            )),
            Said::Writes(format!(
                "Shrink the file system, then the partition, by {blocks} sectors or more to make room for \
                 the GPT."
            )),
        ],
        _ => vec![Said::Forbids(format!(
            "A backup GPT takes at most 33 sectors of 512 bytes, so the last partition ends {} sectors past \
             the end of the disk. The disk is truncated (S042), or the table uses a different sector size \
             than the disk (S030). Write no table; run straddle check.",
            blocks - BACKUP
        ))],
    })
}

pub(super) fn too_long(numbers: &Numbers) -> Option<Vec<Said>> {
    let maximum = numbers.get("maximum")?;
    let (what, count) = match (numbers.get("length"), numbers.get("start")) {
        (Some(length), _) => ("length", length),
        (None, start) => ("start", start?),
    };
    let size = |sector: u64| Some(bytes(maximum.checked_add(1)?.checked_mul(sector)?));
    if maximum != u64::from(u32::MAX) || count <= maximum {
        return None;
    }
    Some(vec![
        Said::Is(format!(
            "An MBR has 32 bits for a {what}, enough for {} with 512-byte sectors or {} with 4096-byte \
             sectors. {count} is {} more than the maximum.",
            size(SMALL)?,
            size(LARGE)?,
            count - maximum
        )),
        Said::Writes(
            "Create a GPT (straddle plan DISK --table gpt, for a disk without data), or a smaller partition. \
             An MBR partition may also start below sector 2^32 and end past it, but not every system \
             supports that (S046)."
                .to_owned(),
        ),
    ])
}

pub(super) fn beyond_end(numbers: &Numbers) -> Option<Vec<Said>> {
    if let Some((blocks, present)) = numbers.get("blocks").zip(numbers.get("present")) {
        let missing = blocks.checked_sub(present).filter(|missing| *missing > 0)?;
        let why = match is_eightfold(present, blocks) {
            true => "eight times as many, so the table uses a different sector size (S030)",
            false => "the partition or the disk was truncated after the file system was made (S048)",
        };
        return Some(vec![Said::Forbids(format!(
            "The file system has {blocks} blocks, {missing} more than its device; {why}. Do not write to it \
             or repair it before straddle check DISK has shown the cause."
        ))]);
    }
    if let Some(limit) = numbers.get("limit") {
        let end =
            numbers.get("want").or_else(|| numbers.get("sector")?.checked_add(numbers.get("count")?))?;
        let past = end.checked_sub(limit).filter(|past| *past > 0)?;
        return Some(vec![Said::Forbids(format!(
            "The device has {}, and the access ends {past} sectors past the end. Either a file system is \
             longer than its device (S048), or the table was made for a longer disk (S042). Do not write to \
             it or repair it before straddle check DISK has shown the cause.",
            sectors(limit, SMALL)?
        ))]);
    }
    let (what, count) = match numbers.get("size") {
        Some(size) => ("length", size),
        None => ("start", numbers.get("start")?),
    };
    let Some(so) = sectors(count, SMALL).filter(|_| count > 0) else {
        return Some(vec![Said::Is(format!(
            "No disk has {count} sectors, so the number overflowed, or the table is damaged."
        ))]);
    };
    let first = format!(
        "The kernel always counts 512-byte sectors, so this is a {what} of {so}. Compare with blockdev \
         --getsize64 DISK."
    );
    let then = if count.is_multiple_of(8) {
        format!(
            "If the disk has 4096-byte sectors (blockdev --getss DISK), the table says {}. In 512-byte \
             sectors, that would be {}. If this fits the disk, the table was made on a disk or adapter with \
             such sectors (S030), and all data is intact. Otherwise, the disk is truncated (S042). Do not \
             write to it before straddle check DISK has shown the cause.",
            count / 8,
            sectors(count / 8, SMALL)?
        )
    } else {
        "The number is not a multiple of 8, so the disk has 512-byte sectors. The disk is truncated, or \
         something hides its end (S042). Write nothing to it. straddle check DISK shows how much is missing."
            .to_owned()
    };
    Some(vec![Said::Is(first), Said::Forbids(then)])
}

pub(super) fn offset_by(numbers: &Numbers) -> Option<Vec<Said>> {
    let offset = numbers.get("offset").filter(|offset| *offset > 0 && offset.is_multiple_of(SMALL))?;
    if offset >= LARGE {
        let so = if offset.is_multiple_of(LARGE) {
            "The start is aligned to 4096 bytes."
        } else {
            "The start is not a multiple of 4096 either."
        };
        return Some(vec![Said::Is(format!(
            "{offset} is more than a 4096-byte sector. The kernel compares the start with a larger unit, the \
             chunk of an array or the unit of an SSD, which this message does not show (see MIN-IO in lsblk \
             -t). {so} straddle check shows what this costs."
        ))]);
    }
    let past = LARGE - offset;
    let rest = past / SMALL;
    // The first such sector from 34 on, where partitions may start.
    let such = (34..).find(|sector| sector % 8 == rest)?;
    Some(vec![Said::Is(format!(
        "{offset} + {past} = 4096: the start is {past} bytes past a multiple of 4096, like any sector whose \
         number modulo 8 is {rest}, such as {such}. Alternatively, the drive's own boundaries may be shifted \
         (S023)."
    ))])
}

pub(super) fn grain(numbers: &Numbers) -> Option<Vec<Said>> {
    let (start, grain) = (numbers.get("start")?, numbers.positive("grain")?);
    let past = numbers.get("past")?;
    let rest = start % grain;
    if rest == past {
        return None;
    }
    let byte = start.checked_mul(SMALL)?;
    let shifted = start.abs_diff(past) % 8;
    let judged = match (shifted, past) {
        (0, 0) => {
            "a multiple of 4096: aligned for 512e and 4Kn, but not to parted's own grain (S008)".to_owned()
        }
        (0, _) => format!(
            "on a 4096-byte boundary, because the drive's boundaries start at sector {past} (S023), but not \
             on parted's own grain"
        ),
        _ => format!(
            "{} bytes past a 4096-byte boundary: misaligned on a drive with 4096-byte sectors (S001)",
            if start >= past { shifted * SMALL } else { LARGE - shifted * SMALL }
        ),
    };
    let mut said = vec![Said::Is(format!(
        "{start} is {rest} past a multiple of {grain}. With 512-byte sectors, it is at byte {byte}, {judged}."
    ))];
    if !grain.is_multiple_of(8) && grain > 8 {
        said.push(Said::Is(format!(
            "No drive has a grain of {grain} sectors. The number is derived from an impossible optimal I/O \
             size (S021). Specify the start as 1MiB and ignore the message, or use parted -a minimal."
        )));
    } else if grain == MIB / LARGE {
        let aligned = "256 sectors of 4096 bytes are 1 MiB. On such a disk, any start is aligned.";
        said.push(Said::Is(aligned.to_owned()));
    }
    Some(said)
}
