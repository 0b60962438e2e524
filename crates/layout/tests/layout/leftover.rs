//! Remains of a PV or an NTFS are recognised exactly if blkid recognises them, with each relevant byte
//! damaged in turn.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;
#[path = "common/volume.rs"]
mod volume;

use std::os::unix::fs::FileExt;

use common::tools::{Image, run};
use straddle_layout::{FsKind, TableKind, beside};
use volume::{group, plain_pv};

/// blkid's TYPE of an image; empty if it recognises nothing, `None` if blkid is not installed.
fn blkid(image: &Image) -> Option<String> {
    // blkid fails if it recognises nothing, which is a valid answer here.
    let line = "blkid -p -o value -s TYPE \"$0\" || :";
    run("blkid", &["-V"], &image.0, "")?;
    run("sh", &["-c", line], &image.0, "").map(|said| said.trim().to_owned())
}

fn ours(image: &Image) -> &'static str {
    match image.stack(None).kind {
        TableKind::Content(content) => content.name(),
        _ => "",
    }
}

fn flip(image: &Image, at: u64, with: u8) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&image.0).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ with], at).unwrap();
}

/// Damages each of `places` in turn; returns how many times the image was still a `name`.
fn damage(image: &Image, name: &str, places: impl IntoIterator<Item = u64>) -> usize {
    let mut kept = 0;
    for at in places {
        for with in [0x01, 0x10, 0xFF] {
            flip(image, at, with);
            let Some(theirs) = blkid(image) else { return 0 };
            assert_eq!(ours(image) == name, theirs == name, "byte {at}, {with:#x}: {} {theirs}", ours(image));
            kept += usize::from(theirs == name);
            flip(image, at, with);
        }
    }
    assert_eq!(ours(image), name);
    kept
}

#[test]
fn a_pv_is_one_where_its_label_is_whole() {
    let image = Image::new("leftover-pv", 2 << 20);
    std::fs::write(&image.0, plain_pv(&group(""))).unwrap();
    let label = [0, 7, 8, 16, 20, 24, 31, 32, 63, 64, 200, 511].map(|at| 512 + at);
    assert_eq!(damage(&image, "LVM2_member", label), 0);
}

#[test]
fn an_ntfs_is_one_where_its_file_table_is() {
    let image = Image::new("leftover-ntfs", 20 << 20);
    if run("mkfs.ntfs", &["-qFf"], &image.0, "").is_none() || blkid(&image).is_none() {
        return;
    }
    // The boot sector, and the first records at cluster 4.
    let table = 4 * 4096;
    // blkid accepts sectors of 768 bytes, which do not exist.
    let places = (3..12).chain(13..0x18).chain(0x20..0x24).chain(0x28..0x41);
    let kept = damage(&image, "ntfs", places.chain([table, table + 3, table + 100, table + 3 * 1024]));
    // Some of these bytes do not affect what it is.
    assert!(kept > 3, "{kept}");
}

/// A table beside a boot sector alone: the content is not NTFS, whatever the first bytes of the sector are.
#[test]
fn a_boot_sector_without_its_file_system_is_not_reported_beside_a_table() {
    let image = Image::new("leftover-boot", 20 << 20);
    if run("mkfs.ntfs", &["-qFf"], &image.0, "").is_none() {
        return;
    }
    let table = "label: dos\nstart=2048, size=8192\n";
    let sfdisk = ["-q", "--wipe", "never", "IMAGE"];
    if run("sfdisk", &sfdisk, &image.0, table).is_none() {
        return;
    }
    let leftovers = |image: &Image| -> Vec<&str> {
        let found = beside(&image.medium(), &image.stack(None)).unwrap();
        found.iter().map(|found| found.name()).collect()
    };
    assert_eq!(
        (image.stack(None).kind, leftovers(&image)),
        (TableKind::Content(FsKind::Ntfs.into()), vec!["dos"])
    );
    // With content in the partition, the table counts instead.
    let content = Image::new("leftover-content", 4 << 20);
    if run("mkswap", &["-q"], &content.0, "").is_none() {
        return;
    }
    let file = std::fs::OpenOptions::new().write(true).open(&image.0).unwrap();
    file.write_all_at(&std::fs::read(&content.0).unwrap(), 2048 * 512).unwrap();
    assert_eq!((image.stack(None).kind, leftovers(&image)), (TableKind::Mbr, vec!["ntfs"]));
    // Its file table has been overwritten.
    file.write_all_at(&[0x5A; 4096], 4 * 4096).unwrap();
    assert_eq!(leftovers(&image), [""; 0]);
    if let Some(theirs) = blkid(&image) {
        assert_eq!(theirs, "");
    }
}
