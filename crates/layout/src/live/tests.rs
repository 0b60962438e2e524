use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use straddle_device::live::Machine;

use super::*;
use crate::model::content::FsKind;
use crate::model::stack::{Attributes, Partition, PartitionType, Problem, Role, Stack, TableKind};

/// A captured tree in a directory that is removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let root = std::env::temp_dir().join(format!("straddle-layers-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, bytes) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        Self(root)
    }

    fn layers(&self, name: &str, start: u64) -> Layer {
        let device = Machine::read(Some(&self.0 as &Path)).layers(name).0.unwrap();
        layers(&device, ByteOffset::new(start)).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// LUKS on sda1, LVM in it, and swap on a volume with two segments.
fn stack(name: &str, tables: &str) -> Tree {
    let mut swap = vec![0; 16384 * 512];
    swap[4086..4096].copy_from_slice(b"SWAPSPACE2");
    swap[1024] = 1;
    swap[1028] = 1;
    Tree::new(
        name,
        &[
            ("sys/block/sda/size", b"262144"),
            ("sys/block/sda/dev", b"8:0"),
            ("sys/block/sda/sda1/partition", b"1"),
            ("sys/block/sda/sda1/start", b"2049"),
            ("sys/block/sda/sda1/size", b"204800"),
            ("sys/block/sda/sda1/dev", b"8:1"),
            ("sys/block/dm-0/size", b"169984"),
            ("sys/block/dm-0/dev", b"253:0"),
            ("sys/block/dm-0/dm/name", b"c0"),
            ("sys/block/dm-0/dm/uuid", b"CRYPT-LUKS2-aa-c0"),
            ("sys/block/dm-0/slaves/sda1", b""),
            ("sys/block/dm-1/size", b"16384"),
            ("sys/block/dm-1/dev", b"253:1"),
            ("sys/block/dm-1/dm/name", b"vg-lv"),
            ("sys/block/dm-1/dm/uuid", b"LVM-xx"),
            ("sys/block/dm-1/slaves/dm-0", b""),
            ("dev/dm-1", &swap),
            ("dmsetup-table", tables.as_bytes()),
        ],
    )
}

const TABLES: &str = "\
c0: 0 169984 crypt aes-xts-plain64 000000 0 8:1 32768 1 sector_size:4096
vg-lv: 0 8192 linear 253:0 2048
vg-lv: 8192 8192 linear 253:0 18432
";

/// The byte at which sda1 starts.
const START: u64 = 2049 * 512;

/// A layer as the disk shows it.
fn on_disk(kind: Content, name: &str, drive: u64, facts: Facts) -> Layer {
    let below = Span::first(ByteCount::new(4096));
    Layer { name: name.to_owned(), ..Layer::new(kind, facts, below, Some(ByteOffset::new(drive))) }
}

fn luks_on_disk(payload: u64) -> Layer {
    let payload = Some(ByteOffset::new(payload));
    let facts =
        Facts::Luks(Luks { version: 2, payload, sector_size: ByteCount::new(4096), ..Luks::default() });
    on_disk(VolumeKind::Luks.into(), "", START, facts)
}

#[test]
fn what_is_behind_a_key_is_seen() {
    let luks = stack("seen", TABLES).layers("sda1", START);
    let payload = ByteOffset::new(32768 * 512);
    assert_eq!(
        (luks.kind.name(), luks.name.as_str(), luks.below.start().get()),
        ("crypto_LUKS", "c0", START)
    );
    let facts =
        Luks { version: 2, payload: Some(payload), sector_size: ByteCount::new(4096), ..Luks::default() };
    assert_eq!(luks.facts, Facts::Luks(facts));
    let pv = &luks.children[0];
    let drive = ByteOffset::new((2049 + 32768) * 512);
    assert_eq!((pv.kind.name(), pv.name.as_str(), pv.drive), ("LVM2_member", "vg", Some(drive)));
    let lv = &pv.children[0];
    assert_eq!(lv.name, "vg/lv");
    let pieces: Vec<_> = lv
        .space
        .iter()
        .map(|p| (p.span.start().get() / 512, p.below.get() / 512, p.drive.get() / 512))
        .collect();
    assert_eq!(pieces, [(0, 2048, 2049 + 32768 + 2048), (8192, 18432, 2049 + 32768 + 18432)]);
    let Facts::Lv(facts) = &lv.facts else { panic!("{lv:?}") };
    assert_eq!(facts.segments[1].on_pv, Some(ByteOffset::new(18432 * 512)));
    let swap = &lv.children[0];
    assert_eq!((swap.kind.name(), swap.drive), ("swap", Some(ByteOffset::new((2049 + 32768 + 2048) * 512))));
}

#[test]
fn without_tables_there_are_layers_without_places() {
    let luks = stack("unplaced", "").layers("sda1", START);
    let lv = &luks.children[0].children[0];
    assert_eq!(
        (luks.kind.name(), lv.name.as_str(), lv.drive, lv.space.len()),
        ("crypto_LUKS", "vg/lv", None, 0)
    );
    assert_eq!(lv.children[0].kind.name(), "swap");
}

#[test]
fn the_disks_view_is_kept_where_the_kernel_has_another_content() {
    let live = stack("moved", TABLES).layers("sda1", START);
    let other = on_disk(VolumeKind::Md.into(), "", START, Facts::Md(Md::default()));
    assert_eq!(merge(Some(other.clone()), Some(live)), Some(other));
}

#[test]
fn the_kernel_adds_what_the_disk_does_not_show() {
    let live = stack("merged", TABLES).layers("sda1", START);
    let merged = merge(Some(luks_on_disk(1 << 20)), Some(live.clone())).unwrap();
    let payload = match &merged.facts {
        Facts::Luks(luks) => luks.payload,
        other => panic!("{other:?}"),
    };
    assert_eq!((payload, merged.name.as_str()), (Some(ByteOffset::new(1 << 20)), "c0"));
    assert_eq!(merged.children, live.children);
    assert_eq!(merge(None, Some(live.clone())), Some(live.clone()));
    assert_eq!(merge(Some(merged.clone()), None), Some(merged));
}

#[test]
fn hidden_volumes_are_ways_and_not_added() {
    let lv = |name: &str, children| {
        let layer = on_disk(Content::LogicalVolume, name, 0, Facts::Lv(Lv::default()));
        Layer { children, ..layer }
    };
    let pv =
        |children| Layer { children, ..on_disk(VolumeKind::Pv.into(), "vg", 0, Facts::Pv(Pv::default())) };
    let fs = on_disk(FsKind::Ext4.into(), "/srv", 0, Facts::Opaque);
    let live = pv(vec![
        lv("vg/r1_rmeta_0", vec![]),
        lv("vg/r1_rimage_0", vec![lv("vg/r1", vec![fs.clone()])]),
        lv("vg/pool_tdata", vec![lv("vg/pool (tpool)", vec![lv("vg/thin", vec![])])]),
        lv("vg/new", vec![]),
    ]);
    let merged = merge(Some(pv(vec![lv("vg/r1", vec![])])), Some(live)).unwrap();
    let expected = pv(vec![lv("vg/r1", vec![fs]), lv("vg/thin", vec![]), lv("vg/new", vec![])]);
    assert_eq!(merged, expected);
}

#[test]
fn partitions_that_the_kernel_lists_elsewhere_are_reported() {
    let span = |start: u64| Span::new(ByteOffset::new(start << 20), ByteCount::new(1 << 20)).unwrap();
    let listed =
        |number: u32, start| KernelPartition { name: format!("sda{number}"), number, span: span(start) };
    let mut stack: Stack = kernel_stack(&[listed(1, 1), listed(2, 2), listed(3, 3)], BlockSize::B512);
    assert_eq!(compare_partitions(&stack, &[]), []);
    stack.kind = TableKind::Gpt;
    assert_eq!(compare_partitions(&stack, &[listed(1, 1), listed(2, 2), listed(3, 3)]), []);
    let differences = compare_partitions(&stack, &[listed(1, 1), listed(2, 5), listed(4, 9)]);
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        differences,
        [
            "partition 2 has 1048576 bytes from byte 2097152 on the disk, 1048576 bytes from byte 5242880 in the kernel",
            "partition 3 has 1048576 bytes from byte 3145728 on the disk, nothing in the kernel",
            "partition 4 has nothing on the disk, 1048576 bytes from byte 9437184 in the kernel",
        ]
    );
    // What Linux does not read, or cuts off, is a finding on the table.
    let at = ByteOffset::new(512);
    let (table, device, why) = (BlockSize::B4096, BlockSize::B512, String::new());
    for problem in [
        Problem::GptPrimaryDamaged { at, why: why.clone() },
        Problem::GptUnusable { at, why },
        Problem::GptPastEnd { at },
        Problem::NoProtectiveMbr { at },
        Problem::OtherBlockSize { table, device, at },
    ] {
        stack.problems = vec![problem];
        assert_eq!(compare_partitions(&stack, &[]), [], "{:?}", stack.problems);
        assert_eq!(compare_partitions(&stack, &[listed(1, 5)]).len(), 3, "{:?}", stack.problems);
    }
    stack.problems = vec![Problem::GptBackupDamaged { at, why: String::new() }];
    assert_eq!(compare_partitions(&stack, &[]).len(), 3);
    stack.problems = vec![Problem::OutOfRange { number: 3, at }];
    assert_eq!(compare_partitions(&stack, &[listed(1, 1), listed(2, 2)]), []);
    assert_eq!(compare_partitions(&stack, &[]).len(), 2);
    // The kernel lists only two sectors of an extended partition.
    let extended = Partition { role: Role::Extended, span: span(7), ..stack.partitions[0].clone() };
    stack.partitions = vec![extended];
    assert_eq!(compare_partitions(&stack, &[listed(1, 1)]), []);
    assert_eq!(
        (stack.partitions[0].kind, &stack.partitions[0].attributes),
        (PartitionType::Unknown, &Attributes::default())
    );
}

/// Trees of any shape, in which names repeat.
fn any_layer() -> impl Strategy<Value = Layer> {
    let kinds = prop_oneof![
        Just((Content::LogicalVolume, Facts::Lv(Lv::default()))),
        Just((VolumeKind::Pv.into(), Facts::Pv(Pv::default()))),
        Just((VolumeKind::Luks.into(), Facts::Luks(Luks::default()))),
        Just((Content::Live("dm-linear"), Facts::Mapped(Mapped::default()))),
        Just((VolumeKind::Md.into(), Facts::Md(Md::default()))),
        Just((FsKind::Ext4.into(), Facts::Opaque)),
    ];
    let name = proptest::sample::select(vec!["", "vg/a", "vg/b", "vg/a_tdata", "x"]);
    let leaf = (kinds, name).prop_map(|((kind, facts), name)| on_disk(kind, name, 0, facts));
    leaf.prop_recursive(4, 24, 4, |inner| {
        (inner.clone(), proptest::collection::vec(inner, 0..4))
            .prop_map(|(layer, children)| Layer { children, ..layer })
    })
}

/// Gives each of the layers on one device a different position.
fn in_places(mut layer: Layer) -> Layer {
    for (index, child) in (0_u64..).zip(&mut layer.children) {
        *child = in_places(child.clone());
        child.below = Span::new(ByteOffset::new(index * 4096), ByteCount::new(4096)).unwrap();
    }
    layer
}

proptest! {
    #[test]
    fn a_tree_adds_nothing_to_itself(layer in any_layer().prop_map(in_places)) {
        prop_assert_eq!(merge(Some(layer.clone()), Some(layer.clone())), Some(layer));
    }

    #[test]
    fn no_two_trees_panic(here in any_layer(), there in any_layer()) {
        let merged = merge(Some(here.clone()), Some(there));
        prop_assert_eq!(merged.map(|m| (m.kind, m.facts)), Some((here.kind, here.facts)));
    }
}
