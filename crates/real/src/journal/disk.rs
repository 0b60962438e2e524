//! Which disk a device is: its number is given to the next one.
//!
//! The law of this module: it says that two are not the same only where the kernel does.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use crate::open::{Kind, Opened};

/// What the kernel says of a disk; nothing of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    /// The drive's own name (WWID, or serial number).
    name: Option<String>,
    /// Since which start of the machine, and the how manieth disk since then (`diskseq`, since Linux 5.15).
    attached: Option<(String, u64)>,
}

impl Disk {
    pub(super) fn of(opened: &Opened) -> Self {
        let Some(number) = opened.file.metadata().ok().filter(|_| opened.kind == Kind::Block) else {
            return Self::default();
        };
        let device =
            PathBuf::from(format!("/sys/dev/block/{}:{}", major(number.rdev()), minor(number.rdev())));
        // A partition is known by its disk.
        let said = |name: &str| {
            let read = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
            [device.join(name), device.join("..").join(name)]
                .into_iter()
                .find_map(read)
                .filter(|text| !text.is_empty())
        };
        let name = ["wwid", "device/wwid", "device/serial", "serial"].into_iter().find_map(&said);
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let sequence = said("diskseq").and_then(|text| text.parse().ok());
        Self { name, attached: boot.map(|boot| boot.trim().to_owned()).zip(sequence) }
    }

    /// Whether `other` is certainly another disk.
    pub(super) fn differs(&self, other: &Self) -> bool {
        if let Some((one, other)) = self.name.as_ref().zip(other.name.as_ref())
            && one != other
        {
            return true;
        }
        match (&self.attached, &other.attached) {
            (Some((boot, one)), Some((now, other))) => boot == now && one != other,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Disk;

    #[test]
    fn another_disk_is_told_by_its_name_or_by_when_it_came() {
        let disk = |name: &str, boot: &str, sequence| Disk {
            name: (!name.is_empty()).then(|| name.to_owned()),
            attached: (!boot.is_empty()).then(|| (boot.to_owned(), sequence)),
        };
        for (one, other, differ) in [
            (disk("a", "x", 1), disk("b", "x", 1), true),
            (disk("", "x", 1), disk("", "x", 2), true),
            (disk("a", "x", 1), disk("a", "y", 2), false),
            (disk("", "x", 1), disk("", "y", 2), false),
            (disk("a", "", 0), disk("", "x", 1), false),
            (Disk::default(), disk("a", "x", 1), false),
        ] {
            assert_eq!(one.differs(&other), differ, "{one:?} {other:?}");
        }
    }
}
