//! GUID partition tables: both block sizes, both copies, and all disagreements between them.

use crate::tests::common;

use common::{Gpt, byte, counted, listed, mbr_entry, names, put, put_fat, put_xfs, read, read_as};
use straddle_layout::{
    FsKind, MAX_PARTITIONS, PartitionType, Problem, Role, Structure, TableKind, read_stack,
};
use straddle_units::{BlockSize, ByteCount, Lba, MIB};

const B512: Option<BlockSize> = Some(BlockSize::B512);
const B4096: Option<BlockSize> = Some(BlockSize::B4096);

#[test]
fn a_good_table_in_either_block_size_is_read_without_a_problem() {
    for block in [512, 4096] {
        let gpt = Gpt::sample(block);
        let mut image = gpt.build();
        put_xfs(&mut image, 4 << 20);
        let stack = read(&image);
        assert_eq!(
            (&stack.kind, stack.block.get(), stack.block_found),
            (&TableKind::Gpt, block as u64, true)
        );
        assert_eq!(stack.problems, []);
        let mib = MIB / block as u64;
        assert_eq!(listed(&stack), [(1, mib, mib), (2, 4 * mib, mib)]);
        assert_eq!(stack.disk_id, [0xD1; 16]);
        let usable = stack.usable.expect("a GPT has one");
        assert_eq!(usable.start(), byte((2 + gpt.array_blocks()) * block));
        assert_eq!(usable.end(), byte(gpt.backup_array_lba() * block));
        let second = &stack.partitions[1];
        assert_eq!((second.span.start(), second.span.len()), (byte(4 << 20), ByteCount::new(MIB)));
        assert_eq!((second.role, second.kind), (Role::Primary, PartitionType::Guid(common::LINUX)));
        assert_eq!(second.attributes.guid, Some([2; 16]));
        assert_eq!(second.attributes.name, "part 2 é");
        assert_eq!((stack.partitions[0].content, second.content), (None, Some(FsKind::Xfs.into())));
    }
}

#[test]
fn a_declared_block_size_is_not_found() {
    let stack = read_as(&Gpt::sample(4096).build(), B4096, None);
    assert_eq!((stack.block, stack.block_found), (BlockSize::B4096, false));
    assert_eq!(stack.problems, []);
}

#[test]
fn unusual_block_sizes_and_entry_sizes_work() {
    for block in [1024, 2048, 8192, 65536] {
        let image = Gpt::sample(block).build();
        let size = BlockSize::new(block as u64).ok();
        assert_eq!(read_as(&image, size, None).problems, [], "{block}");
        assert_eq!(read_as(&image, None, size).partitions.len(), 2, "{block}");
    }
    for (count, entry_size) in [(256, 128), (64, 256), (16, 4096), (20, 136), (4, 128)] {
        let stack = read(&Gpt { count, entry_size, ..Gpt::sample(512) }.build());
        assert_eq!((stack.partitions.len(), stack.problems.len()), (2, 0), "{count} x {entry_size}");
    }
}

#[test]
fn a_device_with_a_table_for_the_other_block_size_is_reported_so() {
    let image = Gpt::sample(4096).build();
    let stack = read_as(&image, B512, None);
    assert_eq!((stack.block, stack.block_found, stack.partitions.len()), (BlockSize::B4096, true, 2));
    let expected =
        Problem::OtherBlockSize { table: BlockSize::B4096, device: BlockSize::B512, at: byte(4096) };
    assert_eq!(stack.problems, std::slice::from_ref(&expected));

    let forced = read_as(&image, B512, B4096);
    assert_eq!((forced.block_found, forced.partitions.len()), (false, 2));
    assert_eq!(forced.problems, [expected]);

    let refused = read_as(&image, None, B512);
    assert_eq!((refused.partitions.len(), &refused.kind), (0, &TableKind::Mbr));
    assert_eq!(refused.problems, [Problem::ProtectiveWithoutGpt { at: byte(512) }]);
}

#[test]
fn a_damaged_primary_gives_way_to_the_backup() {
    let gpt = Gpt::sample(512);
    // One byte of each kind of header field, then bytes of the array at LBA 2.
    for at in [512, 520, 524, 528, 536, 544, 552, 560, 568, 584, 592, 596, 600, 1024, 1056, 1024 + 16383] {
        let mut image = gpt.build();
        image[at] ^= 0x40;
        let stack = read(&image);
        let expected_at = byte(if at < 1024 { 512 } else { 1024 });
        assert_eq!(names(&stack.problems), ["GptPrimaryDamaged"], "byte {at}");
        assert!(
            has_problem!(stack, Problem::GptPrimaryDamaged { at, .. } if *at == expected_at),
            "byte {at}"
        );
        assert_eq!(stack.partitions.len(), 2, "byte {at}");
    }
}

#[test]
fn a_damaged_backup_is_reported_at_its_byte() {
    let gpt = Gpt::sample(4096);
    for (lba, offset) in [(gpt.backup_lba(), 24), (gpt.backup_array_lba(), 32)] {
        let mut image = gpt.build();
        image[lba * 4096 + offset] ^= 1;
        let stack = read(&image);
        assert_eq!(names(&stack.problems), ["GptBackupDamaged"]);
        assert!(has_problem!(stack, Problem::GptBackupDamaged { at, .. } if *at == byte(lba * 4096)));
        assert_eq!(stack.partitions.len(), 2);
    }
}

#[test]
fn both_copies_damaged_is_unusable_but_still_a_gpt() {
    let gpt = Gpt::sample(512);
    let mut image = gpt.build();
    image[512 + 24] ^= 1;
    image[gpt.backup_lba() * 512 + 24] ^= 1;
    let stack = read(&image);
    assert_eq!((&stack.kind, stack.partitions.len()), (&TableKind::Gpt, 0));
    assert_eq!(names(&stack.problems), ["GptUnusable"]);
}

#[test]
fn a_grown_and_a_shrunk_disk_are_distinguished() {
    let gpt = Gpt::sample(512);
    let image = gpt.build();
    let (old_end, at) = (image.len(), byte(gpt.backup_lba() * 512));

    let mut grown = image.clone();
    grown.resize(old_end + (4 << 20), 0);
    let expected = byte(grown.len() - 512);
    assert_eq!(read(&grown).problems, [Problem::GptBackupMisplaced { at, expected }]);
    // If the primary is gone too, the backup is found where the primary's remains point.
    grown[512 + 40] ^= 1;
    let stack = read(&grown);
    assert_eq!(names(&stack.problems), ["GptPrimaryDamaged", "GptBackupMisplaced"]);
    assert_eq!(stack.partitions.len(), 2);

    let stack = read(&image[..old_end - 512]);
    assert_eq!(stack.problems, [Problem::GptPastEnd { at }]);
    let stack = read(&image[..(4 << 20) + 512]);
    let lost = Problem::OutOfRange { number: 2, at: byte((4 << 20) + 512) };
    assert_eq!(stack.problems, [Problem::GptPastEnd { at }, lost]);
    let stack = read(&image[..3 << 20]);
    assert!(stack.problems.contains(&Problem::OutOfRange { number: 2, at: byte(4 << 20) }));
    assert_eq!(stack.partitions.len(), 2);
}

#[test]
fn good_copies_that_differ_are_compared_byte_by_byte() {
    let gpt = Gpt::sample(512);
    let mut image = gpt.build();
    let entry = gpt.backup_array_lba() * 512 + 128;
    image[entry + 40] ^= 1;
    gpt.seal(&mut image, gpt.backup_lba());
    assert_eq!(read(&image).problems, [Problem::GptCopiesDiffer { at: byte(entry + 40) }]);

    let mut image = gpt.build();
    image[gpt.backup_lba() * 512 + 56] ^= 1;
    gpt.seal(&mut image, gpt.backup_lba());
    assert_eq!(read(&image).problems, [Problem::GptCopiesDiffer { at: byte(gpt.backup_lba() * 512) }]);
}

#[test]
fn bad_entries_and_overlaps_do_not_hide_the_rest() {
    let mut gpt = Gpt::sample(512);
    gpt.entries.extend([
        (3, 5000, 4000),
        (4, 0, u64::MAX),
        (5, 8192, 8300),
        (7, u64::MAX / 512, u64::MAX / 512 + 1),
    ]);
    let stack = read(&gpt.build());
    assert_eq!(stack.partitions.iter().map(|p| p.number).collect::<Vec<_>>(), [1, 2, 5]);
    assert_eq!(names(&stack.problems), ["BadEntry", "BadEntry", "BadEntry", "Overlap"]);
    assert!(has_problem!(stack, Problem::BadEntry { number: 3, at, .. } if *at == byte(1024 + 256)));
    assert!(stack.problems.contains(&Problem::Overlap { first: 2, second: 5, at: byte(8192 * 512) }));
}

#[test]
fn overlaps_are_capped_and_neighbours_are_none() {
    let mut gpt = Gpt::sample(512);
    gpt.entries = (1..=100).map(|n| (n, 2048, 4095)).collect();
    assert_eq!(read(&gpt.build()).problems.len(), 16);
    gpt.entries = (1..=100).map(|n| (n, 2048 + n as u64, 2048 + n as u64)).collect();
    assert_eq!(read(&gpt.build()).problems, []);
}

#[test]
fn absurd_arrays_are_damage() {
    let gpt = Gpt::sample(512);
    for (count, size, why) in [
        (u32::MAX, 128, "too large"),
        (u32::MAX, u32::MAX - 7, "entries of"),
        (1 << 16 | 1, 128, "too large"),
        (1 << 16, 128, "past the end"),
        (0, 128, "no entries"),
        (128, 0, "entries of"),
        (128, 120, "entries of"),
        (128, 132, "entries of"),
        (1, 1 << 20, "entries of"),
    ] {
        let mut image = gpt.build();
        put(&mut image, 512 + 80, &count.to_le_bytes());
        put(&mut image, 512 + 84, &size.to_le_bytes());
        gpt.seal_header(&mut image, 1);
        let stack = read(&image);
        assert!(
            has_problem!(stack, Problem::GptPrimaryDamaged { why: said, .. } if said.contains(why)),
            "{count} x {size}: {:?}",
            stack.problems
        );
        assert_eq!(stack.partitions.len(), 2);
    }
    for array_lba in [u64::MAX, u64::MAX / 512, gpt.blocks as u64 - 3] {
        let mut image = gpt.build();
        put(&mut image, 512 + 72, &array_lba.to_le_bytes());
        gpt.seal_header(&mut image, 1);
        assert!(
            has_problem!(read(&image), Problem::GptPrimaryDamaged { why, .. } if why.contains("past the end"))
        );
    }
}

#[test]
fn a_large_array_is_read_and_cut_at_the_limit() {
    let gpt = Gpt {
        blocks: 64 * 2048,
        count: 1 << 15,
        entries: (1..=2000).map(|n| (n * 3, 40000 + n as u64, 40000 + n as u64)).collect(),
        ..Gpt::sample(512)
    };
    let stack = read(&gpt.build());
    assert_eq!(stack.partitions.len(), MAX_PARTITIONS);
    let first_left_out = 1024 + (3 * (MAX_PARTITIONS + 1) - 1) * 128;
    assert_eq!(stack.problems, [Problem::TooManyPartitions { at: byte(first_left_out) }]);
}

#[test]
fn linux_rules_about_the_mbr_are_followed() {
    let gpt = Gpt::sample(512);
    let mut hybrid = gpt.build();
    mbr_entry(&mut hybrid, 0, 1, 0x83, 2048, 2048);
    let stack = read(&hybrid);
    assert_eq!((&stack.kind, stack.partitions.len(), stack.problems.len()), (&TableKind::HybridMbr, 2, 0));

    // An entry without a type is for firmware alone.
    let mut marked = gpt.build();
    mbr_entry(&mut marked, 0, 1, 0, 0, 1);
    assert_eq!((read(&marked).kind, read(&marked).problems.len()), (TableKind::Gpt, 0));

    let mut stale = gpt.build();
    mbr_entry(&mut stale, 0, 0, 0x83, 2048, 2048);
    let stack = read(&stale);
    assert_eq!(stack.kind, TableKind::Mbr);
    assert_eq!(stack.problems, [Problem::NoProtectiveMbr { at: byte(446) }]);
    assert_eq!(listed(&stack), [(1, 2048, 2048)]);
    let mut optical = stale.clone();
    put(&mut optical, 32 * 1024 + 1, b"CD001");
    assert_eq!(read(&optical).problems, []);
    // What is left of a GPT is not a table.
    for header in [512, stale.len() - 512] {
        let mut left = stale.clone();
        put(&mut left, header, &[0; 512]);
        let stack = read(&left);
        assert_eq!((&stack.kind, stack.problems.len()), (&TableKind::Mbr, 0));
    }

    let mut unsigned = gpt.build();
    put(&mut unsigned, 510, &[0, 0]);
    let stack = read(&unsigned);
    assert_eq!((&stack.kind, stack.partitions.len()), (&TableKind::Gpt, 2));
    assert_eq!(stack.problems, [Problem::NoProtectiveMbr { at: byte(510) }]);

    let mut emptied = gpt.build();
    put(&mut emptied, 446, &[0; 16]);
    assert_eq!(read(&emptied).problems, [Problem::NoProtectiveMbr { at: byte(446) }]);

    let mut shifted = gpt.build();
    mbr_entry(&mut shifted, 0, 0, 0xEE, 2, 100);
    let stack = read(&shifted);
    assert_eq!(
        (stack.partitions.len(), &stack.problems[..]),
        (2, &[Problem::NoProtectiveMbr { at: byte(446) }][..])
    );

    let mut reformatted = gpt.build();
    put(&mut reformatted, 446, &[0; 64]);
    put_fat(&mut reformatted, 0);
    assert_eq!(read(&reformatted).kind, TableKind::Content(FsKind::Vfat.into()));
}

/// A partition over a copy of the table, or over the MBR, in both sector sizes.
#[test]
fn a_gpt_in_its_own_partitions_is_reported() {
    for block in [512, 4096] {
        let sample = Gpt::sample(block);
        let (blocks, array) = (sample.blocks as u64, sample.array_blocks() as u64);
        let backup = blocks - 1 - array;
        let cases = [
            ((2 + array, backup - 1), None),
            ((0, 0), Some((Structure::Mbr, 0))),
            ((1, 1), Some((Structure::Gpt, 1))),
            ((1 + array, 5 + array), Some((Structure::Gpt, 1 + array))),
            ((backup - 9, backup), Some((Structure::BackupGpt, backup))),
            ((blocks - 1, blocks - 1), Some((Structure::BackupGpt, blocks - 1))),
        ];
        for ((first, last), expected) in cases {
            let gpt = Gpt { entries: vec![(1, first, last)], ..Gpt::sample(block) };
            let inside = expected.map(|(what, at)| Problem::TableInside {
                number: 1,
                what,
                at: byte(usize::try_from(at).unwrap_or(0) * block),
            });
            let found: Vec<Problem> = inside.into_iter().collect();
            assert_eq!(read(&gpt.build()).problems, found, "{block}: {first} to {last}");
        }
    }
}

#[test]
fn a_protective_mbr_alone_lists_nothing() {
    let mut image = vec![0; 8 << 20];
    put(&mut image, 0, &common::mbr(&[(0xEE, 1, 16383)]));
    let stack = read(&image);
    assert_eq!((&stack.kind, stack.partitions.len()), (&TableKind::Mbr, 0));
    assert_eq!(stack.problems, [Problem::ProtectiveWithoutGpt { at: byte(512) }]);
    let stack = read_as(&image, B4096, None);
    assert_eq!(stack.problems, [Problem::ProtectiveWithoutGpt { at: byte(4096) }]);
    put_xfs(&mut image, 0);
    assert_eq!(read(&image).kind, TableKind::Content(FsKind::Xfs.into()));
}

#[test]
fn of_two_valid_tables_the_one_that_fits_the_end_is_taken() {
    // A 4096-byte table, with the stale 512-byte header of a smaller disk inside its first block.
    let (old, new) =
        (Gpt { blocks: 2 * 2048, entries: vec![(1, 100, 200)], ..Gpt::sample(512) }, Gpt::sample(4096));
    let mut image = new.build();
    let old_image = old.build();
    put(&mut image, 512, &old_image[512..1024]);
    // To be valid, the stale table needs its array: it is placed in a hole of the new table.
    put(&mut image, 6 << 20, &old_image[1024..1024 + 16384]);
    put(&mut image, 512 + 72, &((6u64 << 20) / 512).to_le_bytes());
    old.seal(&mut image, 1);
    let stack = read(&image);
    assert_eq!((stack.block, stack.partitions.len()), (BlockSize::B4096, 2));
    assert_eq!(read_as(&image, B512, None).block, BlockSize::B512);
    assert_eq!(read_as(&image, B4096, None).problems, []);
}

#[test]
fn names_that_are_no_utf16_are_replaced() {
    let gpt = Gpt::sample(512);
    let mut image = gpt.build();
    for lba in [2, gpt.backup_array_lba()] {
        put(&mut image, lba * 512 + 56, &[0x41, 0, 0x00, 0xD8, 0x42, 0, 0, 0, 0x43, 0]);
    }
    gpt.seal(&mut image, 1);
    gpt.seal(&mut image, gpt.backup_lba());
    assert_eq!(read(&image).partitions[0].attributes.name, "A\u{FFFD}B");
}

#[test]
fn a_bad_sector_is_an_error_only_in_the_first_block() {
    let gpt = Gpt::sample(512);
    let image = gpt.build();
    let len = image.len() as u64;
    let with_bad = |bad: std::ops::Range<u64>| {
        let mut medium = counted(gpt.build(), len);
        medium.bad = bad;
        read_stack(&medium, None, None)
    };
    assert!(with_bad(0..1).is_err());
    for bad in [600..601, 2000..2001] {
        let stack = with_bad(bad).expect("not the first block");
        assert_eq!(
            (stack.partitions.len(), names(&stack.problems)),
            (2, vec!["GptPrimaryDamaged".to_owned()])
        );
    }
    let stack = with_bad(len - 1..len).expect("not the first block");
    assert!(has_problem!(stack, Problem::GptBackupDamaged { why, .. } if why.contains("medium error")));
    let stack = with_bad(MIB..MIB + 1).expect("not the first block");
    assert_eq!(stack.problems, []);
}

#[test]
fn a_usual_image_costs_few_reads() {
    let mut image = Gpt::sample(512).build();
    put_xfs(&mut image, 4 << 20);
    let len = image.len() as u64;
    let medium = counted(image, len);
    let stack = read_stack(&medium, None, None).expect("readable");
    assert_eq!(stack.partitions[0].start, Lba::new(2048));
    // Eight reads for the partition that shows nothing, and twenty-two for content beside the table: ZFS
    // labels alone are in four places.
    assert!(medium.reads() <= 38, "{} reads", medium.reads());
}

/// An array that begins after the primary table of its members still shows their backup table, which is not
/// its own.
#[test]
fn a_backup_of_another_disk_alone_is_left_over() {
    for block in [512, 4096] {
        let gpt = Gpt::sample(block);
        let whole = gpt.build();
        for cut in [1 << 20, 4096 * 3] {
            let part = &whole[cut..];
            let stack = read(part);
            assert_eq!((&stack.kind, &stack.problems[..]), (&TableKind::None, &[][..]), "{block}, {cut}");
            let medium = straddle_device::MemoryMedium::new(part.to_vec());
            let first = part[..part.len() - 64 * 1024].iter().all(|byte| *byte == 0);
            assert_eq!(straddle_layout::is_blank(&medium).expect("readable"), first, "{block}, {cut}");
        }
        // A backup that records its actual position counts, and so does one that an MBR announces.
        let mut kept = whole.clone();
        kept[..4 * block].fill(0);
        assert_ne!(read(&kept).kind, TableKind::None, "{block}");
    }
}
