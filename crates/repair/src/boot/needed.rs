//! What this machine reads from its disks when it starts: the boot loader's files.
//!
//! Invariants: what cannot be found out counts as needed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::boot::BootError;

/// Where a boot loader's files are.
const FOLDERS: [&str; 5] = ["/boot", "/boot/grub", "/boot/grub2", "/boot/efi", "/efi"];

/// Refuses a boot loader's folder in one of these partitions of a disk, whose folder in sysfs is `disk`.
pub(crate) fn check_boot_files(disk: &Path, moving: &[u32]) -> Result<(), BootError> {
    let listed = partitions(disk);
    for folder in FOLDERS.map(PathBuf::from).into_iter().filter(|path| path.exists()) {
        let Some(below) = below(&folder) else { return Err(BootError::Unknown(folder)) };
        let holds = |(number, device): &&(u32, Number)| moving.contains(number) && below.contains(device);
        if let Some((number, _)) = listed.iter().find(holds) {
            return Err(BootError::BootFiles { folder, number: *number });
        }
    }
    Ok(())
}

/// The number of a device, as the kernel prints it: `8:1`.
type Number = String;

/// The numbers of the partitions of a whole disk, by the number of the partition.
fn partitions(disk: &Path) -> Vec<(u32, Number)> {
    let read = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let entries = fs::read_dir(disk).into_iter().flatten().flatten();
    let partition = |entry: fs::DirEntry| {
        let number = read(entry.path().join("partition"))?.parse().ok()?;
        Some((number, read(entry.path().join("dev"))?))
    };
    entries.filter_map(partition).collect()
}

/// The partitions and disks that hold the file system of `path`, below all mappings and arrays; `None` if
/// that cannot be found out.
fn below(path: &Path) -> Option<BTreeSet<Number>> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (number, kind, source) = mount_of(&mounts, &path)?;
    let tops = match kind {
        "btrfs" => btrfs_devices(source)?,
        _ if number.starts_with("0:") => vec![number_of(Path::new(source))?],
        _ => vec![number.to_owned()],
    };
    let mut found = BTreeSet::new();
    for top in tops {
        leaves(&top, &mut found)?;
    }
    Some(found)
}

/// The device number, type and source of the last mount that holds `path` (proc(5), mountinfo).
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str, &'a str)> {
    let mount = |line: &'a str| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(2);
        let (number, point) = (fields.next()?, fields.nth(1)?);
        let mut rest = rest.split(' ');
        let (kind, source) = (rest.next()?, rest.next()?);
        // Blanks and the like are in octal; a path with them is not taken for another one.
        path.starts_with(point).then_some((point.len(), (number, kind, source)))
    };
    mounts.lines().filter_map(mount).max_by_key(|(len, _)| *len).map(|(_, mount)| mount)
}

fn number_of(device: &Path) -> Option<Number> {
    let name = fs::canonicalize(device).ok()?.file_name()?.to_owned();
    let number = fs::read_to_string(Path::new("/sys/class/block").join(name).join("dev")).ok()?;
    Some(number.trim().to_owned())
}

/// The devices of the Btrfs of which `source` is one.
fn btrfs_devices(source: &str) -> Option<Vec<Number>> {
    let name = fs::canonicalize(source).ok()?.file_name()?.to_owned();
    let systems = fs::read_dir("/sys/fs/btrfs").ok()?.flatten();
    let devices = systems.map(|system| system.path().join("devices")).find(|all| all.join(&name).exists())?;
    let all = fs::read_dir(devices).ok()?.flatten();
    let read =
        |entry: fs::DirEntry| Some(fs::read_to_string(entry.path().join("dev")).ok()?.trim().to_owned());
    all.map(read).collect()
}

fn leaves(number: &str, found: &mut BTreeSet<Number>) -> Option<()> {
    let device = Path::new("/sys/dev/block").join(number);
    let slaves: Vec<_> = fs::read_dir(device.join("slaves")).into_iter().flatten().flatten().collect();
    if slaves.is_empty() {
        found.insert(number.to_owned());
        return device.exists().then_some(());
    }
    for slave in slaves {
        leaves(fs::read_to_string(slave.path().join("dev")).ok()?.trim(), found)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const MOUNTS: &str = "\
22 1 254:1 / / rw,noatime shared:1 - ext4 /dev/vda1 rw
23 22 254:2 / /boot rw - ext4 /dev/vda2 rw
24 22 0:22 /@home /home rw shared:3 master:1 - btrfs /dev/vdb1 rw
25 23 254:3 / /boot rw - ext4 /dev/vda3 rw
";

    #[test]
    fn the_innermost_and_last_mount_holds_a_path() {
        let of = |path| mount_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(of("/etc"), ("254:1", "ext4", "/dev/vda1"));
        assert_eq!(of("/bootstrap"), ("254:1", "ext4", "/dev/vda1"));
        assert_eq!(of("/boot/grub"), ("254:3", "ext4", "/dev/vda3"));
        assert_eq!(of("/home/x"), ("0:22", "btrfs", "/dev/vdb1"));
    }
}
