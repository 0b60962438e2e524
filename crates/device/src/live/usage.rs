//! Mounts and swap. In paths, /proc/self/mountinfo and /proc/swaps write a space, tab, line
//! feed or backslash as a backslash and three octal digits (proc(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Containers mount the same file system many times.
pub(super) const MAX_USES: usize = 64;

/// The uses of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Where it is mounted; mounts of the whole file system come before bind mounts.
    pub mounts: Vec<Mount>,
    /// Whether it is a swap device.
    pub is_swap: bool,
}

impl Usage {
    /// Whether it is mounted or swapped to.
    pub fn is_used(&self) -> bool {
        !self.mounts.is_empty() || self.is_swap
    }
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: PathBuf,
    /// The kernel's name of the file system type, `ext4`.
    pub kind: String,
    /// `major:minor` of the mounted device; for Btrfs and the like, a number that belongs to no block device.
    pub dev: String,
    /// The source given to mount(8).
    pub source: PathBuf,
    /// The directory of the file system that is mounted: `/`, except for bind mounts.
    pub root: PathBuf,
}

pub(super) fn mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

/// `36 35 98:0 /root /point options optional… - kind source options`
fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ').skip(2);
    let (dev, root, point) = (words.next()?, words.next()?, words.next()?);
    let mut after = words.skip_while(|word| *word != "-").skip(1);
    let (kind, source) = (after.next()?, after.next()?);
    Some(Mount {
        point: unescape(point),
        kind: kind.to_owned(),
        dev: dev.to_owned(),
        source: unescape(source),
        root: unescape(root),
    })
}

pub(super) fn swaps(text: &str) -> Vec<(PathBuf, bool)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((unescape(words.next()?), words.next()? == "file"))
    };
    text.lines().skip(1).filter_map(line).collect()
}

pub(super) fn mount_of<'a>(mounts: &'a [Mount], file: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| file.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

pub(crate) fn unescape(text: &str) -> PathBuf {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let octal = bytes.get(at + 1..at + 4).filter(|_| *byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        out.push(octal.unwrap_or(*byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOUNTINFO: &str = "\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
40 22 253:3 / /srv/a\\040b rw shared:7 master:2 - xfs /dev/mapper/vg-lv rw
41 22 0:45 /sub /data rw - btrfs /dev/sdb1 rw
nonsense
";

    #[test]
    fn mountinfo_is_read() {
        let mounts = mounts(MOUNTINFO);
        assert_eq!(mounts.len(), 3);
        assert_eq!((mounts[1].point.as_path(), mounts[1].dev.as_str()), (Path::new("/srv/a b"), "253:3"));
        assert_eq!((mounts[2].kind.as_str(), mounts[2].source.as_path()), ("btrfs", Path::new("/dev/sdb1")));
        let of = |file: &str| mount_of(&mounts, Path::new(file)).unwrap().dev.clone();
        assert_eq!([of("/srv/a b/x.img"), of("/srv/a bc"), of("/data/x")], ["253:3", "8:2", "0:45"]);
    }

    #[test]
    fn swaps_are_read() {
        let text = "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n/dev/dm-1 partition 524284 0 -2\n/a\\040b file 8 0 -3\n";
        assert_eq!(swaps(text), [(PathBuf::from("/dev/dm-1"), false), (PathBuf::from("/a b"), true)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|\\\\[0-7]{1,3}|[ \n-]){0,80}") {
            let mounts = mounts(&text);
            let _ = (mount_of(&mounts, Path::new("/x")), swaps(&text));
        }
    }
}
