//! A folder with an image of each kind that straddle reads, made by the real tools: each gets the expected
//! findings and no others.
//!
//! The tools run on regular files, as an ordinary user. Layers that need a kernel (RAID, LVM) are in
//! `stacks`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tools::{Dir, STRADDLE, list, present, shell, word};

/// An image: its name, the expected codes (separated by blanks), the tools that its recipe needs, and the
/// recipe, which makes `$i`. `$f` is a file system in a file of its own, to be put into a partition of `$i`.
type Recipe = (&'static str, &'static str, &'static str, &'static str);

/// File systems with blocks of 4 KiB or more, for the partitions below: blkid's TYPE, the tool, and the
/// command that makes `$f`.
const FILE_SYSTEMS: [(&str, &str, &str); 16] = [
    ("ext2", "mkfs.ext2", "truncate -s 16M $f; mkfs.ext2 -q -F -b 4096 $f"),
    ("ext3", "mkfs.ext3", "truncate -s 32M $f; mkfs.ext3 -q -F -b 4096 $f"),
    ("ext4", "mkfs.ext4", "truncate -s 32M $f; mkfs.ext4 -q -F -b 4096 $f"),
    ("xfs", "mkfs.xfs", "truncate -s 320M $f; mkfs.xfs -q -f -s size=4096 $f"),
    ("btrfs", "mkfs.btrfs", "truncate -s 128M $f; mkfs.btrfs -q $f"),
    ("f2fs", "mkfs.f2fs", "truncate -s 64M $f; mkfs.f2fs -q $f"),
    ("nilfs2", "mkfs.nilfs2", "truncate -s 256M $f; mkfs.nilfs2 -q $f"),
    ("jfs", "mkfs.jfs", "truncate -s 32M $f; mkfs.jfs -q $f"),
    ("reiserfs", "mkfs.reiserfs", "truncate -s 64M $f; mkfs.reiserfs -q -ff $f"),
    ("vfat", "mkfs.fat", "truncate -s 64M $f; mkfs.fat -F 32 -s 8 $f"),
    ("exfat", "mkfs.exfat", "truncate -s 64M $f; mkfs.exfat -c 4096 $f"),
    ("ntfs", "mkfs.ntfs", "truncate -s 32M $f; mkfs.ntfs -F -q -f $f"),
    ("swap", "mkswap", "truncate -s 16M $f; mkswap $f"),
    ("squashfs", "mksquashfs", "mksquashfs content $f -quiet -no-progress"),
    ("erofs", "mkfs.erofs", "mkfs.erofs $f content"),
    ("iso9660", "genisoimage", "genisoimage -quiet -o $f content"),
];

/// Puts `$f` into a partition of `$i` that starts at sector `$s`.
const IN_PARTITION: &str = "truncate -s 384M $i
    printf 'label: dos\\nstart=%s, type=83\\n' $s | sfdisk --quiet --no-reread --no-tell-kernel $i
    dd if=$f of=$i bs=64K seek=$((s * 512)) oflag=seek_bytes conv=sparse,notrunc status=none; rm $f";

/// File systems with a finding of their own, at any position.
const WHOLE: [Recipe; 15] = [
    ("ext4-1k", "S061", "mkfs.ext4", "truncate -s 16M $i; mkfs.ext4 -q -F -b 1024 $i"),
    ("xfs-512", "S061", "mkfs.xfs", "truncate -s 320M $i; mkfs.xfs -q -f -s size=512 $i"),
    ("vfat-512", "S061", "mkfs.fat", "truncate -s 32M $i; mkfs.fat -F 16 -s 1 $i"),
    // Clusters are not aligned (-a), and there is one reserved sector more than usual.
    ("vfat-off", "S063", "mkfs.fat", "truncate -s 64M $i; mkfs.fat -a -F 32 -s 8 -R 33 $i"),
    ("exfat-512", "S061", "mkfs.exfat", "truncate -s 64M $i; mkfs.exfat -c 512 $i"),
    // Its table ends at sector 90, but mkfs.exfat starts the clusters on a multiple of their size whatever -b
    // says.
    ("exfat-b512", "", "mkfs.exfat", "truncate -s 33M $i; mkfs.exfat -b 512 -c 4096 $i"),
    ("ntfs-512", "S061", "mkfs.ntfs", "truncate -s 32M $i; mkfs.ntfs -F -q -f -c 512 $i"),
    ("nilfs2-1k", "S061", "mkfs.nilfs2", "truncate -s 256M $i; mkfs.nilfs2 -q -b 1024 $i"),
    ("reiserfs-1k", "S061", "mkfs.reiserfs", "truncate -s 64M $i; mkfs.reiserfs -q -ff -b 1024 $i"),
    ("zfs-9", "S065", "gzip", "gzip -dc \"$fixtures\"/zfs/ashift9.label.gz >$i; truncate -s 128M $i"),
    ("zfs-12", "", "gzip", "gzip -dc \"$fixtures\"/zfs/ashift12.label.gz >$i; truncate -s 128M $i"),
    ("luks1", "", "cryptsetup", "truncate -s 32M $i; luks luks1 $i"),
    ("luks1-7", "S053", "cryptsetup", "truncate -s 32M $i; luks luks1 $i --align-payload 7"),
    ("luks2", "", "cryptsetup", "truncate -s 32M $i; luks luks2 $i"),
    ("luks2-9", "S053", "cryptsetup", "truncate -s 32M $i; luks luks2 $i --align-payload 9"),
];

/// An aligned disk, `disk`, and one with a misaligned partition, `off`, in containers.
const CONTAINERS: [Recipe; 14] = [
    ("raw", "", "qemu-img", "cp --sparse=always disk $i"),
    ("qcow2", "", "qemu-img", "qemu-img convert -O qcow2 disk $i"),
    ("qcow2-compressed", "", "qemu-img", "qemu-img convert -c -O qcow2 disk $i"),
    ("qcow2-512", "S070 S071", "qemu-img", "qemu-img convert -O qcow2 -o cluster_size=512 disk $i"),
    ("qcow2-off", "S001", "qemu-img", "qemu-img convert -O qcow2 off $i"),
    ("vmdk-sparse", "", "qemu-img", "qemu-img convert -O vmdk disk $i"),
    ("vmdk-off", "S001", "qemu-img", "qemu-img convert -O vmdk off $i"),
    // The sector bitmap before each block misaligns it.
    ("vhd-dynamic", "S070", "qemu-img", "qemu-img convert -O vpc -o subformat=dynamic disk $i"),
    ("vhd-fixed", "", "qemu-img", "qemu-img convert -O vpc -o subformat=fixed disk $i"),
    ("vhd-fixed-off", "S001", "qemu-img", "qemu-img convert -O vpc -o subformat=fixed off $i"),
    ("vhdx", "", "qemu-img", "qemu-img convert -O vhdx disk $i"),
    ("vhdx-off", "S001", "qemu-img", "qemu-img convert -O vhdx off $i"),
    // The map before the data has an entry for each block of the disk, and takes whole sectors.
    ("vdi", "S070", "qemu-img", "qemu-img convert -O vdi disk $i"),
    ("vdi-static", "S070", "qemu-img", "qemu-img convert -O vdi -o static=on disk $i"),
];

/// Whether a finding is about a place, a block or a container, rather than about tables or other units.
fn is_compared(code: &str) -> bool {
    code == "S001"
        || matches!(code, "S050" | "S051" | "S052" | "S053" | "S054" | "S055" | "S056" | "S057" | "S058")
        || matches!(code, "S061" | "S063" | "S064" | "S065" | "S070" | "S071")
}

/// Makes one image if its tools are installed; returns whether it was made.
fn make(dir: &Dir, name: &str, needed: &str, recipe: &str) -> bool {
    if !present(&needed.split(' ').collect::<Vec<_>>()) {
        return false;
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/layout/tests");
    let image = format!("images/{name}.img");
    let prelude = format!(
        "set -e; i={image} f={name}.part fixtures='{}'
        luks() {{ t=$1 d=$2; shift 2; printf secret | cryptsetup luksFormat -q --type $t --pbkdf pbkdf2 \
            --pbkdf-force-iterations 1000 \"$@\" $d -; }}\n",
        fixtures.display()
    );
    shell(&format!("{prelude}{recipe}"), dir.path());
    true
}

/// The reports on every image in the folder, from a single run, by name.
fn check_all(dir: &Dir) -> BTreeMap<String, Value> {
    let program = Path::new(STRADDLE).display().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec '{program}' check --json images/*")]).current_dir(dir.path());
    let output = tools::output(&mut command, "");
    assert!(output.status.code().is_some_and(|code| code <= 3), "{}", tools::transcript(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = |target: &Value| {
        let name = word(target, "target").replace("images/", "").replace(".img", "");
        (name, target.clone())
    };
    list(&report, "targets").iter().map(named).collect()
}

/// The codes found on a target, of those that are compared.
fn found(target: &Value) -> BTreeSet<String> {
    let codes = list(target, "findings").iter().map(|finding| word(finding, "code"));
    codes.filter(|code| is_compared(code)).collect()
}

/// Makes all images in a folder; returns their names with the expected codes.
fn make_all(dir: &Dir) -> BTreeMap<String, &'static str> {
    let mut made = BTreeMap::new();
    shell("mkdir images content; echo something >content/file", dir.path());
    for (kind, tool, recipe) in FILE_SYSTEMS {
        for (sector, codes) in [(63, "S001"), (2048, "")] {
            let name = format!("{kind}-at-{sector}");
            let recipe = format!("{recipe}\ns={sector}; {IN_PARTITION}");
            if make(dir, &name, &format!("sfdisk {tool}"), &recipe) {
                made.insert(name, codes);
            }
        }
    }
    // Data is written all over the partitions, so that there are blocks to examine.
    let disk = "for of in 'disk 2048' 'off 63'; do set -- $of; truncate -s 32M $1
        printf 'label: dos\\nstart=%s, type=83\\n' $2 | sfdisk --quiet --no-reread --no-tell-kernel $1
        yes straddle | dd of=$1 bs=1M count=3 seek=4 iflag=fullblock conv=notrunc status=none; done";
    if present(&["sfdisk"]) {
        shell(disk, dir.path());
    }
    for (name, codes, needed, recipe) in WHOLE.into_iter().chain(CONTAINERS) {
        if make(dir, name, needed, recipe) {
            made.insert(name.to_owned(), codes);
        }
    }
    made
}

#[test]
fn each_kind_of_image_is_blamed_for_what_is_wrong_with_it() {
    let dir = Dir::new("formats");
    let made = make_all(&dir);
    let targets = check_all(&dir);
    assert_eq!(targets.len(), made.len());
    let mut wrong = Vec::new();
    for (name, codes) in &made {
        let target = &targets[name];
        let expected: BTreeSet<String> = codes.split_whitespace().map(str::to_owned).collect();
        let found = found(target);
        println!("{name:20} {:11} {found:?}", word(target, "status"));
        if word(target, "status") == "failed" || found != expected {
            wrong.push(format!("{name}: {expected:?} expected: {target}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (kind, ..) in FILE_SYSTEMS {
        let Some(target) = targets.get(&format!("{kind}-at-63")) else { continue };
        assert_eq!(word(&target["partitions"][0]["layer"], "kind"), kind, "{target}");
    }
}

#[test]
fn a_backing_file_that_is_not_opened_is_named() {
    if !present(&["qemu-img"]) {
        return;
    }
    let dir = Dir::new("backing");
    shell(
        "mkdir images; qemu-img create -q -u -f qcow2 -b /etc/passwd -F raw images/bait.img 32M",
        dir.path(),
    );
    let targets = check_all(&dir);
    let bait = &targets["bait"];
    assert_eq!(word(bait, "status"), "failed", "{bait}");
    assert!(word(bait, "error").contains("/etc/passwd, which is not opened"), "{bait}");
    assert!(!bait.to_string().contains("root:"), "{bait}");
}

/// The codes of file system rules found on `image` with `options`.
fn codes_under(image: &Path, options: &[&str]) -> BTreeSet<String> {
    let report = tools::check(image, options);
    let codes = list(&report, "findings").iter().map(|finding| word(finding, "code")).collect::<Vec<_>>();
    codes.into_iter().filter(|code| ("S061".."S070").contains(&code.as_str())).collect()
}

#[test]
fn hints_units_and_pages_are_held_against_the_device() {
    if !present(&["mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("hints");
    let image = dir.image("disk.img", 64 << 20);
    // An ext4 for 64 KiB chunks and stripes of two.
    let script = format!("mkfs.ext4 -q -F -b 4096 -E stride=16,stripe-width=32 '{}'", image.display());
    shell(&script, dir.path());
    let is = |options: &[&str], wanted: &[&str]| {
        let wanted: BTreeSet<String> = wanted.iter().map(|&code| code.to_owned()).collect();
        assert_eq!(codes_under(&image, options), wanted, "{options:?}");
    };
    is(&[], &[]);
    is(&["--assume", "chunk=64KiB,stripe=128KiB"], &[]);
    is(&["--assume", "chunk=64KiB,stripe=192KiB"], &["S064"]);
    is(&["--assume", "chunk=512KiB"], &["S064"]);
    is(&["--assume", "iu=16KiB"], &["S062"]);
    // Files are allocated in 4 KiB blocks, so an 8 KiB page may always be in two places.
    is(&["--page", "8KiB"], &["S067"]);
    is(&["--page", "4KiB"], &["S067"]);
    is(&["--page", "4KiB", "--assume", "atomic=4KiB"], &[]);
    is(&["--page", "4KiB", "--assume", "atomic=4KiB,iu=16KiB"], &["S062"]);
    is(&["--page", "16KiB", "--assume", "atomic=16KiB,iu=64KiB"], &["S062", "S067"]);
    is(&["--page", "24KiB", "--assume", "iu=16KiB"], &["S062", "S066", "S067"]);
    is(&["--page", "16KiB", "--assume", "atomic=16KiB"], &["S067"]);
    is(&["--page", "6KiB", "--assume", "atomic=16KiB"], &["S066", "S067"]);
    is(&["--page", "4KiB", "--assume", "atomic=4KiB,offset=3584"], &["S066"]);
    // Clusters of a page are the remedy where the device writes a page in one piece, and only there.
    let remedy = |options: &[&str]| {
        let report = tools::check(&image, options);
        let torn = list(&report, "findings").iter().find(|finding| word(finding, "code") == "S067").cloned();
        torn.unwrap()["alternative"]["commands"][0]["line"].as_str().map(str::to_owned)
    };
    assert_eq!(remedy(&["--page", "16KiB"]), None);
    assert_eq!(remedy(&["--page", "16KiB", "--assume", "atomic=8KiB"]), None);
    for (page, atomic) in [("8KiB", "atomic=16KiB"), ("16KiB", "atomic=16KiB"), ("64KiB", "atomic=64KiB")] {
        let options = ["--page", page, "--assume", atomic];
        let line = remedy(&options).unwrap();
        shell(&format!("yes | {}", line.replace("DEVICE", "disk.img")), dir.path());
        is(&options, &[]);
        shell(&script, dir.path());
    }
}
