//! MBR tables, chains of EBRs, and structures that only look like an MBR.

#![allow(clippy::cast_possible_truncation, reason = "the images are small and built here")]

use crate::tests::common;

use common::{
    NTFS, Synthetic, byte, listed, mbr, mbr_entry, names, put, put_fat, put_xfs, read, read_as, sign,
};
use straddle_layout::{
    Evidence, FsKind, MAX_PARTITIONS, PartitionType, Problem, Role, Structure, TableKind, other_sectors,
    read_stack,
};
use straddle_units::{BlockSize, ByteOffset, Lba, MIB, Span};

const B512: Option<BlockSize> = Some(BlockSize::B512);
const B4096: Option<BlockSize> = Some(BlockSize::B4096);

fn image(mebibytes: usize, entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut image = vec![0; mebibytes << 20];
    put(&mut image, 0, &mbr(entries));
    image
}

/// Writes an EBR at LBA `at` of `block` bytes, with its own partition and its link.
fn ebr(image: &mut [u8], block: usize, at: usize, own: (u8, u32, u32), link: (u32, u32)) {
    mbr_entry(image, at * block, 0, own.0, own.1, own.2);
    if link.1 != 0 {
        mbr_entry(image, at * block, 1, 5, link.0, link.1);
    }
    sign(image, at * block);
}

#[test]
fn primary_entries_keep_their_slots() {
    let mut image = image(16, &[(0x83, 2048, 2048), (0, 4096, 10), (0x82, 0, 0), (0x0C, 8192, 1024)]);
    image[446] = 0x80;
    put_xfs(&mut image, 1 << 20);
    let stack = read(&image);
    assert_eq!((&stack.kind, stack.block, stack.problems.len()), (&TableKind::Mbr, BlockSize::B512, 0));
    assert_eq!(listed(&stack), [(1, 2048, 2048), (2, 4096, 10), (4, 8192, 1024)]);
    assert_eq!(stack.disk_id, [1, 2, 3, 4]);
    assert_eq!(stack.partitions[0].content, Some(FsKind::Xfs.into()));
    assert!(stack.partitions[0].attributes.bootable && !stack.partitions[1].attributes.bootable);
    assert_eq!(stack.partitions[1].kind, PartitionType::Mbr(0));
    assert_eq!(stack.partitions[2].kind, PartitionType::Mbr(0x0C));
}

#[test]
fn logical_partitions_are_numbered_from_five_in_every_container() {
    let mut image = image(32, &[(5, 2048, 8192), (0x83, 12288, 2048), (0x0F, 20480, 8192)]);
    ebr(&mut image, 512, 2048, (0x83, 63, 1000), (4096, 2048));
    ebr(&mut image, 512, 2048 + 4096, (0x82, 2048, 100), (2048, 1024));
    ebr(&mut image, 512, 2048 + 2048, (0x83, 1, 100), (0, 0));
    ebr(&mut image, 512, 20480, (0x83, 8, 8), (0, 0));
    let stack = read(&image);
    assert_eq!(stack.problems, []);
    assert_eq!(
        listed(&stack),
        [
            (1, 2048, 8192),
            (2, 12288, 2048),
            (3, 20480, 8192),
            (5, 2111, 1000),
            (6, 8192, 100),
            (7, 4097, 100),
            (8, 20488, 8),
        ]
    );
    assert_eq!(stack.partitions[0].role, Role::Extended);
    assert_eq!(stack.partitions[4].role, Role::Logical { ebr: Lba::new(6144) });
}

#[test]
fn a_start_and_count_may_pass_32_bits() {
    let sector = mbr(&[(0x83, u32::MAX, u32::MAX)]);
    for (block, len) in [(512, 1u64 << 43), (65536, 1 << 50)] {
        let medium = common::counted(sector.clone(), len);
        let stack = read_stack(&medium, BlockSize::new(block).ok(), None).expect("readable");
        let expected =
            Span::new(ByteOffset::new(u64::from(u32::MAX) * block), stack.partitions[0].span.len());
        assert_eq!(Some(stack.partitions[0].span), expected);
        assert_eq!(stack.partitions[0].span.end().get(), 2 * u64::from(u32::MAX) * block);
        assert_eq!(stack.problems, []);
    }
}

/// As the kernel does, an entry of type 0 with a size counts, also in a record, and alone.
#[test]
fn only_an_entry_without_a_size_is_empty() {
    let mut disk = image(32, &[(5, 2048, 8192), (0, 12288, 2048)]);
    ebr(&mut disk, 512, 2048, (0, 2048, 1000), (4096, 4096));
    ebr(&mut disk, 512, 2048 + 4096, (0x83, 2048, 100), (0, 0));
    put_xfs(&mut disk, 12288 * 512);
    let stack = read(&disk);
    assert_eq!(listed(&stack), [(1, 2048, 8192), (2, 12288, 2048), (5, 4096, 1000), (6, 8192, 100)]);
    assert_eq!((stack.partitions[1].content, &stack.problems[..]), (Some(FsKind::Xfs.into()), &[][..]));
    let alone = image(8, &[(0, 2048, 100), (0, 0, 0)]);
    assert_eq!((read(&alone).kind, listed(&read(&alone))), (TableKind::Mbr, vec![(1, 2048, 100)]));
}

/// A record of one logical partition in another, in itself or in a primary one, and the MBR in a partition.
#[test]
fn a_table_that_lies_in_its_own_partitions_is_reported() {
    let inside = |number, what, at: usize| Problem::TableInside { number, what, at: byte(at * 512) };
    let table = |first: (u8, u32, u32), second: usize, own: (u8, u32, u32)| {
        let mut disk = image(32, &[(5, 2048, 40_960)]);
        let link = u32::try_from(second - 2048).unwrap_or(0);
        ebr(&mut disk, 512, 2048, first, (link, 8192));
        ebr(&mut disk, 512, second, own, (0, 0));
        read(&disk).problems
    };
    assert_eq!(table((0x83, 2048, 8000), 12_288, (0x83, 2048, 100)), []);
    for record in [4096, 5000, 12_095] {
        let problems = table((0x83, 2048, 8000), record, (0x83, 10_000, 100));
        assert_eq!(problems, [inside(5, Structure::Record, record)], "{record}");
    }
    assert_eq!(table((0x83, 2048, 100), 12_288, (0x83, 0, 100)), [inside(6, Structure::Record, 12_288)]);
    // The first record stays where the container begins, whichever partition is there.
    assert_eq!(table((0x83, 0, 100), 12_288, (0x83, 8, 8)), [inside(5, Structure::Record, 2048)]);
    for kind in [0, 0x83] {
        assert_eq!(read(&image(8, &[(kind, 0, 100)])).problems, [inside(1, Structure::Mbr, 0)]);
    }
    let mut primary = image(32, &[(0x83, 2048, 8192), (5, 10_240, 8192)]);
    ebr(&mut primary, 512, 10_240, (0x83, 8, 8), (0, 0));
    assert_eq!(read(&primary).problems, []);
}

/// Tables of magneto-optical disks and of cards for cameras, in sectors of other sizes.
#[test]
fn rare_sectors_show_in_what_the_partitions_hold() {
    for (size, start) in [(1024_u32, 63_u32), (2048, 16), (2048, 63), (4096, 63)] {
        let blocks = (32 << 20) / size;
        let mut disk = image(32, &[(6, start, blocks - start)]);
        let medium = common::counted(disk.clone(), 32 << 20);
        let assumed = read(&disk);
        assert_eq!((assumed.block, assumed.block_found), (BlockSize::B512, false));
        let other = other_sectors(&medium, &assumed).expect("readable").expect("it ends with the medium");
        assert_eq!((other.size.get(), other.evidence), (u64::from(size), Evidence::End));
        put_ext(&mut disk, (start * size) as usize, (blocks - start) * size / 4096, 0);
        let stack = read(&disk);
        assert_eq!((stack.block.get(), stack.block_found), (u64::from(size), true), "{size}");
        assert!(stack.partitions[0].content.is_some(), "{size}");
    }
    // What current tools make of a part of the disk is as it seems.
    let part = image(32, &[(0x83, 2048, 14_336)]);
    assert_eq!(
        other_sectors(&common::counted(part.clone(), 32 << 20), &read(&part)).expect("readable"),
        None
    );
}

#[test]
fn a_chain_that_bites_its_tail_is_read_once() {
    for link in [0, 1024, 2048] {
        let mut image = image(8, &[(5, 2048, 8192)]);
        ebr(&mut image, 512, 2048, (0x83, 1, 1), (1024, 100));
        ebr(&mut image, 512, 2048 + 1024, (0x83, 1, 1), (2048, 100));
        ebr(&mut image, 512, 2048 + 2048, (0x83, 1, 1), (link, 100));
        let stack = read(&image);
        assert_eq!(stack.problems, [Problem::EbrLoop { at: byte(4096 * 512) }], "{link}");
        assert_eq!(stack.partitions.len(), 4);
    }
    // A link to the MBR is a loop.
    assert_eq!(names(&read(&image(8, &[(5, 0, 8192)])).problems), ["EbrLoop"]);
}

#[test]
fn links_and_partitions_outside_the_container_are_followed_on_the_disk_only() {
    let mut disk = image(16, &[(5, 2048, 4096)]);
    ebr(&mut disk, 512, 2048, (0x83, 1, 1), (8192, 100));
    ebr(&mut disk, 512, 2048 + 8192, (0x83, 16, 16), (u32::MAX, 100));
    let stack = read(&disk);
    assert_eq!(listed(&stack), [(1, 2048, 4096), (5, 2049, 1), (6, 10256, 16)]);
    let (first, second) = (byte(2048 * 512), byte(10240 * 512));
    let far = ByteOffset::new((u64::from(u32::MAX) + 2048) * 512);
    assert_eq!(
        stack.problems,
        [
            Problem::EbrOutOfRange { at: first, to: second },
            Problem::EbrOutOfRange { at: second, to: byte(10256 * 512) },
            Problem::EbrOutOfRange { at: second, to: far },
        ]
    );
    let cut = read(&disk[..1 << 20]);
    let lost = Problem::OutOfRange { number: 1, at: first };
    assert_eq!(cut.problems, [Problem::EbrOutOfRange { at: ByteOffset::ZERO, to: first }, lost]);
}

#[test]
fn an_unsigned_ebr_ends_the_chain() {
    let mut image = image(8, &[(5, 2048, 8192), (0x83, 12288, 100)]);
    ebr(&mut image, 512, 2048, (0x83, 1, 1), (1024, 100));
    let stack = read(&image);
    assert_eq!(stack.problems, [Problem::EbrBadSignature { at: byte(3072 * 512) }]);
    assert_eq!(stack.partitions.len(), 3);
}

#[test]
fn garbage_in_the_third_entry_of_an_ebr_is_not_a_partition() {
    let mut image = image(8, &[(5, 2048, 8192)]);
    ebr(&mut image, 512, 2048, (0x83, 1, 1), (0, 0));
    mbr_entry(&mut image, 2048 * 512, 2, 0x41, 0x4242_4242, 0x4343_4343);
    mbr_entry(&mut image, 2048 * 512, 3, 0x83, 100, 10);
    let stack = read(&image);
    assert_eq!(listed(&stack), [(1, 2048, 8192), (5, 2049, 1), (6, 2148, 10)]);
    assert_eq!(stack.problems, []);
}

#[test]
fn a_chain_of_a_million_costs_a_thousand_reads() {
    // Every block but the first is an EBR that links to the second block after it.
    let medium = Synthetic::new(1 << 40, |at, buf: &mut [u8]| {
        buf.fill(0);
        for (sector, number) in buf.chunks_mut(512).zip(at / 512..) {
            if sector.len() == 512 {
                match number {
                    0 => sector.copy_from_slice(&mbr(&[(5, 2, u32::MAX)])),
                    _ => {
                        mbr_entry(sector, 0, 0, 0x83, 1, 1);
                        mbr_entry(sector, 0, 1, 5, u32::try_from(number).unwrap_or(u32::MAX), 2);
                        sign(sector, 0);
                    }
                }
            }
        }
    });
    let stack = read_stack(&medium, None, None).expect("readable");
    assert_eq!(stack.partitions.len(), 1 + MAX_PARTITIONS);
    let first_unread = byte((2 + 2 * MAX_PARTITIONS) * 512);
    assert!(
        stack.problems.contains(&Problem::TooManyPartitions { at: first_unread }),
        "{:?}",
        stack.problems
    );
    // One read per record, except those in the head; a few for each of the sixteen partitions whose contents
    // are identified; eighteen for content beside the table; and four for a GPT in sectors of 1024 or 2048 bytes.
    assert!(medium.reads() <= MAX_PARTITIONS + 22, "{} reads", medium.reads());
}

#[test]
fn the_block_size_shows_in_what_the_partitions_hold() {
    // Nothing recognised in either place: 512 is assumed.
    let mut disk = image(32, &[(0x83, 256, 1024), (0x82, 2048, 1024)]);
    let stack = read(&disk);
    assert_eq!((stack.block, stack.block_found), (BlockSize::B512, false));
    // Content at 2048 * 4096.
    put_xfs(&mut disk, 8 << 20);
    let stack = read(&disk);
    assert_eq!((stack.block, stack.block_found, stack.problems.len()), (BlockSize::B4096, true, 0));
    assert_eq!(stack.partitions[1].content, Some(FsKind::Xfs.into()));
    assert_eq!(stack.partitions[0].span.start(), ByteOffset::new(MIB));
    let stack = read_as(&disk, B512, None);
    let expected =
        Problem::OtherBlockSize { table: BlockSize::B4096, device: BlockSize::B512, at: byte(8 << 20) };
    assert_eq!(
        (stack.block, stack.block_found, &stack.problems[..]),
        (BlockSize::B4096, true, &[expected][..])
    );
    assert_eq!(read_as(&disk, B4096, None).problems, []);
    assert_eq!(read_as(&disk, None, B512).block, BlockSize::B512);
    // With content at 256 * 512 too, the smaller size is taken.
    put_xfs(&mut disk, 256 * 512);
    let stack = read(&disk);
    assert_eq!((stack.block, stack.block_found), (BlockSize::B512, true));
    let stack = read_as(&disk, B4096, None);
    assert_eq!((stack.block, stack.problems.len()), (BlockSize::B4096, 0));
}

/// Nothing is recognised: what is on the disk only in smaller sectors was made for these.
#[test]
fn a_table_that_fits_the_disk_only_in_smaller_sectors_counts_in_these() {
    let sectors = 32 * (1 << 20) / 512;
    for (start, count, block) in [
        (2048, 1024, BlockSize::B4096),
        (2048, sectors / 8 - 2048, BlockSize::B4096),
        (2048, sectors / 8 - 2047, BlockSize::B512),
        (2048, sectors - 2048, BlockSize::B512),
        // In neither.
        (2048, sectors - 2047, BlockSize::B4096),
    ] {
        let stack = read_as(&image(32, &[(0x83, 256, 512), (0x83, start, count)]), B4096, None);
        assert_eq!(stack.block, block, "{start} {count}");
        let expected =
            Problem::OtherBlockSize { table: BlockSize::B512, device: BlockSize::B4096, at: byte(0x1CE) };
        assert_eq!(stack.problems == [expected], block == BlockSize::B512, "{:?}", stack.problems);
        assert_eq!(read_as(&image(32, &[(0x83, start, count)]), None, B4096).block, BlockSize::B4096);
    }
}

/// Writes the superblock of an ext4 with `count` blocks of 4 KiB, in block group `group`.
fn put_ext(image: &mut [u8], at: usize, count: u32, group: u16) {
    let fields = [(0, 16), (4, count), (0x18, 2), (0x60, 0x42)];
    fields.iter().for_each(|(field, value)| put(image, at + 1024 + field, &u32::to_le_bytes(*value)));
    put(image, at + 1024 + 0x38, b"\x53\xEF");
    put(image, at + 1024 + 0x5A, &group.to_le_bytes());
}

/// Contents from before the table are not evidence of its sector size: two partitions that are misaligned by
/// one sector, with content where the first would be in sectors of 4096 bytes.
#[test]
fn what_is_left_over_shows_no_block_size() {
    // Content at 2048 * 4096, for a partition of 1024 sectors of 4 KiB, and whether it is evidence.
    type Make = fn(&mut [u8], usize);
    let left: [(Make, bool); 10] = [
        (|image, at| put_ext(image, at, 1024, 0), true),
        (|image, at| put_ext(image, at, 1020, 0), true),
        (|image, at| put_ext(image, at, 1024, 1), false),
        (|image, at| put_ext(image, at, 1025, 0), false),
        (|image, at| put_ext(image, at, 12800, 0), false),
        // It leaves half of its partition free, as resized ones and written images do.
        (|image, at| put_ext(image, at, 500, 0), true),
        // A file system with sectors of 512 bytes cannot be mounted on a disk with larger ones.
        (put_fat, false),
        (
            |image, at| {
                put_xfs(image, at);
                put(image, at + 8, &12800_u64.to_be_bytes());
            },
            false,
        ),
        (
            |image, at| {
                put(image, at + 0x1_0040, b"_BHRfS_M");
                put(image, at + 0x1_0030, &0x1_0000_u64.to_le_bytes());
                put(image, at + 0x1_00D1, &(50_u64 << 20).to_le_bytes());
            },
            false,
        ),
        (put_luks, true),
    ];
    for (number, (make, is_found)) in left.into_iter().enumerate() {
        let mut disk = image(24, &[(0x83, 2048, 1024), (0x83, 4097, 1024)]);
        make(&mut disk, 8 << 20);
        for device in [None, B512] {
            let stack = read_as(&disk, device, None);
            assert_eq!(
                (stack.block == BlockSize::B4096, stack.block_found),
                (is_found, is_found),
                "{number}"
            );
        }
        // Unknown data in the second partition, at a place that is free in the other size.
        let mut used = disk.clone();
        put(&mut used, 4097 * 512, &[0x5A; 4096]);
        assert_eq!(read(&used).block, BlockSize::B512, "{number}");
        // In the larger size the table is invalid: the second partition is past the end, or overlaps the
        // first.
        for second in [16000, 2049] {
            let mut other = disk.clone();
            put(&mut other, 0, &mbr(&[(0x83, 2048, 1024), (0x83, second, 1024)]));
            assert_eq!(read(&other).block, BlockSize::B512, "{number}, {second}");
        }
        // Content in the second partition that by its own account does not belong there.
        let mut both = disk.clone();
        put_ext(&mut both, 4097 * 4096, 77, 3);
        assert_eq!(read(&both).block, BlockSize::B512, "{number}");
    }
}

/// Content that leaves space in its partition shows in which sectors the table counts, from either side, and so does
/// content of no recorded size whose data are at the assumed start; data that no partition of the other size has do not.
#[test]
fn short_contents_show_the_block_size() {
    for (true_block, device) in [(512, B4096), (4096, B512)] {
        let at = 2048 * true_block;
        let short: [fn(&mut [u8], usize); 2] = [|image, at| put_ext(image, at, 500, 0), put_luks];
        for make in short {
            let mut disk = image(24, &[(0x83, 2048, if true_block == 512 { 18432 } else { 1024 })]);
            make(&mut disk, at);
            let stack = read_as(&disk, device, None);
            assert_eq!(stack.block.bytes().get(), true_block as u64, "{true_block}");
            assert_eq!(stack.problems.len(), 1, "{true_block}");
        }
    }
    // Sectors of 512 bytes: the start in the larger ones is inside the partition, and written.
    let mut disk = image(24, &[(0x83, 2048, 18432)]);
    put_luks(&mut disk, 1 << 20);
    put(&mut disk, 8 << 20, &[0x5A; 4096]);
    assert_eq!(read_as(&disk, B4096, None).block, BlockSize::B512);
    // Sectors of 4096 bytes, with unknown data at the start, which in the smaller ones no partition has.
    let mut disk = image(24, &[(0x83, 2048, 1024)]);
    put_luks(&mut disk, 1 << 20);
    put(&mut disk, 8 << 20, &[0x5A; 4096]);
    assert_eq!(read_as(&disk, B4096, None).block, BlockSize::B4096);
}

fn put_luks(image: &mut [u8], at: usize) {
    put(image, at, b"LUKS\xBA\xBE\0\x01");
}

/// A file system's boot sector at the start of a container is not an extended boot record.
#[test]
fn a_boot_sector_is_no_extended_boot_record() {
    let mut disk = image(64, &[(5, 256, 8192)]);
    put_fat(&mut disk, 1 << 20);
    assert_eq!(read(&disk).block, BlockSize::B512);
}

#[test]
fn an_ebr_shows_the_block_size_too() {
    let mut disk = image(64, &[(5, 256, 8192)]);
    ebr(&mut disk, 4096, 256, (0x83, 256, 256), (512, 512));
    ebr(&mut disk, 4096, 768, (0x83, 256, 256), (0, 0));
    let stack = read(&disk);
    assert_eq!((stack.block, stack.block_found, stack.problems.len()), (BlockSize::B4096, true, 0));
    assert_eq!(listed(&stack), [(1, 256, 8192), (5, 512, 256), (6, 1024, 256)]);
}

#[test]
fn boot_sectors_are_no_tables() {
    let mut fat = vec![0; 4 << 20];
    put_fat(&mut fat, 0);
    assert_eq!(read(&fat).kind, TableKind::Content(FsKind::Vfat.into()));
    // Boot code in place of the entries, with and without plausible status bytes.
    put(&mut fat, 446, &[0x20; 64]);
    assert_eq!(read(&fat).kind, TableKind::Content(FsKind::Vfat.into()));
    put(&mut fat, 446, &[0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    put(&mut fat, 462, &[0; 48]);
    assert_eq!(read(&fat).kind, TableKind::Content(FsKind::Vfat.into()));
    // Possible entries count if content is found in a partition: Windows and Linux both read such sticks.
    put(&mut fat, 446, &[0; 16]);
    mbr_entry(&mut fat, 0, 0, 0x0C, 2048, 2048);
    assert_eq!(read(&fat).kind, TableKind::Content(FsKind::Vfat.into()));
    put_fat(&mut fat, 2048 * 512);
    assert_eq!((read(&fat).kind, read(&fat).partitions.len()), (TableKind::Mbr, 1));

    let mut ntfs = vec![0; 1 << 20];
    put(&mut ntfs, 0, NTFS);
    ntfs[0x28] = 0xFF;
    ntfs[0x40] = 0xF6;
    put(&mut ntfs, 8192, b"FILE");
    put(&mut ntfs, 8192 + 3 * 1024, b"FILE");
    sign(&mut ntfs, 0);
    assert_eq!(read(&ntfs).kind, TableKind::Content(FsKind::Ntfs.into()));
    let mut exfat = vec![0; 1 << 20];
    put(&mut exfat, 0, b"\xEB\x76\x90EXFAT   ");
    exfat[108] = 9;
    sign(&mut exfat, 0);
    assert_eq!(read(&exfat).kind, TableKind::Content(FsKind::Exfat.into()));
    let mut bitlocker = vec![0; 1 << 20];
    put(&mut bitlocker, 0, b"\xEB\x58\x90-FVE-FS-\x00\x02\x08");
    sign(&mut bitlocker, 0);
    assert!(matches!(read(&bitlocker).kind, TableKind::Content(content) if content.name() == "BitLocker"));
}

#[test]
fn an_empty_table_is_a_table_and_a_wrong_status_is_none() {
    let empty = image(1, &[]);
    assert_eq!((read(&empty).kind, read(&empty).problems.len()), (TableKind::Mbr, 0));
    let mut wrong = image(1, &[(0x83, 100, 100)]);
    wrong[462] = 0x7F;
    assert_eq!(read(&wrong).kind, TableKind::None);
}

#[test]
fn overlapping_primaries_are_reported_and_containers_are_not() {
    let mut disk = image(16, &[(0x83, 2048, 4096), (5, 4096, 8192), (0x83, 20480, 20480)]);
    ebr(&mut disk, 512, 4096, (0x83, 2048, 100), (0, 0));
    let problems = read(&disk).problems;
    assert_eq!(
        problems,
        [
            Problem::OutOfRange { number: 3, at: byte(16 << 20) },
            Problem::Overlap { first: 1, second: 2, at: byte(4096 * 512) },
        ]
    );
}
