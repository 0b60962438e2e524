//! Numbers of file systems, databases and pools.

use super::{LARGE, Numbers, SMALL, bytes};

/// What keeps the data where a block is smaller than a logical sector.
const KEEP: &str = "Nothing is damaged, and the start does not matter. losetup --find --show -b 512 DEVICE shows it in 512-byte sectors, and \
                    Linux mounts that (util-linux 2.38). For good: a drive or adapter with 512-byte logical sectors, or a copy of the files into a \
                    file system that is made here.";

pub(super) fn too_small(numbers: &Numbers) -> Option<Vec<String>> {
    let block = numbers.get("block").filter(|block| *block > 0)?;
    match numbers.get("device") {
        Some(device) if block < device => Some(vec![
            format!(
                "The device has logical sectors of {device} bytes, the contents count in {block}: Linux reads nothing smaller than a sector, so it does not \
                 mount this here."
            ),
            KEEP.to_owned(),
        ]),
        // The message does not fit its numbers.
        Some(_) => None,
        None if block < LARGE => Some(vec![
            format!(
                "{block} bytes are less than the device's logical sector, which is of 4096 bytes then (blockdev --getss DEVICE): Linux does not mount \
                 this here."
            ),
            KEEP.to_owned(),
        ]),
        None if block > LARGE => Some(vec![format!(
            "{block} bytes are more than a page of memory, 4096 bytes on x86: most kernels do not mount it. It may come from a system with larger pages \
             (some ARM and POWER), where it can be read."
        )]),
        None => Some(vec![format!(
            "{block} bytes are a common size, and smaller than the device's sector only if that is larger still: compare blockdev --getss DEVICE. The \
             number alone decides nothing."
        )]),
    }
}

pub(super) fn ntfs_sectors(numbers: &Numbers) -> Option<Vec<String>> {
    let (block, device) = (numbers.get("block")?, numbers.get("device")?);
    let so = if block < device {
        format!(
            "Linux mounts it if its clusters are of {device} bytes or more, as those of nearly all are (ntfsinfo -m DEVICE)"
        )
    } else {
        "Linux mounts it".to_owned()
    };
    (block != device).then(|| {
        vec![format!(
            "The volume was made for sectors of {block} bytes, and is on a device with {device}: {so}; Windows does not, until it is where its \
             sectors are of {block} bytes again."
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
            "{block} bytes are {} pages of {page}: this kernel does not mount such a file system.",
            block / page
        )]
    })
}

pub(super) fn stripes(numbers: &Numbers) -> Option<Vec<String>> {
    let unit = numbers.get("unit").filter(|unit| *unit > 0);
    if let (Some(unit), Some(maximum)) = (unit, numbers.get("maximum")) {
        return (unit > maximum).then(|| {
            vec![format!(
                "{} is larger than the log's limit, {}: mkfs.xfs takes 32 KiB for the log. Nothing has to be done.",
                bytes(unit),
                bytes(maximum)
            )]
        });
    }
    let width = numbers.get("width")?;
    let said = match (unit, width) {
        (_, 0) => "A width of 0 is that of no array: the device reports none, or sw was left out. Give both, su and sw, or neither.".to_owned(),
        (Some(unit), width) if width.is_multiple_of(unit) => format!(
            "{width} is {} times {unit}: an array of that number of data disks, whatever the unit of the numbers.",
            width / unit
        ),
        (Some(unit), width) => format!(
            "{width} is not a multiple of {unit}: no array has such a stripe, it is a size that an adapter reports (S021), or a mistake in sunit and swidth."
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
            "The vdev has ashift {own} ({configured} bytes), the drive wants {drive} ({native}): writes of less than {native} bytes are \
             read-modify-writes. It stays so until the data are in a pool that is made with -o ashift={drive}."
        ),
        std::cmp::Ordering::Greater => format!(
            "The vdev has ashift {own} ({configured} bytes), the drive needs only {drive} ({native}): it costs some space and no time. Nothing has to be done."
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
            "The redo log has blocks of {block} bytes, and the disk reports sectors of {media} (medium) and {host} (logical): {}.",
            if block > host.max(media) {
                "it came from a disk of 4096, and the new one says 512"
            } else {
                "it came from a disk of 512, and the new one has larger ones"
            }
        )]
    })
}

pub(super) fn moved(numbers: &Numbers) -> Option<Vec<String>> {
    let (was, now) = (numbers.get("was")?, numbers.get("now")?);
    (was < now).then(|| {
        let why = if now > LARGE {
            format!(
                "; {now} is what an NVMe drive reports as its unit, and the server takes 512 and 4096 only"
            )
        } else {
            String::new()
        };
        vec![format!("The file was written for sectors of {was} bytes, and the volume reports {now}{why}.")]
    })
}
