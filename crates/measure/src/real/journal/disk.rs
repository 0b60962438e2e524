//! Identifies the disk behind a device, whose number may later be given to another disk.
//!
//! Invariants: two disks count as different only if the kernel says so.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};
use straddle_device::sysfs::{Attributes, Directory, name_of_disk, of_number};

use crate::real::open::{Kind, Opened};

/// What the kernel reports about a disk; empty for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    /// The drive's own name (WWID, or serial number).
    name: Option<String>,
    /// The id of the boot, and the disk's number among those attached since (`diskseq`, Linux 5.15 and
    /// later).
    attached: Option<(String, u64)>,
}

impl Disk {
    pub(super) fn of(opened: &Opened) -> Self {
        let Some(number) = opened.file.metadata().ok().filter(|_| opened.kind == Kind::Block) else {
            return Self::default();
        };
        let device = of_number(number.rdev());
        // A partition is identified by its disk.
        let both = [Directory::new(device.clone()), Directory::new(device.join(".."))];
        let name = both.iter().find_map(|disk| name_of_disk(disk).or_else(|| disk.text("serial")));
        let sequence = both.iter().find_map(|disk| disk.number("diskseq"));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self { name, attached: boot.map(|boot| boot.trim().to_owned()).zip(sequence) }
    }

    /// Whether `other` is certainly a different disk.
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
    fn another_disk_is_recognised_by_its_name_or_by_when_it_came() {
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
