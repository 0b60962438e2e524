//! Finds disks in standby without waking them. Opening a node reads nothing; a disk that the kernel has suspended is
//! not even opened, because any command would resume it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ioctl::{self, IoctlError};
use crate::sysfs::{Attributes, DeviceKind, Directory, node_of};
use crate::target::open_for_reading;

/// A disk in standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// The kernel's name of the disk.
    pub disk: String,
    /// How it is known.
    pub how: &'static str,
}

/// Why it is not known whether a disk is in standby.
#[derive(Debug, thiserror::Error)]
#[error("cannot determine whether {disk} is in standby")]
pub struct UnknownPower {
    /// The kernel's name of the disk.
    pub disk: String,
    /// Why not.
    #[source]
    pub source: IoctlError,
}

/// Returns a disk in standby that a read of `device` would wake.
pub(crate) fn found(device: &Directory) -> Result<Option<Standby>, UnknownPower> {
    for disk in disks_below(device.path()) {
        let disk = Directory::new(disk);
        if let Some(standby) = of_disk(&disk)? {
            return Ok(Some(standby));
        }
    }
    Ok(None)
}

fn disks_below(path: &Path) -> Vec<PathBuf> {
    let (mut seen, mut left, mut disks) = (BTreeSet::new(), vec![path.to_owned()], Vec::new());
    while let Some(path) = left.pop() {
        let Ok(path) = fs::canonicalize(path) else { continue };
        let is_partition = path.join("partition").is_file();
        let path = if is_partition { path.parent().unwrap_or(&path).to_owned() } else { path };
        if !seen.insert(path.clone()) {
            continue;
        }
        let below = Directory::new(path.clone()).list("slaves");
        left.extend(below.iter().map(|name| path.join("slaves").join(name)));
        if below.is_empty() {
            disks.push(path);
        }
    }
    disks
}

fn of_disk(disk: &Directory) -> Result<Option<Standby>, UnknownPower> {
    let name = disk.path().file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if DeviceKind::of(&name) != DeviceKind::Scsi {
        return Ok(None);
    }
    let standby = |how| Some(Standby { disk: name.clone(), how });
    if disk.text("device/power/runtime_status").is_some_and(|status| status.starts_with("suspend")) {
        return Ok(standby("suspended by the kernel"));
    }
    // What cannot be opened cannot be read either, which is reported elsewhere.
    let node = node_of(&name);
    let Ok(file) = open_for_reading(&node).and_then(|file| disk.opened(file)) else { return Ok(None) };
    let unknown = |source| UnknownPower { disk: name.clone(), source };
    // As IDENTIFY is: some USB bridges hang on ATA commands.
    let is_ata = disk.text("device/vendor").as_deref() == Some("ATA");
    let stands_by = if is_ata { ioctl::ata_is_standby(&file).map_err(unknown)? } else { None };
    if let Some(stands_by) = stands_by {
        return Ok(standby("ATA CHECK POWER MODE").filter(|_| stands_by));
    }
    let stopped = ioctl::scsi_is_stopped(&file).map_err(unknown)?;
    Ok(standby("SCSI: stopped").filter(|_| stopped))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree like sysfs: sda with sda1, sdb, and md0 on sda1 and sdb.
    #[test]
    fn the_disks_below_a_device_are_found_and_a_suspended_one_is_in_standby() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for path in ["sda/sda1", "sda/device/power", "sdb/device/power", "md0/slaves", "nvme0n1/device/power"]
        {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("sda/sda1/partition"), "1\n").unwrap();
        symlink(root.join("sda/sda1"), root.join("md0/slaves/sda1")).unwrap();
        symlink(root.join("sdb"), root.join("md0/slaves/sdb")).unwrap();
        let names = |name: &str| -> BTreeSet<String> {
            let disks = disks_below(&root.join(name)).into_iter();
            disks.map(|disk| disk.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("md0"), BTreeSet::from(["sda".to_owned(), "sdb".to_owned()]));
        assert_eq!(names("sda/sda1"), BTreeSet::from(["sda".to_owned()]));
        assert_eq!(names("missing"), BTreeSet::new());

        let suspend = |name: &str, status: &str| {
            fs::write(root.join(name).join("device/power/runtime_status"), status).unwrap();
        };
        let of = |name: &str| found(&Directory::new(root.join(name))).unwrap().map(|found| found.disk);
        suspend("sdb", "suspended\n");
        for name in ["sdb", "md0"] {
            assert_eq!(of(name).as_deref(), Some("sdb"), "{name}");
        }
        // An NVMe drive has no medium to spin up.
        suspend("nvme0n1", "suspended\n");
        assert_eq!(of("nvme0n1"), None);
    }
}
