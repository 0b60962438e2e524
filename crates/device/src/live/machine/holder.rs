use std::fs;
use std::path::Path;

use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset};

use super::{Machine, usage};
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
    /// The first physical sector boundary of each of the file's blocks; zero also where blocks are smaller
    /// than that.
    pub offset: AlignmentOffset,
}

impl Machine {
    /// Returns the device that holds the file at `path`. `None` if it is none of this machine, as for NFS or
    /// tmpfs.
    pub fn holder(&self, path: &Path) -> Option<Holder> {
        let path = fs::canonicalize(path).ok()?;
        let name = self.mounted_device(usage::mount_of(&self.mounts, &path)?)?;
        let (disk, start) = self.disk_of(&name, 0)?;
        let logical = self.logical(self.devices.get(disk)?)?;
        let presumed = self.presumed(disk)?;
        let physical = presumed.physical;
        let is_whole = rustix::fs::statvfs(&path)
            .is_ok_and(|system| ByteCount::new(system.f_frsize).is_multiple_of(physical));
        let offset = match presumed.offset {
            AlignmentOffset::Bytes(_) if !is_whole => AlignmentOffset::Bytes(ByteCount::ZERO),
            AlignmentOffset::Bytes(phase) => {
                AlignmentOffset::Bytes(Boundary::new(physical, phase)?.to_next(ByteOffset::new(start)))
            }
            AlignmentOffset::Misaligned => AlignmentOffset::Misaligned,
        };
        Some(Holder { name, logical, physical, offset })
    }
}
