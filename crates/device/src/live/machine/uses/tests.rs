use super::*;

/// Reads a captured tree in a temporary directory.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let machine = Machine::read(Some(folder.path()));
    (folder, machine)
}

/// A disk with two partitions, a mapping on the first, and a second disk.
const DISKS: [(&str, &str); 17] = [
    ("sys/block/vda/size", "262144\n"),
    ("sys/block/vda/dev", "254:0\n"),
    ("sys/block/vda/vda1/partition", "1\n"),
    ("sys/block/vda/vda1/start", "2048\n"),
    ("sys/block/vda/vda1/size", "65536\n"),
    ("sys/block/vda/vda1/dev", "254:1\n"),
    ("sys/block/vda/vda2/partition", "2\n"),
    ("sys/block/vda/vda2/start", "67584\n"),
    ("sys/block/vda/vda2/size", "65536\n"),
    ("sys/block/vda/vda2/dev", "254:2\n"),
    ("sys/block/vdb/size", "262144\n"),
    ("sys/block/vdb/dev", "254:16\n"),
    ("sys/block/dm-0/size", "65536\n"),
    ("sys/block/dm-0/dev", "253:0\n"),
    ("sys/block/dm-0/dm/name", "linear\n"),
    ("sys/block/dm-0/slaves/vda1", ""),
    ("sys/block/zram0/size", "8\n"),
];

/// Every way to use a device without claiming it, with `backing` behind it, and a word of the report
/// expected.
fn unclaimed(backing: &str) -> Vec<(Vec<(String, String)>, &'static str)> {
    let entry = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let looped = vec![
        entry("sys/block/loop7/size", "65536\n"),
        entry("sys/block/loop7/dev", "7:7\n"),
        entry("sys/block/loop7/loop/backing_file", backing),
    ];
    let nvmet = "sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1";
    let lio = "sys/kernel/config/target/core/iblock_0/disk";
    let usb = "sys/kernel/config/usb_gadget/g1/functions/mass_storage.0/lun.0/file";
    vec![
        (looped, "/dev/loop7"),
        (vec![entry("sys/block/zram0/backing_dev", backing)], "/dev/zram0"),
        (
            vec![entry(&format!("{nvmet}/device_path"), backing), entry(&format!("{nvmet}/enable"), "1\n")],
            "NVMe target nqn.x",
        ),
        (
            vec![entry(&format!("{lio}/udev_path"), backing), entry(&format!("{lio}/enable"), "1\n")],
            "iblock_0/disk",
        ),
        (vec![entry(usb, backing)], "USB gadget g1"),
    ]
}

#[test]
fn what_uses_a_device_without_claiming_it_is_found_from_every_layer_that_shares_its_bytes() {
    // What is behind the user, and which targets that affects.
    let cases = [
        ("/dev/vda1\n", [("vda", true), ("vda1", true), ("vda2", false), ("dm-0", true), ("vdb", false)]),
        ("/dev/vda\n", [("vda", true), ("vda1", true), ("vda2", true), ("dm-0", true), ("vdb", false)]),
        ("/dev/vda2\n", [("vda", true), ("vda1", false), ("vda2", true), ("dm-0", false), ("vdb", false)]),
        ("/dev/dm-0\n", [("vda", true), ("vda1", true), ("vda2", false), ("dm-0", true), ("vdb", false)]),
        (
            "/dev/mapper/linear\n",
            [("vda", true), ("vda1", true), ("vda2", false), ("dm-0", true), ("vdb", false)],
        ),
        (
            "/srv/disk.img\n",
            [("vda", false), ("vda1", false), ("vda2", false), ("dm-0", false), ("vdb", false)],
        ),
    ];
    for (backing, targets) in cases {
        for (more, word) in unclaimed(backing) {
            let files: Vec<(&str, &str)> = DISKS
                .iter()
                .copied()
                .chain(more.iter().map(|(path, text)| (path.as_str(), text.as_str())))
                .collect();
            let (_folder, machine) = machine(&files);
            for (target, is_used) in targets {
                let uses = machine.uses_of_device(target);
                let is_reported = uses.iter().any(|used| used.contains(word));
                assert_eq!(is_reported, is_used, "{word} over {backing} and {target}: {uses:?}");
            }
            let whole = machine.uses_of_whole_disk("vda");
            assert_eq!(whole.iter().any(|used| used.contains(word)), backing == "/dev/vda\n", "{whole:?}");
        }
    }
}

#[test]
fn a_mount_is_found_through_loops_and_mappings() {
    let more = [
        ("sys/block/loop0/size", "65536\n"),
        ("sys/block/loop0/dev", "7:0\n"),
        ("sys/block/loop0/loop/backing_file", "/dev/vda2\n"),
        ("sys/block/dm-1/size", "65536\n"),
        ("sys/block/dm-1/dev", "253:1\n"),
        ("sys/block/dm-1/dm/name", "top\n"),
        ("sys/block/dm-1/slaves/loop0", ""),
        ("sys/block/loop1/size", "65536\n"),
        ("sys/block/loop1/dev", "7:1\n"),
        ("sys/block/loop1/loop/backing_file", "/dev/mapper/top\n"),
        ("proc/self/mountinfo", "30 1 7:1 / /srv rw - ext4 /dev/loop1 rw\n"),
    ];
    let files: Vec<(&str, &str)> = DISKS.iter().chain(&more).copied().collect();
    let (_folder, machine) = machine(&files);
    for (target, is_used) in [("vda", true), ("vda2", true), ("loop0", true), ("dm-1", true), ("vda1", false)]
    {
        let uses = machine.uses_of_device(target);
        assert_eq!(uses.contains(&"loop1 is mounted at /srv".to_owned()), is_used, "{target}: {uses:?}");
    }
    // A device set up over the target is a use of the target. The device that the target stands on is not a
    // user of it.
    assert!(machine.uses_of_device("vda2").contains(&"vda2 is the backing device of /dev/loop0".to_owned()));
    assert!(!machine.uses_of_device("loop1").iter().any(|used| used.contains("behind")));
}

#[test]
fn the_users_of_a_file_are_those_of_any_of_its_names() {
    let more = [
        ("sys/block/loop0/size", "65536\n"),
        ("sys/block/loop0/dev", "7:0\n"),
        ("sys/block/loop0/loop/backing_file", "/srv/disk.img\n"),
        ("sys/block/loop1/size", "65536\n"),
        ("sys/block/loop1/dev", "7:1\n"),
        ("sys/block/loop1/loop/backing_file", "/srv/disk.img\n"),
        ("proc/self/mountinfo", "30 1 7:1 / /mnt rw - ext4 /dev/loop1 rw\n"),
    ];
    let files: Vec<(&str, &str)> = DISKS.iter().chain(&more).copied().collect();
    let (_folder, machine) = machine(&files);
    let file = Backing::File(None, PathBuf::from("/srv/disk.img"));
    let wanted = [
        "the file is the backing file of /dev/loop0",
        "the file is the backing file of /dev/loop1",
        "loop1 is mounted at /mnt",
    ];
    assert_eq!(machine.uses_of_file(&file), wanted);
    let of_loop = machine.uses_of_device("loop0");
    assert!(of_loop.iter().any(|used| used.contains("backs /dev/loop1")), "{of_loop:?}");
    assert!(!of_loop.iter().any(|used| used.contains("backs /dev/loop0")), "{of_loop:?}");
}

#[test]
fn how_a_file_is_open_is_read() {
    let text = |flags: &str| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\n");
    assert!(is_for_writing(&text("0100002")) && is_for_writing(&text("02100001")));
    assert!(!is_for_writing(&text("0100000")) && !is_for_writing("") && !is_for_writing(&text("x")));
}

/// Between fork and exec a child has its parent's files open: that is not another user.
#[test]
fn a_program_that_another_thread_starts_is_no_other_user() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let _open = fs::File::create(&path).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        let machine = Machine::read(None);
        let found: Vec<_> = (0..60).flat_map(|_| machine.uses(&path)).collect();
        over.store(true, Ordering::Relaxed);
        assert_eq!(found, Vec::<String>::new());
    });
}
