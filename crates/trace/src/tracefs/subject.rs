//! The device that is recorded.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{Partition, Recorded, SECTOR};
use straddle_device::sysfs::{self, Attributes, Directory};

use crate::tracefs::error::RecordError;

/// A disk, or a partition of one, whose requests are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The disk and the partition as a recording describes them.
    pub described: Recorded,
    /// The disk's number, as the kernel's events have it: the major number from bit 20 on.
    pub number: u32,
    /// Where sysfs has the disk, which is gone when the disk is.
    pub(crate) folder: PathBuf,
}

impl Subject {
    /// Finds the disk of a device. The device is not opened.
    pub fn of(path: &Path) -> Result<Self, RecordError> {
        let look = |source| RecordError::Look { path: path.to_owned(), source };
        let present = fs::metadata(path).map_err(look)?;
        if !present.file_type().is_block_device() {
            return Err(RecordError::NotADevice { path: path.to_owned() });
        }
        let folder = fs::canonicalize(sysfs::of_number(present.rdev())).map_err(look)?;
        Self::in_folder(path, &folder)
    }

    fn in_folder(path: &Path, folder: &Path) -> Result<Self, RecordError> {
        let missing = |what| RecordError::NotDescribed { path: path.to_owned(), what };
        let own = Directory::new(folder.to_owned());
        let bytes =
            |device: &Directory, name| device.number(name).and_then(|sectors| sectors.checked_mul(SECTOR));
        let is_partition = folder.join("partition").is_file();
        let disk_folder = if is_partition { folder.parent().unwrap_or(folder) } else { folder };
        let partition = match is_partition {
            true => Some(Partition {
                device: path.display().to_string(),
                start: bytes(&own, "start").ok_or_else(|| missing("start"))?,
                length: bytes(&own, "size").ok_or_else(|| missing("size"))?,
            }),
            false => None,
        };
        let disk = Directory::new(disk_folder.to_owned());
        // Arrays, mappings and disks in memory have no requests of their own.
        if !disk_folder.join("mq").is_dir() {
            return Err(RecordError::NoQueue { path: path.to_owned(), lower: disk.list("slaves") });
        }
        let name =
            disk_folder.file_name().ok_or_else(|| missing("name"))?.to_string_lossy().replace('!', "/");
        let number = disk.text("dev").and_then(|text| number(&text)).ok_or_else(|| missing("number"))?;
        let described = Recorded {
            device: Some(format!("/dev/{name}")),
            volume: name,
            model: disk.text("device/model"),
            capacity: bytes(&disk, "size"),
            logical_sector: disk.number("queue/logical_block_size"),
            physical_sector: disk.number("queue/physical_block_size"),
            partition,
        };
        Ok(Self { described, number, folder: disk_folder.to_owned() })
    }

    /// Whether a file lies on this disk, as far as its file system is on the disk or on a partition of it.
    pub fn holds(&self, path: &Path) -> bool {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let device = fs::metadata(path).or_else(|_| fs::metadata(folder)).map(|present| present.dev());
        let own = device.and_then(|device| fs::canonicalize(sysfs::of_number(device)));
        own.is_ok_and(|own| own.ancestors().take(2).any(|folder| folder == self.folder))
    }

    pub(crate) fn is_there(&self) -> bool {
        self.folder.exists()
    }

    /// Returns the condition for the kernel's events. Requests without sectors, such as flushes, are those of the whole
    /// disk: the kernel does not say which partition they are for.
    pub(crate) fn filter(&self) -> String {
        let number = self.number;
        match &self.described.partition {
            None => format!("dev == {number}"),
            Some(partition) => {
                let first = partition.start / SECTOR;
                let end = first.saturating_add(partition.length / SECTOR);
                format!("dev == {number} && ((sector >= {first} && sector < {end}) || nr_sector == 0)")
            }
        }
    }
}

/// Parses `major:minor`.
fn number(text: &str) -> Option<u32> {
    const MINOR_BITS: u32 = 20;
    let (major, minor) = text.trim().split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS).then_some(major << MINOR_BITS | minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!(number("254:0\n"), Some(266_338_304));
        assert_eq!(number("8:17"), Some(8 << 20 | 17));
        for bad in ["", "8", "8:", "4096:0", "8:1048576", "x:y"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }
}
