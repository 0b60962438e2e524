//! Any bytes give a result.

use crate::tests::common;

use common::{Gpt, mbr, mbr_entry, names, put, read, read_as, sign};
use proptest::prelude::*;
use straddle_layout::{MAX_PARTITIONS, Problem, TableKind};
use straddle_units::BlockSize;

fn sizes() -> impl Strategy<Value = Option<BlockSize>> {
    prop_oneof![Just(None), (9u32..=16).prop_map(|shift| BlockSize::new(1 << shift).ok())]
}

/// A disk with a GPT, or with an MBR and logical partitions; only 1 MiB, so that thousands can be tried.
fn small_disk(kind: usize) -> (Gpt, Vec<u8>) {
    let block = if kind == 1 { 4096 } else { 512 };
    let gpt =
        Gpt { blocks: (1 << 20) / block, entries: vec![(1, 64, 99), (3, 100, 120)], ..Gpt::sample(block) };
    let mut image = gpt.build();
    if kind == 2 {
        image = vec![0; 1 << 20];
        put(&mut image, 0, &mbr(&[(0x83, 64, 64), (5, 128, 1024)]));
        for (at, link) in [(128, 256), (384, 512), (640, 0)] {
            mbr_entry(&mut image, at * 512, 0, 0x83, 16, 64);
            mbr_entry(&mut image, at * 512, 1, 5, link, if link == 0 { 0 } else { 128 });
            sign(&mut image, at * 512);
        }
    }
    (gpt, image)
}

#[test]
fn media_of_any_small_size_hold_nothing() {
    for len in [0, 1, 511, 512, 513, 1024, 4095, 4096, 4097, 8191, 8193, 40000] {
        for fill in [0x00, 0x55, 0xFF] {
            for size in [None, Some(BlockSize::B4096), BlockSize::new(65536).ok()] {
                let stack = read_as(&vec![fill; len], size, None);
                assert_eq!((stack.kind, stack.partitions.len()), (TableKind::None, 0), "{len} x {fill:02x}");
                assert_eq!(stack.problems, []);
            }
        }
    }
    let protective = mbr(&[(0xEE, 1, 1)]);
    assert_eq!(names(&read(&protective).problems), ["ProtectiveWithoutGpt"]);
    assert_eq!(names(&read(&mbr(&[(5, 1, 10)])).problems), ["EbrOutOfRange", "OutOfRange"]);
}

#[test]
fn every_truncation_of_a_table_is_read() {
    for kind in 0..3 {
        let (_, image) = small_disk(kind);
        let lens = (0..image.len()).step_by(509).chain(0..1200).chain(image.len() - 600..image.len());
        for len in lens {
            let stack = read(&image[..len]);
            assert!(kind == 2 || len < 30_000 || stack.partitions.len() == 2, "kind {kind}, {len} bytes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::tools::random_cases(2000)))]

    #[test]
    fn random_bytes_never_panic(
        mut bytes in common::noise(20_000),
        magic in any::<[bool; 4]>(),
        (device, forced) in (sizes(), sizes()),
    ) {
        for (at, text, put) in [(510, &b"\x55\xAA"[..], magic[0]), (450, b"\xEE\0\0\0\x01\0\0\0", magic[1]),
            (512, b"EFI PART", magic[2]), (4096, b"EFI PART", magic[3])] {
            if put && let Some(place) = bytes.get_mut(at..at + text.len()) {
                place.copy_from_slice(text);
            }
        }
        let stack = read_as(&bytes, device, forced);
        prop_assert!(stack.partitions.len() <= 4 + MAX_PARTITIONS);
    }

    #[test]
    fn a_sealed_header_with_random_fields_never_panics(
        fields in proptest::collection::vec(
            (0usize..10, prop_oneof![any::<u64>(), 0u64..4096, Just(u64::MAX), Just(u64::MAX / 512)]), 1..4),
        both in any::<bool>(),
        kind in 0usize..2,
    ) {
        let (gpt, mut image) = small_disk(kind);
        const AT: [usize; 10] = [12, 24, 32, 40, 48, 56, 72, 80, 84, 88];
        for lba in [1, gpt.backup_lba()].into_iter().take(1 + usize::from(both)) {
            for &(field, value) in &fields {
                let len = if matches!(AT[field], 12 | 80..) { 4 } else { 8 };
                put(&mut image, lba * gpt.block + AT[field], &value.to_le_bytes()[..len]);
            }
            gpt.seal(&mut image, lba);
        }
        let stack = read(&image);
        prop_assert_eq!(&stack.kind, &TableKind::Gpt);
        prop_assert!(stack.partitions.len() <= MAX_PARTITIONS);
        let unusable = has_problem!(stack, Problem::GptUnusable { .. });
        prop_assert!(both || !unusable);
    }

    #[test]
    fn sealed_entries_with_random_bounds_never_panic(
        bounds in proptest::collection::vec(
            (prop_oneof![any::<u64>(), 0u64..4096], prop_oneof![any::<u64>(), 0u64..4096]), 1..20),
    ) {
        let gpt = Gpt {
            blocks: 2048,
            entries: bounds.iter().enumerate().map(|(i, b)| (i + 1, b.0, b.1)).collect(),
            ..Gpt::sample(512)
        };
        let stack = read(&gpt.build());
        let bad = stack.problems.iter().filter(|p| matches!(p, Problem::BadEntry { .. })).count();
        prop_assert_eq!(stack.partitions.len() + bad, bounds.len());
    }

    #[test]
    fn random_tables_and_chains_never_panic(
        writes in proptest::collection::vec(
            (0u32..64, 0usize..4, prop_oneof![Just(5u8), Just(0xEE), any::<u8>()],
             prop_oneof![0u32..64, any::<u32>()], prop_oneof![0u32..64, any::<u32>()]), 1..60),
        (device, forced) in (sizes(), sizes()),
    ) {
        let mut image = vec![0; 32 << 10];
        for (lba, slot, id, start, count) in writes {
            // One in three goes to the MBR.
            let base = if lba % 3 == 0 { 0 } else { lba as usize * 512 };
            mbr_entry(&mut image, base, slot, id, start, count);
            sign(&mut image, base);
        }
        let stack = read_as(&image, device, forced);
        prop_assert!(stack.partitions.len() <= 4 + MAX_PARTITIONS);
    }

    #[test]
    fn one_flipped_byte_is_survived(kind in 0usize..3, at in any::<prop::sample::Index>(), flip in 1u8..) {
        let (gpt, mut image) = small_disk(kind);
        let header = gpt.block..gpt.block + 92;
        let array = 2 * gpt.block..2 * gpt.block + 16384;
        // Half of the flips hit a structure.
        let at = at.index(2 * image.len());
        let at = if at < image.len() { at } else { (at - image.len()) % 20_000 };
        image[at] ^= flip;
        let stack = read(&image);
        if kind < 2 && (header.contains(&at) || array.contains(&at)) {
            prop_assert_eq!(names(&stack.problems), vec!["GptPrimaryDamaged".to_owned()]);
            prop_assert_eq!(stack.partitions.len(), 2);
        }
    }
}
