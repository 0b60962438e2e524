//! Members of striped arrays, by their bytes alone: each shows its own chunks, whatever its role.

use crate::tests::common;
#[path = "common/volume.rs"]
mod volume;

use common::{mbr_entry, put, sign};
use straddle_device::MemoryMedium;
use straddle_layout::layer::{Facts, Layer, Md};
use straddle_layout::view::Piece;
use volume::{layers, md_superblock};

const CHUNK: u64 = 65536;

/// The start of the data on each member, in sectors: not a multiple of a chunk.
const DATA: u64 = 2062;

/// A member with a 1.2 superblock, of `mib` MiB.
fn member(mib: usize, features: u32, level: i32, layout: u32, disks: u32, role: u16) -> Vec<u8> {
    let mut image = vec![0; mib << 20];
    let sectors = (u64::try_from(mib).expect("a small size") << 11) - DATA;
    let mut superblock = md_superblock(4096, DATA, sectors);
    let words = [(8, features), (76, layout), (88, 128), (92, disks)];
    words.iter().for_each(|(at, value)| put(&mut superblock, *at, &value.to_le_bytes()));
    put(&mut superblock, 72, &level.to_le_bytes());
    put(&mut superblock, 256, &role.to_le_bytes());
    put(&mut image, 4096, &superblock);
    image
}

fn md(layer: &Layer) -> &Md {
    match &layer.facts {
        Facts::Md(md) => md,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_member_shows_its_own_chunks() {
    let raid5 = (0..6).map(|layout| (5, layout, 3, 1));
    let raid6 = [0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20].map(|layout| (6, layout, 4, 1));
    let others = [(0, 0, 3, 1), (4, 0, 3, 1), (10, 0x102, 4, 2), (10, 0x102, 3, 2), (10, 0x201, 3, 1)];
    for (level, layout, disks, copies) in raid5.chain(raid6).chain(others) {
        let mut found = [0; 8];
        for role in 0..disks {
            let image = member(4, 0, level, layout, disks, u16::try_from(role).expect("a small number"));
            let layer = layers(&MemoryMedium::new(image)).expect("a member");
            let place = format!("RAID{level}, layout {layout}, member {role}: {layer:?}");
            assert_eq!((md(&layer).role, md(&layer).data_offset.get()), (Some(role), DATA * 512), "{place}");
            for piece in &layer.space {
                let at = piece.drive.get() - DATA * 512;
                assert_eq!((at % CHUNK, piece.span.len().get()), (0, CHUNK), "{place}");
                assert_eq!((piece.below, piece.span.start().get() % CHUNK), (piece.drive, 0), "{place}");
                let chunk = usize::try_from(piece.span.start().get() / CHUNK).expect("a small number");
                found.get_mut(chunk).into_iter().for_each(|count| *count += 1);
            }
        }
        assert_eq!(found, [copies; 8], "RAID{level}, layout {layout}");
    }
}

#[test]
fn a_partition_far_into_an_array_is_found_on_its_chunk() {
    let start: u32 = 60001;
    let mut image = member(24, 0, 0, 0, 2, 0);
    let table = usize::try_from(DATA * 512).expect("a small number");
    mbr_entry(&mut image, table, 0, 0x83, 2048, 2048);
    mbr_entry(&mut image, table, 1, 0x83, start, 4096);
    sign(&mut image, table);
    let layer = layers(&MemoryMedium::new(image)).expect("a member");
    let nested = layer.children.first().unwrap_or_else(|| panic!("no table: {layer:?}"));
    let at = u64::from(start) * 512;
    let contains = |piece: &&Piece| piece.span.start().get() <= at && at < piece.span.end().get();
    let piece = nested.space.iter().find(contains).unwrap_or_else(|| panic!("{:?}", nested.space));
    // Chunk 468 is number 234 on the first of two members.
    let chunk = at / CHUNK;
    assert_eq!(chunk % 2, 0);
    let expected = DATA * 512 + chunk / 2 * CHUNK + at % CHUNK;
    assert_eq!(piece.drive.get() + (at - piece.span.start().get()), expected);
}

#[test]
fn the_layout_of_a_raid0_counts_with_its_feature_bit_only() {
    for (features, layout) in [(0, 0), (4096, 2)] {
        let image = member(4, features, 0, 2, 2, 0);
        let layer = layers(&MemoryMedium::new(image)).expect("a member");
        assert_eq!(md(&layer).layout, layout);
    }
}
