//! Numbers that devices and images report, those of requests to them, and of the contents: file systems,
//! databases, pools.

use straddle_audit::ALL_ONES;

use crate::topics::numbers::{LARGE, MIB, Numbers, SMALL, bytes};

pub(super) fn io_sizes(numbers: &Numbers) -> Option<Vec<String>> {
    let mut said = Vec::new();
    if let (Some(logical), Some(physical)) = (numbers.get("logical"), numbers.get("physical")) {
        said.push(match (logical, physical) {
            (SMALL, SMALL) => {
                "512 / 512: 512n, or a drive, SSD, adapter or image that hides larger sectors (S022). If in \
                 doubt, assume 4096-byte sectors."
                    .to_owned()
            }
            (LARGE, LARGE) => {
                "4096 / 4096: 4Kn, or a drive behind an adapter that makes it look like one (S030)."
                    .to_owned()
            }
            (SMALL, LARGE) => "512 / 4096: 512e. Starts at multiples of 8 sectors are aligned.".to_owned(),
            (logical, physical) if logical == 0 || physical < logical => {
                format!("{logical} / {physical}: no device has such sectors.")
            }
            (logical, physical) if physical.is_multiple_of(logical) => {
                format!(
                    "{logical} / {physical}: starts at multiples of {} sectors are aligned.",
                    physical / logical
                )
            }
            (logical, physical) => format!(
                "{logical} / {physical}: neither is a multiple of the other; no device has such sectors."
            ),
        });
    }
    if let (Some(minimum), Some(optimal)) = (numbers.get("minimum"), numbers.get("optimal")) {
        said.push(match optimal {
            0 => format!("Minimum {minimum}; no optimal size is reported."),
            ALL_ONES => {
                format!(
                    "Optimal {}: this means 'no limit' and is not a boundary (S021).",
                    odd_sectors(optimal)
                )
            }
            _ if minimum > 0 && !optimal.is_multiple_of(minimum) => format!(
                "Optimal {} is not a multiple of the minimum, {minimum}: it is not a boundary (S021).",
                bytes(optimal)
            ),
            _ if minimum == optimal || minimum == 0 => {
                format!("Minimum and optimal are the same: {}.", bytes(optimal))
            }
            _ => format!(
                "Optimal {} is {} times the minimum, {}: the stripe of an array of {} data disks with chunks \
                 of the minimum size, or the largest transfer that a controller prefers, which is not a \
                 boundary. straddle check says which it is.",
                bytes(optimal),
                optimal / minimum,
                bytes(minimum),
                optimal / minimum,
            ),
        });
    }
    Some(said)
}

fn odd_sectors(size: u64) -> String {
    let past = size % LARGE;
    let so = if past == 0 {
        "a multiple of 4096".to_owned()
    } else {
        format!("{past} bytes past a multiple of 4096")
    };
    format!("{} is {} 512-byte sectors, {so}", bytes(size), size / SMALL)
}

pub(super) fn optimal_transfer(numbers: &Numbers) -> Option<String> {
    let size = numbers.positive("optimal").or_else(|| numbers.positive("minimum"))?;
    let kept = "The kernel ignores it, so tools align to 1 MiB";
    Some(match (numbers.get("unit"), numbers.get("page")) {
        (Some(0), _) => {
            "The device did not report its unit (0 bytes): its replies failed or were truncated. \
                         The numbers mean nothing; look for device errors in the log."
                .to_owned()
        }
        (Some(unit), _) if !size.is_multiple_of(unit) => {
            let no_limit = if size == ALL_ONES { " It is how the adapter says 'no limit'." } else { "" };
            format!(
                "{}: {} bytes more than a multiple of {unit}.{no_limit} {kept}.",
                odd_sectors(size),
                size % unit
            )
        }
        (None, Some(page)) if size < page => {
            format!("{} is smaller than a memory page ({page} bytes). {kept}.", bytes(size))
        }
        (None, None) => format!("{}.", odd_sectors(size)),
        _ => return None,
    })
}

pub(super) fn stacked_start(numbers: &Numbers) -> Option<String> {
    if let Some(device) = numbers.positive("device") {
        let (what, count) = match numbers.get("sector") {
            Some(sector) => ("begins at", sector),
            None => ("has a length of", numbers.get("length")?),
        };
        let at = count.checked_mul(SMALL)?;
        return (!at.is_multiple_of(device)).then(|| {
            format!(
                "{count} 512-byte sectors: it {what} {}, {} bytes past a multiple of the device's logical \
                 sector, {device}. The volume was made for {}-byte sectors: move it to a device with such \
                 sectors, or recreate it with extents of whole sectors (vgcreate -s 4m).",
                bytes(at),
                at % device,
                1_u64 << at.trailing_zeros().min(SMALL.trailing_zeros() + 3)
            )
        });
    }
    let (at, physical) = (numbers.get("byte")?, numbers.positive("physical")?);
    let past = (at % physical + physical - numbers.get("offset").unwrap_or(0) % physical) % physical;
    Some(match past {
        0 => format!(
            "Byte {at} is on a {physical}-byte physical sector boundary, so the start is right. The device \
             below is misaligned (S020), or its optimal I/O size is impossible (S021)."
        ),
        past => format!(
            "Byte {at} of the device is {past} bytes past a {physical}-byte physical sector boundary{}. For \
             LVM, extents start there: use pvcreate --dataalignment 1m for the next physical volume; this \
             one remains misaligned until its contents are copied.",
            if at == ALL_ONES { ", and the value that USB bridges report for 'no limit' (S021)" } else { "" }
        ),
    })
}

pub(super) fn request(numbers: &Numbers) -> Option<String> {
    let (offset, length) = (numbers.get("offset")?, numbers.get("length")?);
    let off = |size: u64| match (offset % size, length % size) {
        (0, 0) => None,
        (past, 0) => Some(format!("the offset is {past} bytes past a multiple of {size}")),
        (0, rest) => Some(format!("the length is {rest} bytes past a multiple of {size}")),
        (past, rest) => {
            Some(format!("the offset is {past} bytes past a multiple of {size}, and the length {rest} bytes"))
        }
    };
    Some(match (off(SMALL), off(LARGE)) {
        (Some(what), _) => format!(
            "Offset {offset}, length {length}: {what}. Direct I/O accepts only whole logical sectors, which \
             are at least 512 bytes. Set bs, offset and the range sizes (bsrange, bssplit, kb_base) to \
             multiples of 4096."
        ),
        (None, Some(what)) => format!(
            "Offset {offset}, length {length}: {what}, but both are multiples of 512. So the logical sectors \
             must be 4096 bytes (blockdev --getss DEVICE): use bs=4k, and offsets that are multiples of 4 \
             KiB."
        ),
        (None, None) => format!(
            "Offset {offset} and length {length} are multiples of 4096, so sectors are probably not the \
             reason. Other possible reasons: a file system without direct I/O, unaligned memory (fio: \
             iomem_align), larger sectors (blockdev --getss DEVICE), a zoned disk."
        ),
    })
}

pub(super) fn mixed_sectors(numbers: &Numbers) -> Option<String> {
    let (one, other) = (numbers.get("one")?, numbers.get("other")?);
    let (small, large) = (one.min(other), one.max(other));
    (small > 0 && small < large && large.is_multiple_of(small)).then(|| {
        format!(
            "The devices have {small}-byte and {large}-byte logical sectors. A volume with segments on both \
             has {large}-byte sectors, so a file system with smaller blocks or sectors that was created on \
             the {small}-byte device can no longer be mounted."
        )
    })
}

pub(super) fn image_size(numbers: &Numbers) -> Option<String> {
    let size = numbers.positive("size")?;
    let rest = size % MIB;
    let next = size.checked_next_multiple_of(MIB)?;
    Some(if rest == 0 {
        format!("{} is a whole number of MiB, so the size is not the reason.", bytes(size))
    } else {
        format!(
            "{} is {rest} bytes more than a whole number of MiB. The next one is {next}. Grow the raw image \
             to that size (qemu-img resize -f raw disk.raw {next}), and convert it again with force_size, \
             which keeps the size; without it, qemu-img 7.2 rounds up to cylinders.",
            bytes(size)
        )
    })
}

/// What keeps the data where a block is smaller than a logical sector.
const KEEP: &str = "Nothing is damaged, and the start does not matter. losetup --find --show -b 512 DEVICE \
                    presents the device with 512-byte sectors, which Linux can mount (util-linux 2.38). \
                    For a permanent solution, use a drive or adapter with 512-byte logical sectors, or copy \
                    the files to a new file system created here.";

pub(super) fn too_small(numbers: &Numbers) -> Option<Vec<String>> {
    let block = numbers.positive("block")?;
    match numbers.get("device") {
        Some(device) if block < device => Some(vec![
            format!(
                "The device has {device}-byte logical sectors, but the contents use {block}-byte blocks: \
                 Linux reads nothing smaller than a sector, so it cannot mount this here."
            ),
            KEEP.to_owned(),
        ]),
        // The message does not fit its numbers.
        Some(_) => None,
        None if block < LARGE => Some(vec![
            format!(
                "{block} bytes are less than the device's logical sector, which must be 4096 bytes (blockdev \
                 --getss DEVICE): Linux cannot mount this here."
            ),
            KEEP.to_owned(),
        ]),
        None if block > LARGE => Some(vec![format!(
            "{block} bytes are more than a memory page (4096 bytes on x86): most kernels cannot mount it. It \
             may come from a system with larger pages (some ARM and POWER machines), which can read it."
        )]),
        None => Some(vec![format!(
            "{block} bytes is a common size, and too small only if the device's logical sector is larger: \
             compare blockdev --getss DEVICE. The number alone is not conclusive."
        )]),
    }
}

pub(super) fn ntfs_sectors(numbers: &Numbers) -> Option<String> {
    let (block, device) = (numbers.get("block")?, numbers.get("device")?);
    let so = if block < device {
        format!(
            "Linux mounts it if its clusters are at least {device} bytes, as nearly all are (ntfsinfo -m \
             DEVICE)"
        )
    } else {
        "Linux mounts it".to_owned()
    };
    (block != device).then(|| {
        format!(
            "The volume was made for {block}-byte sectors, but is on a device with {device}-byte ones: {so}; \
             Windows does not, until the volume is on a device with {block}-byte sectors again."
        )
    })
}

pub(super) fn blocks_too_big(numbers: &Numbers) -> Option<String> {
    let block = numbers.positive("block")?;
    if let Some(physical) = numbers.get("physical") {
        return (block < physical).then(|| {
            format!(
                "A {physical}-byte physical sector holds {} blocks, so each write of a single block is a \
                 read-modify-write (S061). Nothing is damaged. From 512 MiB on, mkfs.ext4 uses -b {LARGE} by \
                 default.",
                physical / block
            )
        });
    }
    let page = numbers.get("page").unwrap_or(LARGE);
    (block > page && page > 0).then(|| {
        format!(
            "{block} bytes are {} pages of {page} bytes: this kernel cannot mount such a file system.",
            block / page
        )
    })
}

pub(super) fn stripes(numbers: &Numbers) -> Option<String> {
    let unit = numbers.positive("unit");
    if let (Some(unit), Some(maximum)) = (unit, numbers.get("maximum")) {
        return (unit > maximum).then(|| {
            format!(
                "{} is larger than the limit for the log, {}: mkfs.xfs uses 32 KiB for the log. You need not \
                 do anything.",
                bytes(unit),
                bytes(maximum)
            )
        });
    }
    let width = numbers.get("width")?;
    Some(match (unit, width) {
        (_, 0) => "No array has a width of 0: the device reports none, or sw is missing. Give both su and \
                   sw, or neither."
            .to_owned(),
        (Some(unit), width) if width.is_multiple_of(unit) => format!(
            "{width} is {} times {unit}: an array with that number of data disks, whatever unit the numbers \
             are in.",
            width / unit
        ),
        (Some(unit), width) => format!(
            "{width} is not a multiple of {unit}: no array has such a stripe. An adapter reports this size \
             (S021), or sunit and swidth are wrong."
        ),
        (None, _) => return None,
    })
}

pub(super) fn ashift(numbers: &Numbers) -> Option<String> {
    let (configured, native) = (numbers.get("configured")?, numbers.get("native")?);
    let power = |size: u64| size.is_power_of_two().then(|| size.trailing_zeros());
    let (own, drive) = (power(configured)?, power(native)?);
    Some(match configured.cmp(&native) {
        std::cmp::Ordering::Less => format!(
            "The vdev has ashift {own} ({configured} bytes), but the drive needs {drive} ({native} bytes): \
             writes of less than {native} bytes are read-modify-writes. To change that, move the data to a \
             pool created with -o ashift={drive}."
        ),
        std::cmp::Ordering::Greater => format!(
            "The vdev has ashift {own} ({configured} bytes), but the drive needs only {drive} ({native} \
             bytes): this costs some space and no time. You need not do anything."
        ),
        std::cmp::Ordering::Equal => return None,
    })
}

pub(super) fn oracle(numbers: &Numbers) -> Option<String> {
    let (block, media, host) = (numbers.get("block")?, numbers.get("media")?, numbers.get("host")?);
    let known = [SMALL, LARGE].contains(&block) && [SMALL, LARGE].contains(&host);
    (known && block != host.max(media)).then(|| {
        format!(
            "The redo log has {block}-byte blocks, but the disk reports sectors of {media} (medium) and \
             {host} (logical) bytes: {}.",
            if block > host.max(media) {
                "it comes from a disk with 4096-byte sectors, and the new one reports 512"
            } else {
                "it comes from a disk with 512-byte sectors, and the new one has larger sectors"
            }
        )
    })
}

pub(super) fn moved(numbers: &Numbers) -> Option<String> {
    let (was, now) = (numbers.get("was")?, numbers.get("now")?);
    (was < now).then(|| {
        let why = if now > LARGE {
            format!("; {now} is the unit of an NVMe drive, and the server accepts only 512 and 4096")
        } else {
            String::new()
        };
        format!("The file was written for {was}-byte sectors, but the volume reports {now}{why}.")
    })
}
