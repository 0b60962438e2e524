//! Numbers that devices and images report, and those of requests to them.

use straddle_audit::ALL_ONES;

use crate::topics::numbers::{LARGE, MIB, Numbers, SMALL, bytes};

pub(super) fn io_sizes(numbers: &Numbers) -> Option<Vec<String>> {
    let mut said = Vec::new();
    if let (Some(logical), Some(physical)) = (numbers.get("logical"), numbers.get("physical")) {
        said.push(match (logical, physical) {
            (SMALL, SMALL) => {
                "512 / 512: 512n, or a drive, SSD, adapter or image that hides larger sectors (S022). If \
                 in doubt, assume 4096."
                    .to_owned()
            }
            (LARGE, LARGE) => {
                "4096 / 4096: 4Kn, or a drive behind an adapter that presents it so (S030).".to_owned()
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
                format!("Optimal {}: 'no limit', not a boundary (S021).", odd_sectors(optimal))
            }
            _ if minimum > 0 && !optimal.is_multiple_of(minimum) => format!(
                "Optimal {} is not a multiple of the minimum, {minimum}: it is not a boundary (S021).",
                bytes(optimal)
            ),
            _ if minimum == optimal || minimum == 0 => {
                format!("Minimum and optimal are the same: {}.", bytes(optimal))
            }
            _ => format!(
                "Optimal {} is {} times the minimum, {}: the stripe of an array of {} data disks with such \
                 chunks, or the largest transfer that a controller prefers, which is not a boundary. \
                 straddle check says which it is.",
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
    format!("{} is {} sectors of 512, {so}", bytes(size), size / SMALL)
}

pub(super) fn optimal_transfer(numbers: &Numbers) -> Option<Vec<String>> {
    let optimal = numbers.get("optimal").filter(|optimal| *optimal > 0);
    let minimum = numbers.get("minimum").filter(|minimum| *minimum > 0);
    let size = optimal.or(minimum)?;
    let kept = "The kernel ignores it, so tools align to 1 MiB";
    let unit = numbers.get("unit");
    let said = match (unit, numbers.get("page")) {
        (Some(0), _) => "The device did not report its unit (0 bytes): its answers failed or were \
                         truncated. The numbers decide nothing; look for errors of the device in the log."
            .to_owned(),
        (Some(unit), _) if !size.is_multiple_of(unit) => {
            let no_limit =
                if size == ALL_ONES { " It is the adapter's way of saying 'no limit'." } else { "" };
            format!(
                "{}: {} bytes more than a multiple of {unit}.{no_limit} {kept}.",
                odd_sectors(size),
                size % unit
            )
        }
        (None, Some(page)) if size < page => {
            format!("{} is smaller than a page of memory, {page} bytes. {kept}.", bytes(size))
        }
        (None, None) => format!("{}.", odd_sectors(size)),
        _ => return None,
    };
    Some(vec![said])
}

pub(super) fn stacked_start(numbers: &Numbers) -> Option<Vec<String>> {
    if let Some(device) = numbers.get("device").filter(|device| *device > 0) {
        let (what, count) = match numbers.get("sector") {
            Some(sector) => ("begins at", sector),
            None => ("has a length of", numbers.get("length")?),
        };
        let at = count.checked_mul(SMALL)?;
        return (!at.is_multiple_of(device)).then(|| {
            vec![format!(
                "{count} sectors of 512: it {what} {}, {} bytes past a multiple of the device's logical \
                 sector, {device}. The volume was made for sectors of {}: move it to a device with those, \
                 or recreate it with extents of whole sectors (vgcreate -s 4m).",
                bytes(at),
                at % device,
                1_u64 << at.trailing_zeros().min(SMALL.trailing_zeros() + 3)
            )]
        });
    }
    let (at, physical) = (numbers.get("byte")?, numbers.get("physical").filter(|size| *size > 0)?);
    let past = (at % physical + physical - numbers.get("offset").unwrap_or(0) % physical) % physical;
    let said = match past {
        0 => format!(
            "Byte {at} is on a physical sector of {physical}: the start is right. The device below is \
             misaligned (S020), or its optimal I/O size is impossible (S021)."
        ),
        past => format!(
            "Byte {at} of the device is {past} bytes past a physical sector of {physical}{}. For LVM it is \
             where extents start: use pvcreate --dataalignment 1m for the next one; this one stays \
             misaligned until its contents are copied.",
            if at == ALL_ONES { ", and the value that USB bridges report for 'no limit' (S021)" } else { "" }
        ),
    };
    Some(vec![said])
}

pub(super) fn request(numbers: &Numbers) -> Option<Vec<String>> {
    let (offset, length) = (numbers.get("offset")?, numbers.get("length")?);
    let off = |size: u64| match (offset % size, length % size) {
        (0, 0) => None,
        (past, 0) => Some(format!("the offset is {past} bytes past a multiple of {size}")),
        (0, rest) => Some(format!("the length is {rest} bytes past a multiple of {size}")),
        (past, rest) => {
            Some(format!("the offset is {past} bytes past a multiple of {size}, and the length {rest} bytes"))
        }
    };
    let said = match (off(SMALL), off(LARGE)) {
        (Some(what), _) => format!(
            "Offset {offset}, length {length}: {what}. Direct I/O accepts only whole logical sectors, of \
             at least 512 bytes: give bs, offset and the sizes of a range (bsrange, bssplit, kb_base) as \
             multiples of 4096."
        ),
        (None, Some(what)) => format!(
            "Offset {offset}, length {length}: {what}, but both are multiples of 512. So the logical \
             sectors must be 4096 bytes (blockdev --getss DEVICE): use bs=4k and offsets that are \
             multiples of it."
        ),
        (None, None) => format!(
            "Offset {offset} and length {length} are multiples of 4096: sectors are most likely not the \
             reason. Other reasons: a file system without direct I/O, unaligned memory (fio: iomem_align), \
             larger sectors (blockdev --getss DEVICE), a zoned disk."
        ),
    };
    Some(vec![said])
}

pub(super) fn mixed_sectors(numbers: &Numbers) -> Option<Vec<String>> {
    let (one, other) = (numbers.get("one")?, numbers.get("other")?);
    let (small, large) = (one.min(other), one.max(other));
    (small > 0 && small < large && large.is_multiple_of(small)).then(|| {
        vec![format!(
            "Logical sectors of {small} and of {large} bytes. A volume with a segment on each has those of \
             {large}: a file system with smaller blocks or sectors, made on the {small}-byte device, \
             cannot be mounted any more."
        )]
    })
}

pub(super) fn image_size(numbers: &Numbers) -> Option<Vec<String>> {
    let size = numbers.get("size").filter(|size| *size > 0)?;
    let rest = size % MIB;
    let next = size.checked_next_multiple_of(MIB)?;
    Some(vec![if rest == 0 {
        format!("{} is a whole number of MiB: the size is not the reason.", bytes(size))
    } else {
        format!(
            "{} is {rest} bytes more than a whole number of MiB. The next is {next}: grow the raw image to it (qemu-img resize -f raw disk.raw \
             {next}) and convert again with force_size, which keeps the size; without it qemu-img 7.2 rounds up to cylinders.",
            bytes(size)
        )
    }])
}
