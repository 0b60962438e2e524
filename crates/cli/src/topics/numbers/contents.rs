//! Numbers of file systems, databases and pools.

use crate::topics::numbers::{LARGE, Numbers, SMALL, bytes};

/// What keeps the data where a block is smaller than a logical sector.
const KEEP: &str = "Nothing is damaged, and the start does not matter. losetup --find --show -b 512 DEVICE \
                    presents it with 512-byte sectors, and Linux mounts that (util-linux 2.38). For a \
                    permanent solution, use a drive or adapter with 512-byte logical sectors, or copy the \
                    files to a new file system made here.";

pub(super) fn too_small(numbers: &Numbers) -> Option<Vec<String>> {
    let block = numbers.get("block").filter(|block| *block > 0)?;
    match numbers.get("device") {
        Some(device) if block < device => Some(vec![
            format!(
                "The device has logical sectors of {device} bytes, but the contents count in {block}: \
                 Linux reads nothing smaller than a sector, so it does not mount this here."
            ),
            KEEP.to_owned(),
        ]),
        // The message does not fit its numbers.
        Some(_) => None,
        None if block < LARGE => Some(vec![
            format!(
                "{block} bytes are less than the device's logical sector, which must be 4096 bytes \
                 (blockdev --getss DEVICE): Linux does not mount this here."
            ),
            KEEP.to_owned(),
        ]),
        None if block > LARGE => Some(vec![format!(
            "{block} bytes are more than a page of memory, 4096 bytes on x86: most kernels do not mount it. It may come from a system with larger pages \
             (some ARM and POWER), where it can be read."
        )]),
        None => Some(vec![format!(
            "{block} bytes is a common size, and too small only if the device's logical sector is larger: \
             compare blockdev --getss DEVICE. The number alone decides nothing."
        )]),
    }
}

pub(super) fn ntfs_sectors(numbers: &Numbers) -> Option<Vec<String>> {
    let (block, device) = (numbers.get("block")?, numbers.get("device")?);
    let so = if block < device {
        format!(
            "Linux mounts it if its clusters are of {device} bytes or more, as nearly all are (ntfsinfo -m \
             DEVICE)"
        )
    } else {
        "Linux mounts it".to_owned()
    };
    (block != device).then(|| {
        vec![format!(
            "The volume was made for sectors of {block} bytes, but is on a device with {device}: {so}; \
             Windows does not, until it is on a device whose sectors are of {block} bytes again."
        )]
    })
}

pub(super) fn blocks_too_big(numbers: &Numbers) -> Option<Vec<String>> {
    let block = numbers.get("block").filter(|block| *block > 0)?;
    if let Some(physical) = numbers.get("physical") {
        return (block < physical).then(|| {
            vec![format!(
                "A physical sector of {physical} bytes holds {} of them: each write of a single block is a read-modify-write (S061). Nothing is damaged; \
                 mkfs.ext4 -b {LARGE} is the default from 512 MiB on.",
                physical / block
            )]
        });
    }
    let page = numbers.get("page").unwrap_or(LARGE);
    (block > page && page > 0).then(|| {
        vec![format!(
            "{block} bytes are {} pages of {page} bytes: this kernel does not mount such a file system.",
            block / page
        )]
    })
}

pub(super) fn stripes(numbers: &Numbers) -> Option<Vec<String>> {
    let unit = numbers.get("unit").filter(|unit| *unit > 0);
    if let (Some(unit), Some(maximum)) = (unit, numbers.get("maximum")) {
        return (unit > maximum).then(|| {
            vec![format!(
                "{} is larger than the limit for the log, {}: mkfs.xfs uses 32 KiB for the log. Nothing \
                 has to be done.",
                bytes(unit),
                bytes(maximum)
            )]
        });
    }
    let width = numbers.get("width")?;
    let said = match (unit, width) {
        (_, 0) => "No array has a width of 0: the device reports none, or sw was left out. Give both su \
                   and sw, or neither."
            .to_owned(),
        (Some(unit), width) if width.is_multiple_of(unit) => format!(
            "{width} is {} times {unit}: an array with that number of data disks, whatever the unit of the \
             numbers.",
            width / unit
        ),
        (Some(unit), width) => format!(
            "{width} is not a multiple of {unit}: no array has such a stripe. It is a size that an adapter \
             reports (S021), or a mistake in sunit and swidth."
        ),
        (None, _) => return None,
    };
    Some(vec![said])
}

fn power(size: u64) -> Option<u32> {
    size.is_power_of_two().then(|| size.trailing_zeros())
}

pub(super) fn ashift(numbers: &Numbers) -> Option<Vec<String>> {
    let (configured, native) = (numbers.get("configured")?, numbers.get("native")?);
    let (own, drive) = (power(configured)?, power(native)?);
    let said = match configured.cmp(&native) {
        std::cmp::Ordering::Less => format!(
            "The vdev has ashift {own} ({configured} bytes), but the drive needs {drive} ({native} bytes): \
             writes of less than {native} bytes are read-modify-writes. To change it, move the data to a \
             pool made with -o ashift={drive}."
        ),
        std::cmp::Ordering::Greater => format!(
            "The vdev has ashift {own} ({configured} bytes), but the drive needs only {drive} ({native} \
             bytes): it costs some space and no time. Nothing has to be done."
        ),
        std::cmp::Ordering::Equal => return None,
    };
    Some(vec![said])
}

pub(super) fn oracle(numbers: &Numbers) -> Option<Vec<String>> {
    let (block, media, host) = (numbers.get("block")?, numbers.get("media")?, numbers.get("host")?);
    let known = [SMALL, LARGE].contains(&block) && [SMALL, LARGE].contains(&host);
    (known && block != host.max(media)).then(|| {
        vec![format!(
            "The redo log has blocks of {block} bytes, but the disk reports sectors of {media} (medium) \
             and {host} (logical): {}.",
            if block > host.max(media) {
                "it came from a disk of 4096, and the new one reports 512"
            } else {
                "it came from a disk of 512, and the new one has larger sectors"
            }
        )]
    })
}

pub(super) fn moved(numbers: &Numbers) -> Option<Vec<String>> {
    let (was, now) = (numbers.get("was")?, numbers.get("now")?);
    (was < now).then(|| {
        let why = if now > LARGE {
            format!("; {now} is the unit of an NVMe drive, and the server accepts only 512 and 4096")
        } else {
            String::new()
        };
        vec![format!("The file was written for sectors of {was} bytes, but the volume reports {now}{why}.")]
    })
}
