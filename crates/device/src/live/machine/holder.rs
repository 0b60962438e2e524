//! The device that holds a file.

use std::fs;
use std::path::Path;

use straddle_units::{BlockSize, ByteCount, KERNEL_SECTOR, Lba};

use super::{Machine, usage};
use crate::evidence::{self, Answers};
use crate::sysfs::{Attributes, DeviceKind};
use crate::topology::AlignmentOffset;

/// The device that the file system of a file is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The kernel's name of the device, or of the partition of it.
    pub name: String,
    /// Its logical sector.
    pub logical: BlockSize,
    /// Its physical sector.
    pub physical: ByteCount,
    /// The first physical sector boundary of each of the file's blocks; zero also where the blocks are smaller
    /// than the physical sector, so that they differ.
    pub offset: AlignmentOffset,
}

impl Machine {
    /// Returns the device that holds the file at `path`, as far as the kernel shows it. `None` for a file
    /// system that is on no device of this machine, such as NFS or tmpfs.
    pub fn holder(&self, path: &Path) -> Option<Holder> {
        let path = fs::canonicalize(path).ok()?;
        let name = self.mounted_device(usage::mount_of(&self.mounts, &path)?)?;
        let entry = self.devices.get(&name)?;
        let (disk, start) = match &entry.disk {
            Some(disk) => (disk.as_str(), Lba::new(entry.directory.number("start")?)),
            None => (name.as_str(), Lba::new(0)),
        };
        let directory = &self.devices.get(disk)?.directory;
        let (kind, answers) = (DeviceKind::of(disk), Answers::default());
        let identity = evidence::identity(kind, directory, &answers);
        let topology = evidence::topology(kind, directory, &identity, &answers);
        let physical = topology.physical.value();
        let start = start.to_bytes(KERNEL_SECTOR)?;
        let is_whole = rustix::fs::statvfs(&path)
            .is_ok_and(|system| ByteCount::new(system.f_frsize).is_multiple_of(physical));
        let offset = match topology.alignment_offset.value() {
            AlignmentOffset::Misaligned => {
                self.optimum_that_misaligns(disk).map_or(AlignmentOffset::Misaligned, |(_, offset)| offset)
            }
            AlignmentOffset::Bytes(_) if !is_whole => AlignmentOffset::Bytes(ByteCount::ZERO),
            AlignmentOffset::Bytes(_) => AlignmentOffset::Bytes(topology.physical_boundary()?.to_next(start)),
        };
        Some(Holder { name, logical: topology.logical.value(), physical, offset })
    }
}
