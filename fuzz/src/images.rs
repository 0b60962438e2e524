//! Image containers: a file of patches is opened as an image that may not open other files, and its disk is
//! read.

use std::path::Path;

use straddle_device::Medium;
use straddle_device::image::{Access, Allowed, Format, Image, Opened, StoredAt, open};
use straddle_units::{ByteCount, ByteOffset};

use crate::{Disk, audit};

/// Bytes read at each place.
const READ: u64 = 8192;

fn opened(disk: &Disk) -> Option<Box<Image>> {
    let allowed = Allowed::default();
    let access = Access::new(Path::new("/nonexistent/an image"), &allowed);
    match open(Box::new(disk.clone()), &access) {
        Ok(Opened::Image(image)) => Some(image),
        Ok(Opened::Raw(_)) => None,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// Opens an image of `format`, reads it at several places, and audits the contents of its disk. Returns
/// whether the input has that format and is therefore worth keeping.
pub fn image(data: &[u8], format: Format) -> bool {
    let Some(mut disk) = Disk::decode(data) else { return false };
    disk.mend_image();
    if Format::detect(&disk).ok() != Some(format) {
        return false;
    }
    let Some(image) = opened(&disk) else { return true };
    let container = image.container();
    assert_eq!(container.format, format);
    assert_eq!(container.virtual_size, image.len());
    assert!(i64::try_from(image.len().get()).is_ok(), "a disk of {:?}", image.len());
    let placement = &container.placement;
    assert!(placement.units() + placement.compressed() <= 1024);
    assert!(placement.alignment().is_none_or(|size| size.get().is_power_of_two()));
    for power in 9..=20 {
        let size = ByteCount::new(1 << power);
        let below = placement.first_below(size);
        assert_eq!(below.is_some(), placement.alignment().is_some_and(|alignment| alignment < size));
        assert!(below.is_none_or(|placed| placed.guest.get() < image.len().get()));
    }
    for remark in image.remarks() {
        assert!(!remark.is_empty() && !remark.contains(char::is_control), "{remark:?}");
    }
    if let Some(sectors) = image.sectors() {
        assert!(sectors.physical.get().is_power_of_two(), "{sectors:?}");
    }
    for at in places(&image, disk.choice) {
        check_place(&disk, &image, at);
    }
    let mut past = [0; 2];
    let last = ByteOffset::new(image.len().get().saturating_sub(1));
    assert!(image.read_at(last, &mut past).is_err());
    assert!(image.read_at(ByteOffset::new(u64::MAX), &mut past).is_err());
    if let Ok(stack) = straddle_layout::read_all(image.as_ref(), image.sectors().map(|s| s.logical), None) {
        audit::check_stack(&stack);
        audit::in_container(&stack, container, disk.choice);
    }
    true
}

/// Places of the disk worth reading: its two ends, and both sides of the container's block boundaries.
fn places(image: &Image, choice: u8) -> Vec<u64> {
    let (len, block) = (image.len().get(), image.container().block.get());
    let spread = len / 256 * u64::from(choice);
    let mut places = vec![0, 511, len / 2, spread, len.saturating_sub(READ), len.saturating_sub(1)];
    places.extend([block, block.wrapping_sub(1), block.wrapping_mul(3).wrapping_sub(256)]);
    places.extend(block.checked_mul(512));
    places.retain(|at| *at < len);
    places
}

/// Asserts that the bytes at a place are those of the file at the reported offset, or zeros if there is none.
fn check_place(disk: &Disk, image: &Image, at: u64) {
    let left = image.len().get() - at;
    let mut bytes = vec![0x5a; usize::try_from(left.min(READ)).expect("it is small")];
    let read = image.read_at(ByteOffset::new(at), &mut bytes);
    let Ok((place, run)) = image.place(ByteOffset::new(at)) else {
        assert!(read.is_err(), "byte {at} is nowhere, and can be read");
        return;
    };
    assert!(run > ByteCount::ZERO && run.get() <= left, "a run of {run:?} at byte {at}");
    let here = usize::try_from(run.get()).unwrap_or(usize::MAX).min(bytes.len());
    if read.is_err() {
        return;
    }
    match place {
        StoredAt::Host { file: 0, at: host } => {
            let mut there = vec![0; here];
            disk.read_at(ByteOffset::new(host), &mut there).expect("it was read through the image");
            assert!(bytes[..here] == there, "byte {at} is not what stands at {host:?}");
        }
        StoredAt::Zero => assert!(bytes[..here].iter().all(|byte| *byte == 0)),
        StoredAt::Host { .. } => panic!("no other file may be opened"),
        StoredAt::Packed(_) | StoredAt::Below => {}
    }
}

/// Everything that is read of an input, for a program that minimises inputs without changing this.
pub fn image_says(data: &[u8]) -> String {
    let Some(mut disk) = Disk::decode(data) else { return String::new() };
    disk.mend_image();
    let Some(image) = opened(&disk) else { return "not opened".to_owned() };
    let mut said = format!("{:?} {:?} {:?}", image.container(), image.sectors(), image.remarks());
    for at in places(&image, 0) {
        let mut bytes = [0; 16];
        let left = usize::try_from((image.len().get() - at).min(16)).unwrap_or(0);
        let read = image.read_at(ByteOffset::new(at), &mut bytes[..left]).is_ok();
        said += &format!(" {read} {bytes:?}");
    }
    said
}
