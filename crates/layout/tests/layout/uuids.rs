//! The unique identifier of a file system is what blkid calls its UUID.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::fs::File;
use std::process::Command;

use straddle_device::FileMedium;
use straddle_layout::TableKind;
use straddle_units::{BlockSize, ByteCount};
use tempfile::TempDir;

/// The commands that make each, on the file `fs` of 320 MiB.
const MADE: [&str; 16] = [
    "mkfs.ext2 -q -F fs",
    "mkfs.ext3 -q -F fs",
    "mkfs.ext4 -q -F fs",
    "mkfs.xfs -q -f fs",
    "mkfs.btrfs -q -f fs",
    "mkfs.f2fs -q -f fs",
    "mkfs.nilfs2 -q -f fs",
    "mkfs.jfs -q fs",
    "mkfs.reiserfs -q -ff fs",
    "mkfs.fat -F 16 fs",
    "mkfs.fat -F 32 fs",
    "mkfs.exfat fs",
    "mkfs.ntfs -q -Q -F fs",
    "mkswap -q fs",
    "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 fs key",
    "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 fs key",
];

/// A UUID without hyphens and in lower case.
fn plain(uuid: &str) -> String {
    uuid.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}

#[test]
fn what_is_made_has_the_uuid_that_blkid_gives() {
    let mut judged = Vec::new();
    for line in MADE {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("fs");
        File::create(&path).unwrap().set_len(320 << 20).unwrap();
        std::fs::write(dir.path().join("key"), "secret").unwrap();
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.env("PATH", skip::PATH).args(["-c", line]).current_dir(dir.path()).output().unwrap()
        };
        let tool = line.split(' ').next().unwrap();
        if !shell(&format!("command -v {tool} && command -v blkid")).status.success() {
            skip::skipped(&format!("{tool} is not installed"));
            continue;
        }
        let made = shell(line);
        assert!(made.status.success(), "{line}: {}", String::from_utf8_lossy(&made.stderr));
        let said = shell("blkid -p -o value -s UUID fs");
        let expected = plain(&String::from_utf8_lossy(&said.stdout));
        let medium = FileMedium::new(File::open(&path).unwrap(), ByteCount::new(320 << 20));
        let stack = straddle_layout::read_all(&medium, Some(BlockSize::B512), None).unwrap();
        assert!(matches!(stack.kind, TableKind::Content(_)), "{line}: {:?}", stack.kind);
        let layer = stack.layer.unwrap();
        assert!(!expected.is_empty(), "{line}: blkid says nothing");
        assert_eq!(layer.uuid, expected, "{line}");
        judged.push(tool);
    }
    assert!(judged.len() > 3, "only {judged:?} were judged");
}
