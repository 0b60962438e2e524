//! Every kind of contents in partitions without a gap from sector 63, made and checked by the kernel of an
//! emulated PC (`tests/emulated/contents.sh`), and moved by the program between, killed on the way.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{killed_on_the_way, shell, straddle};
use crate::tools::{output, present, skipped, transcript};

/// The programs that make and check them in the guest.
const TOOLS: [&str; 21] = [
    "blkid",
    "blockdev",
    "btrfs",
    "cryptsetup",
    "dmsetup",
    "e2fsck",
    "fsck.exfat",
    "fsck.f2fs",
    "fsck.vfat",
    "lvm",
    "mdadm",
    "mkfs.btrfs",
    "mkfs.exfat",
    "mkfs.ext4",
    "mkfs.f2fs",
    "mkfs.ntfs",
    "mkfs.vfat",
    "mkfs.xfs",
    "mkswap",
    "ntfsfix",
    "xfs_repair",
];

/// A GPT disk of 800 MiB. All starts are off their boundary, by different distances.
const TABLE: &str = "\
truncate -s 800M disk.img
{ printf 'label: gpt\\nfirst-lba: 34\\n'; at=63
  for mib in 24 310 120 16 40 16 64 8 48 24; do echo \"start=$at,size=$((mib * 2048 + 9))\"; at=$((at + mib * 2048 + 9)); done
} | sfdisk -q --no-tell-kernel disk.img";

/// Runs contents.sh in the emulated PC; returns what it prints. `None` if there is no kernel here.
fn emulated(folder: &Path, action: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulated");
    let fetched = output(Command::new(root.join("kernel")).arg("6.12"), "");
    if !fetched.status.success() {
        skipped(&format!("kernel 6.12 is missing: {}", transcript(&fetched)));
        return None;
    }
    let disk = folder.join("disk.img");
    let drive = format!(
        "if=none,id=disk,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap,file={}",
        disk.display()
    );
    fs::write(
        folder.join("arguments"),
        format!("-drive\n{drive}\n-device\nvirtio-blk-pci,drive=disk,addr=10\n"),
    )
    .unwrap();
    let mut command = Command::new(root.join("run"));
    command.args(["-t", "1800", "-k", "6.12", "-a"]).arg(folder.join("arguments"));
    for tool in TOOLS {
        command.args(["-x", tool]);
    }
    let run = output(command.arg(root.join("contents.sh")).arg(action), "");
    assert!(run.status.success(), "{action}: {}", transcript(&run));
    Some(String::from_utf8(run.stdout).unwrap())
}

#[test]
fn every_kind_of_contents_survives_a_killed_move() {
    let needed: Vec<&str> = TOOLS.iter().copied().chain(["sfdisk", "qemu-system-x86_64"]).collect();
    if !present(&needed) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    shell(folder, TABLE);
    let Some(made) = emulated(folder, "make") else { return };
    assert_eq!(made.lines().count(), 10, "{made}");
    shell(folder, "cp --sparse=always disk.img before.img");
    let (status, text) = straddle(folder, &["realign", "disk.img", "--save", "move.json"]);
    assert_eq!(status, 0, "{text}");
    let kills = killed_on_the_way(folder, 6);
    println!("{kills} kills in the middle");
    let (_, text) = straddle(folder, &["check", "disk.img"]);
    assert!(!text.contains("S001") && !text.contains("S068"), "{text}");
    let checked = emulated(folder, "check");
    assert_eq!(checked.as_deref(), Some(&*made));
}
