use std::fs;

use super::*;

/// A captured tree in a directory that is removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("straddle-live-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(root)
    }

    fn layers(&self, name: &str) -> (LiveDevice, Vec<String>) {
        let machine = Machine::read(Some(&self.0));
        let (device, mut remarks) = machine.layers(name);
        remarks.extend(machine.remarks().iter().cloned());
        (device.unwrap(), remarks)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A RAID1 of sda1 and sdb1, LUKS2 on it, and in that LVM with a volume of two segments.
const STACK: [(&str, &str); 38] = [
    ("sys/block/sda/size", "262144\n"),
    ("sys/block/sda/dev", "8:0\n"),
    ("sys/block/sda/sda1/partition", "1\n"),
    ("sys/block/sda/sda1/start", "2048\n"),
    ("sys/block/sda/sda1/size", "204800\n"),
    ("sys/block/sda/sda1/dev", "8:1\n"),
    ("sys/block/sda/sda1/holders/md0", ""),
    ("sys/block/sdb/size", "262144\n"),
    ("sys/block/sdb/sdb1/partition", "1\n"),
    ("sys/block/sdb/sdb1/start", "2049\n"),
    ("sys/block/sdb/sdb1/size", "204800\n"),
    ("sys/block/md0/size", "202752\n"),
    ("sys/block/md0/dev", "9:0\n"),
    ("sys/block/md0/queue/logical_block_size", "512\n"),
    ("sys/block/md0/slaves/sda1", ""),
    ("sys/block/md0/slaves/sdb1", ""),
    ("sys/block/md0/md/level", "raid1\n"),
    ("sys/block/md0/md/metadata_version", "1.2\n"),
    ("sys/block/md0/md/raid_disks", "2\n"),
    ("sys/block/md0/md/chunk_size", "0\n"),
    ("sys/block/md0/md/layout", "0\n"),
    ("sys/block/md0/md/reshape_position", "none\n"),
    ("sys/block/md0/md/dev-sda1/offset", "2048\n"),
    ("sys/block/md0/md/dev-sda1/slot", "0\n"),
    ("sys/block/md0/md/dev-sda1/size", "101376\n"),
    ("sys/block/md0/md/dev-sdb1/offset", "2048\n"),
    ("sys/block/md0/md/dev-sdb1/slot", "1\n"),
    ("sys/block/dm-0/size", "169984\n"),
    ("sys/block/dm-0/dev", "253:0\n"),
    ("sys/block/dm-0/dm/name", "c0\n"),
    ("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-aa-c0\n"),
    ("sys/block/dm-0/slaves/md0", ""),
    ("sys/block/dm-1/size", "16384\n"),
    ("sys/block/dm-1/dev", "253:1\n"),
    ("sys/block/dm-1/dm/name", "vg-lv\n"),
    ("sys/block/dm-1/dm/uuid", "LVM-xx\n"),
    ("sys/block/dm-1/slaves/dm-0", ""),
    (
        "proc/self/mountinfo",
        "30 1 253:1 /sub /bind rw - xfs /dev/dm-1 rw\n29 1 253:1 / /srv rw - xfs /dev/mapper/vg-lv rw\n",
    ),
];

const TABLES: &str = "\
c0: 0 169984 crypt aes-xts-plain64 00000000000000000000 0 9:0 32768 1 sector_size:4096
vg-lv: 0 8192 linear 253:0 2048
vg-lv: 8192 8192 linear 253:0 18432
";

fn stack(name: &str, more: &[(&str, &str)]) -> Tree {
    let files: Vec<(&str, &str)> = STACK.iter().chain(more).copied().collect();
    Tree::new(name, &files)
}

#[test]
fn a_stack_is_followed_to_the_top() {
    let tree = stack("top", &[("dmsetup-table", TABLES)]);
    let (device, remarks) = tree.layers("sda1");
    assert_eq!(remarks, Vec::<String>::new());
    assert_eq!(device.kind, LiveKind::Partition(1));
    let md = &device.holders[0];
    let LiveKind::Md(array) = &md.kind else { panic!("{md:?}") };
    assert_eq!((array.level, array.raid_disks, array.members.len()), (Some(1), 2, 2));
    assert_eq!(
        md.lower("sda1").unwrap().locate(ByteOffset::ZERO),
        Located::Here(ByteOffset::new(1 << 20), md.size)
    );
    let crypt = &md.holders[0];
    let LiveKind::Dm(mapping) = &crypt.kind else { panic!("{crypt:?}") };
    assert_eq!((mapping.owner, mapping.block()), (Owner::Luks(2), Some(ByteCount::new(4096))));
    assert!(!format!("{device:?}").contains("00000000"));
    let lv = &crypt.holders[0];
    let at = |sector: u64| match lv.below[0].locate(ByteOffset::new(sector * 512)) {
        Located::Here(at, _) => at.get() / 512,
        other => panic!("{other:?}"),
    };
    assert_eq!([at(0), at(8191), at(8192)], [2048, 10239, 18432]);
    let points: Vec<_> = lv.used_by.mounts.iter().map(|mount| mount.point.clone()).collect();
    assert_eq!(points, [PathBuf::from("/srv"), PathBuf::from("/bind")]);
    assert_eq!(lv.node, PathBuf::from("/dev/dm-1"));
    assert!(lv.open().is_err());
}

#[test]
fn without_tables_the_slaves_are_the_way() {
    let tree = stack("slaves", &[]);
    let (device, remarks) = tree.layers("sda1");
    assert_eq!(remarks.len(), 1);
    let lv = &device.holders[0].holders[0].holders[0];
    assert_eq!(lv.below, [Lower { device: "dm-0".to_owned(), holds_data: true, runs: Vec::new() }]);
}

#[test]
fn swap_is_a_use() {
    let more = [
        ("dmsetup-table", TABLES),
        ("sys/block/loop0/size", "2048\n"),
        ("sys/block/loop0/loop/backing_file", "/srv/disk.img\n"),
        ("sys/block/loop0/loop/offset", "512\n"),
        ("proc/swaps", "Filename Type Size\n/dev/dm-0 partition 1 0 0\n/srv/swap file 1 0 0\n"),
    ];
    let tree = stack("loops", &more);
    let (device, _) = tree.layers("dm-0");
    assert!(device.used_by.is_swap);
    let (loop0, _) = tree.layers("loop0");
    assert_eq!(loop0.kind, LiveKind::Loop(PathBuf::from("/srv/disk.img"), ByteOffset::new(512)));
}

#[test]
fn a_tree_of_circles_ends() {
    let mut files = Vec::new();
    for (index, name) in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().enumerate() {
        files.push((format!("sys/block/{name}/size"), "8\n".to_owned()));
        for other in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            files.push((format!("sys/block/{name}/holders/{other}"), String::new()));
        }
        files.push((format!("sys/block/{name}/dev"), format!("7:{index}\n")));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (_, remarks) = Tree::new("circles", &files).layers("a");
    assert!(!remarks.is_empty());
}

#[test]
fn stops_at_what_only_describes_data() {
    let tables = "\
vg-pool_tmeta: 0 8 linear 8:0 2048
vg-pool_tdata: 0 4096 linear 8:0 4096
vg-pool-tpool: 0 4096 thin-pool 253:0 253:1 128 0 0
vg-thin: 0 4096 thin 253:2 1
";
    let mut files = vec![("sys/block/sda/size".to_owned(), "99999\n".to_owned())];
    files.push(("sys/block/sda/dev".to_owned(), "8:0\n".to_owned()));
    let mappings =
        [("vg-pool_tmeta", "sda"), ("vg-pool_tdata", "sda"), ("vg-pool-tpool", "dm-1"), ("vg-thin", "dm-2")];
    for (index, (name, on)) in mappings.iter().enumerate() {
        let dir = format!("sys/block/dm-{index}");
        files.push((format!("{dir}/size"), "8\n".to_owned()));
        files.push((format!("{dir}/dev"), format!("253:{index}\n")));
        files.push((format!("{dir}/dm/name"), format!("{name}\n")));
        files.push((format!("{dir}/dm/uuid"), "LVM-x\n".to_owned()));
        files.push((format!("{dir}/slaves/{on}"), String::new()));
    }
    files.push(("sys/block/dm-2/slaves/dm-0".to_owned(), String::new()));
    files.push(("dmsetup-table".to_owned(), tables.to_owned()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (sda, _) = Tree::new("thin", &files).layers("sda");
    let names = |device: &LiveDevice| device.holders.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
    let [meta, data] = &sda.holders[..] else { panic!("{sda:?}") };
    assert_eq!((names(meta), names(&meta.holders[0])), (vec!["dm-2".to_owned()], vec![]));
    assert_eq!((names(data), names(&data.holders[0])), (vec!["dm-2".to_owned()], vec!["dm-3".to_owned()]));
}
