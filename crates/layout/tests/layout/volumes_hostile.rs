//! Malformed volumes: whatever they contain, there is a result, soon and of bounded size.

use crate::tests::common;
#[path = "common/volume.rs"]
mod volume;

use common::{mbr, put};
use proptest::prelude::*;
use straddle_device::MemoryMedium;
use straddle_layout::layer::{Facts, MAX_DEPTH, MAX_LAYERS};
use straddle_units::{ByteCount, ByteOffset, MIB};
use volume::{Counted, LINEAR, all, group, layers, luks2, md_superblock, plain_pv, pv, remarked, volume};

#[test]
fn long_metadata_is_refused_unread() {
    let text = group("");
    for size in [4 * MIB + 1, 100 * MIB, u64::MAX] {
        let image = pv(&text, 200 * MIB, 512, size);
        let medium = Counted::new(MemoryMedium::sparse(image, ByteCount::new(400 * MIB)));
        let layer = layers(&medium).expect("a PV");
        assert!(remarked(&layer, &format!("{size} bytes")), "{:?}", layer.remarks);
        assert!(medium.bytes() < 100 * 1024, "{}", medium.bytes());
    }
    // Texts recorded past the end of the area or the disk.
    for (area, offset, size) in
        [(8192, 8193, 10), (8192, 100, 10), (8192, 512, 7681), (u64::MAX, u64::MAX, 10), (MIB, 900_000, 10)]
    {
        let layer = layers(&MemoryMedium::new(pv("", area, offset, size)[..100_000].to_vec())).expect("a PV");
        assert!(remarked(&layer, "cannot be used"), "{area} {offset} {size}: {:?}", layer.remarks);
    }
}

#[test]
fn extents_begin_where_the_label_says_whoever_lists_them() {
    // Metadata that is on another member of an array, that is damaged, or that is not written yet.
    for (area, offset, size) in [(8192, 8193, 10), (8192, 0, 0), (u64::MAX, u64::MAX, 10)] {
        let layer = layers(&MemoryMedium::new(pv("", area, offset, size))).expect("a PV");
        let Facts::Pv(pv) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!(pv.data_start, ByteOffset::new(MIB));
        let starts: Vec<_> = layer.space.iter().map(|piece| (piece.span.start(), piece.drive)).collect();
        assert_eq!(starts, [(pv.data_start, pv.data_start)], "{layer:?}");
    }
}

#[test]
fn volumes_that_refer_to_themselves_end() {
    let raids = |names: &str| format!("type = \"raid1\" device_count = 2 raids = [ {names} ]");
    let many: Vec<String> = (0..100).map(|index| format!("\"m{index}\", \"v{index}\"")).collect();
    let everything = raids(&many.join(", "));
    let each: String = (0..100).map(|index| volume(&format!("v{index}"), 9, &everything)).collect();
    let cases = [
        volume("self", 4, &raids("\"m\", \"self\"")),
        volume("a", 4, &raids("\"m\", \"b\"")) + &volume("b", 4, &raids("\"m\", \"a\"")),
        volume("c", 4, "type = \"cache\" origin = \"c\"")
            + &volume("p", 4, "type = \"thin-pool\" pool = \"p\""),
        volume("s", 4, "type = \"striped\" stripe_count = 1 stripes = [ \"s\", 0 ]"),
        volume("ok", 4, LINEAR) + &each,
    ];
    for text in cases {
        let layer = layers(&MemoryMedium::new(plain_pv(&group(&text)))).expect("a PV");
        assert!(layer.children.iter().all(|lv| lv.name == "vg/ok"), "{layer:?}");
    }
}

#[test]
fn broken_metadata_is_read_as_far_as_it_goes() {
    let good = group(&volume("one", 4, LINEAR));
    for len in (1..good.len()).step_by(3) {
        let layer = layers(&MemoryMedium::new(plain_pv(&good[..len]))).expect("a PV");
        // What follows the last brace may be missing.
        assert!(
            !layer.remarks.is_empty() || len > good.rfind('}').expect("it has one"),
            "{len}: {:?}",
            &good[..len]
        );
    }
    let nested = "a {".repeat(100_000);
    let layer = layers(&MemoryMedium::new(plain_pv(&format!("vg {{ {nested}")))).expect("a PV");
    assert!(remarked(&layer, "nested too deeply"), "{:?}", layer.remarks);
    let lists = "[".repeat(100_000);
    let layer = layers(&MemoryMedium::new(plain_pv(&format!("vg {{ x = {lists}")))).expect("a PV");
    assert!(remarked(&layer, "expected a value"), "{:?}", layer.remarks);
}

#[test]
fn hostile_groups_are_bounded() {
    // As many volumes with as many pieces as fit, all overlapping.
    let segment = |index: u64| {
        format!(
            "s{index} {{ start_extent = {index} extent_count = 1 type = \"striped\" stripe_count = 1 stripes = [ \"pv0\", {} ] }}\n",
            index % 2 * 7
        )
    };
    let segments: String = (0..2000).map(segment).collect();
    let text: String =
        (0..2).map(|index| format!("v{index} {{ status = [ \"VISIBLE\" ] {segments} }}\n")).collect();
    let many: String = (0..5000).map(|index| volume(&format!("w{index}"), 1, LINEAR)).collect();
    let text = group(&(text + &many));
    let mut large = pv(&text, 3 * MIB, 512, text.len() as u64);
    large.resize(6 << 20, 0);
    put(&mut large, 4096 + 512, text.as_bytes());
    let layer = layers(&MemoryMedium::new(large)).expect("a PV");
    let pieces: usize = all(&layer).iter().map(|layer| layer.space.len()).sum();
    assert!(pieces <= (1 << 18) && all(&layer).len() <= MAX_LAYERS, "{pieces} {}", all(&layer).len());
    assert!(remarked(&layer, "not all") || layer.children.len() < 5000);
}

#[test]
fn a_group_that_lies_in_itself_ends() {
    // Each volume begins where the physical volume itself does, and is listed in up to 2 MiB of text.
    let from_zero = "type = \"striped\" stripe_count = 1 stripes = [ \"pv0\", 0 ]";
    let volumes: String = (0..20).map(|index| volume(&format!("v{index}"), 1024, from_zero)).collect();
    for filler in [0, 2 << 20] {
        let text =
            group(&volumes).replace("pe_start = 2048", "pe_start = 0") + &format!("#{}", "-".repeat(filler));
        let mut image = pv(&text, 3 * MIB, 512, text.len() as u64);
        image.resize(4 << 20, 0);
        put(&mut image, 4096 + 512, text.as_bytes());
        let medium = Counted::new(MemoryMedium::new(image));
        let layer = layers(&medium).expect("a PV");
        assert!(all(&layer).len() <= MAX_LAYERS && medium.bytes() < 512 * MIB, "{}", medium.bytes());
        let ends = ["layers, so not all layers are listed", "of metadata, so not all metadata was read"];
        assert!(all(&layer).iter().any(|layer| remarked(layer, ends[usize::from(filler > 0)])));
    }
}

#[test]
fn arrays_in_arrays_are_followed_to_a_depth() {
    // Each member starts 8 sectors into the previous one: its superblock is at its start (1.1), its data
    // after it.
    let mut image = vec![0; 1 << 20];
    for depth in 0..40 {
        let left = (1 << 20) - (depth + 1) * 4096;
        put(&mut image, depth * 4096, &md_superblock(0, 8, left as u64 / 512));
    }
    let layer = layers(&MemoryMedium::new(image)).expect("a member");
    let layers = all(&layer);
    assert_eq!(layers.len(), MAX_DEPTH);
    assert!(remarked(layers[MAX_DEPTH - 1], "more than 12 layers"), "{:?}", layers[MAX_DEPTH - 1]);
    assert!(
        layers
            .iter()
            .enumerate()
            .all(|(depth, layer)| layer.drive == Some(ByteOffset::new(depth as u64 * 4096)))
    );
}

#[test]
fn luks2_json_bombs_do_nothing() {
    let size = 4 * MIB;
    let deep = [b"{\"segments\":".as_slice(), &b"[".repeat(4_000_000)].concat();
    let deep_elsewhere = [b"{\"x\":".as_slice(), &b"{\"x\":".repeat(800_000)].concat();
    let segment = "\"1\":{\"offset\":\"4194304\",\"sector_size\":512,\"flags\":[\"a\",\"b\"]},";
    let wide = format!("{{\"segments\":{{{}\"2\":{{}}}}}}", segment.repeat(60_000));
    for (json, payload) in [(deep, None), (deep_elsewhere, None), (wide.into_bytes(), Some(4 * MIB))] {
        let medium = Counted::new(MemoryMedium::new(luks2(&json, size)));
        let layer = layers(&medium).expect("LUKS");
        let Facts::Luks(facts) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!(facts.payload.map(ByteOffset::get), payload, "{:?}", layer.remarks);
        assert!(medium.bytes() <= 3 * size);
    }
    // Backups of the state before re-encryption are not segments in use.
    let json = br#"{"segments":{"0":{"offset":"6291456","sector_size":4096},"1":{"offset":"4096","flags":["backup-final"]}}}"#;
    let layer = layers(&MemoryMedium::new(luks2(json, 16384))).expect("LUKS");
    let Facts::Luks(facts) = &layer.facts else { panic!("{layer:?}") };
    assert_eq!((facts.payload, facts.sector_size.get()), (Some(ByteOffset::new(6 << 20)), 4096));
    assert!(remarked(&layer, "re-encrypted"));
}

/// A medium with nested arrays, groups, tables and containers, some of them nested in themselves.
fn stacked() -> Vec<u8> {
    let text = group(
        &(volume("whole", 200, "type = \"striped\" stripe_count = 1 stripes = [ \"pv0\", 0 ]")
            + &volume("one", 4, LINEAR)),
    );
    let mut image = plain_pv(&text);
    let mut table = mbr(&[(0x83, 8, 64), (0x83, 100, 200)]);
    table.resize(512, 0);
    put(&mut image, 1 << 20, &table);
    put(
        &mut image,
        (1 << 20) + 8 * 512,
        &luks2(b"{\"segments\":{\"0\":{\"offset\":\"16384\"}}}", 16384)[..24576],
    );
    put(&mut image, (1 << 20) + 100 * 512, &md_superblock(0, 8, 100));
    image
}

#[test]
fn a_table_in_a_volume_is_followed() {
    let layer = layers(&MemoryMedium::new(stacked())).expect("a PV");
    let kinds: Vec<&str> = all(&layer).iter().map(|layer| layer.kind.name()).collect();
    assert_eq!(kinds, ["LVM2_member", "LV", "table", "crypto_LUKS", "linux_raid_member", "LV"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damage_is_never_fatal(
        damage in prop::collection::vec((0usize..6, 0usize..4608, any::<u8>()), 1..24),
    ) {
        let mut image = stacked();
        let bases = [0, 4096, 1 << 20, (1 << 20) + 8 * 512, (1 << 20) + 8 * 512 + 4096, (1 << 20) + 100 * 512];
        for (base, at, byte) in damage {
            image[bases[base] + at] = byte;
        }
        layers(&MemoryMedium::new(image));
    }

    #[test]
    fn any_fields_are_read(kind in 0usize..7, bytes in prop::collection::vec(any::<u8>(), 4096), len in 4096usize..200_000) {
        let mut image = vec![0; len];
        let (magic, at): (&[u8], usize) = [
            (b"integrt\0\x01".as_slice(), 0),
            (b"verity\0\0\x01\0\0\0", 0),
            (b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81", 4096 + 24),
            (b"LUKS\xBA\xBE\0\x01", 0),
            (b"LUKS\xBA\xBE\0\x02\0\0\0\0\0\0\x40\0", 0),
            (b"\xFC\x4E\x2B\xA9\x01\0\0\0", 0),
            (b"\xFC\x4E\x2B\xA9\0\0\0\0\x5A\0\0\0", (len / 65536).saturating_sub(1) * 65536),
        ][kind];
        let start = at / 4096 * 4096;
        put(&mut image, start, &bytes[..bytes.len().min(len - start)]);
        if at + 32 <= len {
            put(&mut image, at, magic);
        }
        if kind == 2 && len > 8192 {
            put(&mut image, 4096 + 8, &8u64.to_le_bytes());
            put(&mut image, 4096 + 16, &u64::from(bytes[0] % 7).to_le_bytes());
        }
        layers(&MemoryMedium::new(image));
    }

    #[test]
    fn any_metadata_is_read(volumes in "([a-z]{1,3} \\{ |\\} |segment1 \\{ |stripes = \\[ \"pv0\", [0-9]{1,20} \\] |type = \"(striped|raid1|raid5|cache)\" |extent_count = [0-9]{1,20} |status = \\[ \"VISIBLE\" \\] |[\\[\\]={}#\"',\\\\a]){0,60}") {
        layers(&MemoryMedium::new(plain_pv(&group(&volumes))));
        layers(&MemoryMedium::new(plain_pv(&volumes)));
    }
}
