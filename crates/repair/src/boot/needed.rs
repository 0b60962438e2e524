//! What this machine reads from its disks when it starts: the boot loader's files.
//!
//! Invariants: what cannot be found out counts as needed.

mod place;

use std::path::Path;

/// Where a boot loader's files are.
const FOLDERS: [&str; 5] = ["/boot", "/boot/grub", "/boot/grub2", "/boot/efi", "/efi"];

/// A folder of the boot loader on one of the partitions that were asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootFiles {
    /// Where it is cannot be found out.
    Unknown(&'static Path),
    /// It is in the partition of this number.
    In(&'static Path, u32),
}

/// Returns the boot loader's first folder that is in one of these partitions of a disk, whose folder in sysfs is
/// `disk`; `None` if none is.
pub(crate) fn boot_files(disk: &Path, partitions: &[u32]) -> Option<BootFiles> {
    let listed = place::partitions(disk);
    FOLDERS.map(Path::new).into_iter().filter(|path| path.exists()).find_map(|path| {
        let Some(below) = place::below(path) else { return Some(BootFiles::Unknown(path)) };
        let holds = |(number, device): &&(u32, String)| partitions.contains(number) && below.contains(device);
        listed.iter().find(holds).map(|(number, _)| BootFiles::In(path, *number))
    })
}
