//! The kernel's view of a block device: `/sys/block/NAME`, or a captured tree.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use straddle_units::{ByteCount, ByteOffset, KERNEL_SECTOR, LbaCount, Span};

/// For captured trees.
const LARGEST_ATTRIBUTE: u64 = 64 * 1024;

/// The source of one device's attributes: a directory, or a map in tests and fuzzing.
pub trait Attributes {
    /// Returns the bytes of an attribute, or `None` when it does not exist or may not be read.
    fn bytes(&self, name: &str) -> Option<Vec<u8>>;

    /// Returns the names in a subdirectory (`""` for the device's own), sorted.
    fn list(&self, dir: &str) -> Vec<String>;

    /// Returns the attribute as text, without control characters and without the padding of SCSI strings.
    fn text(&self, name: &str) -> Option<String> {
        let bytes = self.bytes(name)?;
        let text = String::from_utf8_lossy(&bytes);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        Some(text.trim().to_owned()).filter(|t| !t.is_empty())
    }

    /// Returns the attribute as a decimal number.
    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The attribute counts sectors of 512 bytes; this returns bytes.
    fn sectors(&self, name: &str) -> Option<ByteCount> {
        LbaCount::new(self.number(name)?).to_bytes(KERNEL_SECTOR)
    }
}

/// A device's directory.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Creates the source for the device at `path` (`…/sys/block/sda`).
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn opened(&self, node: fs::File) -> io::Result<fs::File> {
        let metadata = node.metadata()?;
        let dev = number_text(metadata.rdev());
        if !metadata.file_type().is_block_device() || self.text("dev").is_some_and(|shown| shown != dev) {
            return Err(io::Error::other(
                "the device node does not belong to the device that sysfs describes",
            ));
        }
        Ok(node)
    }
}

impl Attributes for Directory {
    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.0.join(name);
        // A FIFO or a device in a captured tree must not be opened.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(LARGEST_ATTRIBUTE).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn list(&self, dir: &str) -> Vec<String> {
        list_names(&self.0.join(dir))
    }
}

/// Returns the sysfs path of the block device with this number.
pub fn of_number(number: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(number_text(number))
}

pub(crate) fn number_text(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// Returns the directory of the device whose node would be at `path`, if the kernel has it.
pub fn of_node(path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    std::fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()
}

/// Returns a disk's worldwide name or, if it has none, its serial number.
pub fn name_of_disk(disk: &Directory) -> Option<String> {
    ["wwid", "device/wwid", "device/serial"].into_iter().find_map(|attribute| disk.text(attribute))
}

pub(crate) fn list_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// `dm-2` precedes `dm-10`, and `sdz` precedes `sdaa`.
pub(crate) fn natural_order(name: &str) -> Vec<(String, usize, String, u64)> {
    const LETTERED: [&str; 4] = ["sd", "hd", "vd", "xvd"];
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(word);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        let driver = LETTERED.iter().find(|driver| parts.is_empty() && text.starts_with(**driver));
        let (driver, letters) = text.split_at(driver.map_or(text.len(), |driver| driver.len()));
        parts.push((driver.to_owned(), letters.len(), letters.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

/// A partition listed by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPartition {
    /// The kernel's name, `sda1`.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Its bytes on the disk.
    pub span: Span,
}

/// Returns the node of a device. An exclamation mark in its name stands for a slash (`cciss!c0d0`).
pub fn node_of(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

/// Returns the partitions that the kernel lists under a disk, in order of number.
pub fn partitions(device: &dyn Attributes) -> Vec<KernelPartition> {
    let mut found: Vec<KernelPartition> = device
        .list("")
        .into_iter()
        .filter_map(|name| {
            let number = device.number(&format!("{name}/partition"))?;
            let start = device.sectors(&format!("{name}/start"))?;
            let span = Span::new(ByteOffset::new(start.get()), device.sectors(&format!("{name}/size"))?)?;
            Some(KernelPartition { number: u32::try_from(number).ok()?, name, span })
        })
        .collect();
    found.sort_by_key(|p| p.number);
    found
}

/// Returns why the kernel never lists partitions of the device `name`, or `None` where it does: by `partscan`
/// (since Linux 6.10), `loop/partscan` or an `ext_range` of 1 (`disk_max_parts`). Tables of host-managed
/// zoned disks are ignored (`blk_add_partitions`, block/partitions/core.c).
pub fn never_lists_partitions(name: &str, device: &dyn Attributes) -> Option<&'static str> {
    const MAPPED: &str = "the kernel lists no partitions on device-mapper devices (kpartx -a maps them)";
    const LOOP: &str = "the kernel lists no partitions on this loop device, because it was set up without \
                        losetup --partscan";
    const ZONED: &str = "the kernel lists no partitions on host-managed zoned devices";
    const NEVER: &str = "the kernel lists no partitions on this kind of device";
    let is = |attribute: &str, value: &str| device.text(attribute).is_some_and(|text| text == value);
    match DeviceKind::of(name) {
        DeviceKind::DeviceMapper => return Some(MAPPED),
        DeviceKind::Loop if is("loop/partscan", "0") => return Some(LOOP),
        _ => {}
    }
    if is("queue/zoned", "host-managed") {
        return Some(ZONED);
    }
    let flagged = match device.text("partscan") {
        Some(text) => text == "0",
        None => is("ext_range", "1"),
    };
    flagged.then_some(NEVER)
}

/// The kind of device that a kernel name stands for, as far as alignment is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A file that holds a disk's bytes.
    Image,
    /// SCSI, SATA and USB disks (`sd`).
    Scsi,
    /// NVMe namespaces.
    Nvme,
    /// SD cards and eMMC.
    Mmc,
    /// Disks of a virtual machine (`vd`, `xvd`), and Ceph's (`rbd`).
    Virtual,
    /// Linux software RAID.
    Md,
    /// Device mapper: LVM, dm-crypt, multipath.
    DeviceMapper,
    /// A loop device over a file.
    Loop,
    /// A drive modelled in software (`drive:NAME`).
    Modelled,
    /// Anything else.
    Other,
}

impl DeviceKind {
    /// Returns the kind of the device with the kernel's name `name`.
    pub fn of(name: &str) -> Self {
        const PREFIXES: [(&str, DeviceKind); 11] = [
            ("sd", DeviceKind::Scsi),
            ("hd", DeviceKind::Scsi),
            ("nvme", DeviceKind::Nvme),
            ("mmcblk", DeviceKind::Mmc),
            ("vd", DeviceKind::Virtual),
            ("xvd", DeviceKind::Virtual),
            ("md", DeviceKind::Md),
            ("dm-", DeviceKind::DeviceMapper),
            ("loop", DeviceKind::Loop),
            ("ubd", DeviceKind::Virtual),
            ("rbd", DeviceKind::Virtual),
        ];
        PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Self::Other, |(_, kind)| *kind)
    }
}

/// Loop and memory devices, and drives for media without partitions.
pub(crate) fn is_not_a_disk(name: &str) -> bool {
    ["loop", "ram", "zram", "sr", "fd"].iter().any(|prefix| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let sorted = [
            "dm-0",
            "dm-2",
            "dm-10",
            "md0",
            "md2",
            "md127",
            "nvme0n1",
            "nvme0n1p2",
            "nvme0n1p10",
            "nvme0n2",
            "nvme1n1",
            "nvme10n1",
            "sda",
            "sda1",
            "sda2",
            "sda10",
            "sdz",
            "sdaa",
            "vda",
        ];
        let mut names = sorted.to_vec();
        names.reverse();
        names.sort_by_key(|name| natural_order(name));
        assert_eq!(names, sorted);
    }

    #[test]
    fn memory_and_optical_drives_are_not_disks() {
        for name in ["loop0", "ram1", "zram0", "sr0", "fd0"] {
            assert!(is_not_a_disk(name), "{name}");
        }
        for name in ["sda", "nvme0n1", "md0", "dm-0", "vda", "mmcblk0", "fdx"] {
            assert!(!is_not_a_disk(name), "{name}");
        }
    }
}
