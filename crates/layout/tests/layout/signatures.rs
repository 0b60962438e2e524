//! Constructed signatures of contents for which no mkfs is available, and the names of types.

use crate::tests::common;
#[path = "common/volume.rs"]
mod volume;

use common::{NTFS, put, read};
use straddle_layout::{PartitionType, TableKind, types};

/// An offset and the bytes there.
type Write<'a> = (usize, &'a [u8]);

/// The name of the content of a medium of 128 KiB with these bytes.
fn content(writes: &[Write<'_>]) -> Option<&'static str> {
    let mut image = vec![0; 128 << 10];
    for (at, bytes) in writes {
        put(&mut image, *at, bytes);
    }
    match read(&image).kind {
        TableKind::Content(content) => Some(content.name()),
        TableKind::None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_signature_has_its_name() {
    const MD: &[u8] = b"\xFC\x4E\x2B\xA9\x01\0\0\0";
    let pv = volume::plain_pv("");
    let known: [(&str, &[Write<'_>]); 24] = [
        ("linux_raid_member", &[(0, MD)]),
        ("linux_raid_member", &[(4096, MD), (4096 + 144, &[8])]),
        ("LVM2_member", &[(512, &pv[512..1024])]),
        ("crypto_LUKS", &[(0, b"LUKS\xBA\xBE\x00\x01")]),
        ("crypto_LUKS", &[(0, b"LUKS\xBA\xBE\x00\x02")]),
        ("xfs", &[(0, b"XFSB\x00\x00\x02\x00")]),
        ("squashfs", &[(0, b"hsqs"), (28, &[4])]),
        ("f2fs", &[(1024, b"\x10\x20\xF5\xF2")]),
        ("erofs", &[(1024, b"\xE2\xE1\xF5\xE0"), (1036, &[12])]),
        ("ext2", &[(1024, &[1]), (1080, b"\x53\xEF"), (1024 + 0x60, &[2])]),
        ("ext3", &[(1024, &[1]), (1080, b"\x53\xEF"), (1024 + 0x5C, &[4]), (1024 + 0x60, &[6])]),
        ("ext4", &[(1024, &[1]), (1080, b"\x53\xEF"), (1024 + 0x5C, &[4]), (1024 + 0x60, &[0x40])]),
        ("ext4", &[(1024, &[1]), (1080, b"\x53\xEF"), (1024 + 0x64, &[0x10])]),
        ("swap", &[(4086, b"SWAPSPACE2"), (1024, &[1]), (1028, &[9])]),
        ("swap", &[(16374, b"SWAPSPACE2")]),
        ("swap", &[(32758, b"SWAP-SPACE")]),
        ("swap", &[(65526, b"SWAPSPACE2")]),
        (
            "ntfs",
            &[
                (0, NTFS),
                (0x28, &[0xFF]),
                (0x40, &[0xF6]),
                (510, b"\x55\xAA"),
                (8192, b"FILE"),
                (11264, b"FILE"),
            ],
        ),
        ("jfs", &[(32768, b"JFS1"), (32768 + 17, &[0x10]), (32768 + 20, &[12])]),
        ("iso9660", &[(32768, b"\x01CD001\x01")]),
        ("btrfs", &[(65536 + 64, b"_BHRfS_M")]),
        ("reiserfs", &[(65536 + 52, b"ReIsEr2Fs")]),
        ("reiser4", &[(65536, b"ReIsEr4")]),
        // A member takes precedence over what it mirrors.
        ("linux_raid_member", &[(0, b"XFSB\x00\x00\x02\x00"), (4096, MD), (4096 + 144, &[8])]),
    ];
    for (name, writes) in known {
        assert_eq!(content(writes), Some(name), "{writes:?}");
    }
    let unconfirmed: [&[Write<'_>]; 10] = [
        // A label with a wrong checksum or in another place than it records; a boot sector without its file
        // table.
        &[(512, &pv[512..1024]), (900, &[1])],
        &[(1024, &pv[512..1024])],
        &[(0, NTFS), (0x28, &[0xFF]), (0x40, &[0xF6]), (8192, b"FILE")],
        &[(0, MD), (144, &[8])],
        &[(4096, MD)],
        &[(0, b"LUKS\xBA\xBE\x00\x03")],
        &[(0, b"XFSB\x00\x00\x02\x01")],
        &[(1080, b"\x53\xEF")],
        &[(4086, b"SWAPSPACE2")],
        &[(1030, b"\x34\x34")],
    ];
    for writes in unconfirmed {
        assert_eq!(content(writes), None, "{writes:?}");
    }
}

/// The kernel's crc32_le, computed bit by bit.
fn crc32_le(mut crc: u32, bytes: &[u8]) -> u32 {
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    crc
}

#[test]
fn a_nilfs2_is_known_by_its_crc() {
    let mut superblock = vec![0x5A; 280];
    put(&mut superblock, 6, b"\x34\x34");
    put(&mut superblock, 8, &280u16.to_le_bytes());
    put(&mut superblock, 12, &0x1234_5678u32.to_le_bytes());
    put(&mut superblock, 16, &[0; 4]);
    let sum = crc32_le(0x1234_5678, &superblock);
    put(&mut superblock, 16, &sum.to_le_bytes());
    assert_eq!(content(&[(1024, &superblock)]), Some("nilfs2"));
    superblock[100] ^= 1;
    assert_eq!(content(&[(1024, &superblock)]), None);
}

#[test]
fn types_have_names_and_texts() {
    assert_eq!(types::guid_text(common::LINUX), "0FC63DAF-8483-4772-8E79-3D69D8477DE4");
    assert_eq!(types::name(&PartitionType::Guid(common::LINUX)), Some("Linux filesystem"));
    assert_eq!(types::name(&PartitionType::Guid([0; 16])), None);
    assert_eq!(types::name(&PartitionType::Mbr(0x83)), Some("Linux"));
    // An entry of type 0 with a size is a partition, by sfdisk's name of the type.
    assert_eq!(types::name(&PartitionType::Mbr(0x00)), Some("Empty"));
    // Type 0x13 is nobody's.
    assert_eq!(types::name(&PartitionType::Mbr(0x13)), None);
    assert_eq!(types::name(&PartitionType::Unknown), None);
    assert_eq!((types::mbr_text(0x0C), types::mbr_text(0x83)), ("c".to_owned(), "83".to_owned()));
    let extended: Vec<u8> = (0..=255).filter(|id| types::is_extended(*id)).collect();
    assert_eq!(extended, [0x05, 0x0F, 0x85]);
}
