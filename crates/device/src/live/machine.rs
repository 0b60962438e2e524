//! The block devices of this machine, or of a captured tree, by name and number, and what stands on each.

mod holder;
mod stacking;
mod uses;
pub use holder::Holder;
pub use uses::sees_all_processes;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use straddle_units::{BlockSize, ByteCount, ByteOffset, KERNEL_SECTOR, Lba, LbaCount, Span};

use super::array::Array;
use super::mapping::{Mapping, Owner};
use super::runs::Run;
use super::usage::{self, LoopUse, MAX_USES, Mount, Usage};
use super::{LiveDevice, LiveKind, Lower, MAX_DEPTH, MAX_DEVICES, table};
use crate::ioctl::dm::{MAX_TARGETS, TableLine, table as ask_table};
use crate::medium::FileMedium;
use crate::standby;
use crate::sysfs::{self, Attributes, Directory, list_names};
use crate::target::open_for_reading;

/// At most this many bytes of /proc/self/mountinfo and the like are read.
const LARGEST_TEXT: u64 = 16 << 20;

/// The node through which device mapper is queried.
const CONTROL: &str = "/dev/mapper/control";

/// The block devices of a machine.
pub struct Machine {
    /// Root of the captured tree; `None` for this machine.
    sysroot: Option<PathBuf>,
    devices: BTreeMap<String, Entry>,
    /// Names by `major:minor`.
    numbers: BTreeMap<String, String>,
    mounts: Vec<Mount>,
    /// Swap devices by name, and swap files with the device under their file system.
    swap_devices: Vec<String>,
    swap_files: Vec<(PathBuf, Option<String>)>,
    loops: Vec<(LoopUse, Option<String>)>,
    consumers: Vec<uses::Consumer>,
    tables: Tables,
    /// Whether disks in standby are left asleep.
    no_wake: bool,
    remarks: Vec<String>,
}

/// A device in sysfs.
struct Entry {
    directory: Directory,
    dev: Option<String>,
    /// The disk, if this is a partition.
    disk: Option<String>,
    /// The devices that stand on it.
    above: Vec<String>,
}

/// Where the device-mapper tables come from.
enum Tables {
    /// There are no device-mapper devices.
    None,
    Kernel(File),
    /// Tables by device name.
    Captured(BTreeMap<String, Vec<TableLine>>),
    /// The tables cannot be read.
    Refused,
}

/// Where the bytes of a device can be read.
#[derive(Clone, Debug)]
pub(super) enum BytesOf {
    /// A node, which must have this `major:minor`.
    Node(String),
    /// A file with a copy of the device.
    Copy(PathBuf),
    /// The device must not be read, for this reason.
    Not(&'static str),
}

/// The path from the first device to the current one.
#[derive(Default)]
struct Walk {
    path: Vec<String>,
    count: usize,
    remarks: Vec<String>,
}

impl Machine {
    /// Reads this machine, or the captured tree `sysroot`.
    pub fn read(sysroot: Option<&Path>) -> Self {
        let mut machine = Self::of_devices(sysroot);
        let root = sysroot.unwrap_or(Path::new("/"));
        machine.mounts = usage::mounts(&text_of(&root.join("proc/self/mountinfo")));
        machine.find_uses(root);
        machine
    }

    /// Reads which devices there are and what they stand on, but not who uses them.
    pub(crate) fn of_devices(sysroot: Option<&Path>) -> Self {
        let root = sysroot.unwrap_or(Path::new("/"));
        let mut machine = Self {
            sysroot: sysroot.map(Path::to_owned),
            devices: devices(&root.join("sys/block")),
            numbers: BTreeMap::new(),
            mounts: Vec::new(),
            swap_devices: Vec::new(),
            swap_files: Vec::new(),
            loops: Vec::new(),
            consumers: Vec::new(),
            tables: Tables::None,
            no_wake: false,
            remarks: Vec::new(),
        };
        let numbers =
            machine.devices.iter().filter_map(|(name, entry)| Some((entry.dev.clone()?, name.clone())));
        machine.numbers = numbers.collect();
        machine.link_above();
        if machine.devices.values().any(|entry| entry.directory.text("dm/name").is_some()) {
            machine.tables = machine.open_tables();
        }
        machine
    }

    /// Leaves disks in standby asleep: what stands on one is not read.
    #[must_use]
    pub fn leaving_asleep(mut self) -> Self {
        self.no_wake = true;
        self
    }

    /// Returns what could not be examined.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns why the kernel never lists partitions of the disk `name`, if it never does.
    pub fn never_lists_partitions(&self, name: &str) -> Option<&'static str> {
        sysfs::never_lists_partitions(name, &self.devices.get(name)?.directory)
    }

    /// Returns what stands on the disk or partition `name`, and what was left out. The partitions of a disk
    /// are not included: query them by their own names.
    pub fn layers(&self, name: &str) -> (Option<LiveDevice>, Vec<String>) {
        let mut walk = Walk::default();
        let device = self.device(name, &mut walk);
        (device, walk.remarks)
    }

    /// Fills in what stands on each device. Sysfs reports it at the lower device (`holders`) and at the upper
    /// one (`slaves`).
    fn link_above(&mut self) {
        let mut links: Vec<(String, String)> = Vec::new();
        for (name, entry) in &self.devices {
            links.extend(entry.directory.list("holders").into_iter().map(|holder| (name.clone(), holder)));
            links.extend(entry.directory.list("slaves").into_iter().map(|slave| (slave, name.clone())));
            links.extend(entry.disk.iter().map(|disk| (disk.clone(), name.clone())));
        }
        for (lower, upper) in links {
            if let Some(entry) = self.devices.get_mut(&lower) {
                entry.above.push(upper);
            }
        }
        for entry in self.devices.values_mut() {
            entry.above.sort_by_key(|name| sysfs::natural_order(name));
            entry.above.dedup();
        }
    }

    fn open_tables(&mut self) -> Tables {
        if let Some(root) = &self.sysroot {
            let path = root.join("dmsetup-table");
            if !path.is_file() {
                self.remarks
                    .push("dmsetup-table: not captured; the positions of mappings are unknown".to_owned());
                return Tables::Refused;
            }
            return Tables::Captured(captured_tables(&text_of(&path)));
        }
        match open_for_reading(Path::new(CONTROL)) {
            Ok(file) => Tables::Kernel(file),
            Err(error) => {
                self.remarks.push(format!(
                    "{CONTROL}: {error}; the positions of mappings on their devices are unknown"
                ));
                Tables::Refused
            }
        }
    }

    fn find_uses(&mut self, root: &Path) {
        for (path, is_file) in usage::swaps(&text_of(&root.join("proc/swaps"))) {
            if is_file {
                let device =
                    usage::mount_of(&self.mounts, &path).and_then(|mount| self.mounted_device(mount));
                self.swap_files.push((path, device));
            } else {
                self.swap_devices.extend(self.device_of_node(&path));
            }
        }
        let loops = self.devices.iter().filter_map(|(name, entry)| {
            let (file, offset) = loop_of(&entry.directory)?;
            let size = bytes_of_sectors(entry.directory.number("size")?)?.get();
            let mount = usage::mount_of(&self.mounts, &file);
            let device = mount.and_then(|mount| self.mounted_device(mount));
            Some((LoopUse { name: name.clone(), file, offset: offset.get(), size }, device))
        });
        self.loops = loops.collect();
        self.consumers = self.find_consumers_of_all(root);
    }

    /// Returns the mounted device: by its number or, for a file system without a device number (Btrfs), by
    /// its source.
    fn mounted_device(&self, mount: &Mount) -> Option<String> {
        self.numbers.get(&mount.dev).cloned().or_else(|| self.device_of_node(&mount.source))
    }

    /// Returns the device whose node is `path`.
    fn device_of_node(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix("/dev").ok()?.to_str()?;
        let by_name = name.replace('/', "!");
        if self.devices.contains_key(&by_name) {
            return Some(by_name);
        }
        if let Some(mapped) = name.strip_prefix("mapper/") {
            let mut devices = self.devices.iter();
            let found = devices.find(|(_, entry)| entry.directory.text("dm/name").as_deref() == Some(mapped));
            if let Some((name, _)) = found {
                return Some(name.clone());
            }
        }
        // A link made by udev. A captured tree has none.
        let metadata = self.sysroot.is_none().then(|| fs::metadata(path).ok()).flatten()?;
        metadata.file_type().is_block_device().then(|| self.numbers.get(&number_of(&metadata)).cloned())?
    }

    fn device(&self, name: &str, walk: &mut Walk) -> Option<LiveDevice> {
        let entry = self.devices.get(name)?;
        let size = entry.directory.number("size").and_then(bytes_of_sectors)?;
        let (kind, below, remarks) = self.describe(name, entry, size, &mut walk.remarks);
        // A lower device that only describes or caches data is not a way to it, so the walk ends there.
        let from = below.iter().find(|lower| walk.path.last() == Some(&lower.device));
        let is_way = from.is_none_or(|lower| lower.holds_data);
        walk.count += 1;
        walk.path.push(name.to_owned());
        let mut device = LiveDevice {
            name: name.to_owned(),
            node: sysfs::node_of(name),
            size,
            logical: self.logical(entry),
            kind,
            below,
            used_by: self.usage(name, entry),
            holders: Vec::new(),
            remarks,
            source: self.bytes_of(name, entry),
        };
        if is_way {
            device.holders = self.holders(entry, walk);
        }
        walk.path.pop();
        Some(device)
    }

    fn holders(&self, entry: &Entry, walk: &mut Walk) -> Vec<LiveDevice> {
        let is_first = walk.path.len() == 1;
        let mut found = Vec::new();
        for name in &entry.above {
            let is_partition = self.devices.get(name).is_some_and(|above| above.disk.is_some());
            if (is_first && is_partition) || walk.path.contains(name) {
                continue;
            }
            if walk.path.len() >= MAX_DEPTH || walk.count >= MAX_DEVICES {
                let remark = format!(
                    "{name}: devices on top of {} are not searched for further devices",
                    walk.path.join(" > ")
                );
                if walk.remarks.len() < MAX_DEPTH {
                    walk.remarks.push(remark);
                }
                break;
            }
            found.extend(self.device(name, walk));
        }
        found
    }

    /// Returns what a device is, the devices below it, and remarks.
    fn describe(
        &self,
        name: &str,
        entry: &Entry,
        size: ByteCount,
        refused: &mut Vec<String>,
    ) -> (LiveKind, Vec<Lower>, Vec<String>) {
        let directory = &entry.directory;
        let mut remarks = Vec::new();
        if let Some(array) = Array::read(directory) {
            let below = match directory.text("md/reshape_position").filter(|at| at != "none") {
                None => array.lowers(size, &mut remarks),
                Some(_) => {
                    remarks.push(
                        "it is being reshaped: the kernel does not report where its data is".to_owned(),
                    );
                    self.slaves(directory)
                }
            };
            return (LiveKind::Md(array), below, remarks);
        }
        if let Some(dm_name) = directory.text("dm/name") {
            let uuid = directory.text("dm/uuid").unwrap_or_default();
            let targets = self.targets(&dm_name, entry.dev.as_deref(), refused);
            let mapping = Mapping { owner: Owner::of(&uuid), name: dm_name, uuid, targets };
            let below = match mapping.targets {
                Some(_) => mapping.lowers(|number| self.numbers.get(number).cloned()),
                None => self.slaves(directory),
            };
            return (LiveKind::Dm(mapping), below, remarks);
        }
        if let Some(disk) = &entry.disk {
            let number = directory.number("partition").and_then(|number| u32::try_from(number).ok());
            let start = directory.number("start").and_then(|start| Lba::new(start).to_bytes(KERNEL_SECTOR));
            let run =
                start.zip(Span::new(ByteOffset::ZERO, size)).map(|(start, span)| Run::whole(span, start));
            let below = Lower { device: disk.clone(), holds_data: true, runs: run.into_iter().collect() };
            return (LiveKind::Partition(number.unwrap_or(0)), vec![below], remarks);
        }
        if name.starts_with("bcache") {
            return (LiveKind::Bcache, self.bcache_lowers(directory, size), remarks);
        }
        match loop_of(directory) {
            Some((file, offset)) => (LiveKind::Loop(file, offset), Vec::new(), remarks),
            None => (LiveKind::Disk, self.slaves(directory), remarks),
        }
    }

    /// Returns the devices that sysfs lists below a device, without their runs.
    fn slaves(&self, directory: &Directory) -> Vec<Lower> {
        let lower = |device: String| {
            let name = self.devices.get(&device).and_then(|entry| entry.directory.text("dm/name"));
            let holds_data = !name.is_some_and(|name| is_lvm_metadata(&name));
            Lower { device, holds_data, runs: Vec::new() }
        };
        directory.list("slaves").into_iter().map(lower).collect()
    }

    /// A bcache device shows its backing device from the start of the data on (`cached_dev_init`,
    /// drivers/md/bcache/super.c). Only a caching device has buckets.
    fn bcache_lowers(&self, directory: &Directory, size: ByteCount) -> Vec<Lower> {
        let mut lowers = self.slaves(directory);
        for lower in &mut lowers {
            let Some(below) = self.devices.get(&lower.device) else { continue };
            let is_cache = below.directory.text("bcache/bucket_size").is_some();
            lower.holds_data = !is_cache;
            let total = below.directory.number("size").and_then(bytes_of_sectors);
            let header = total.and_then(|total| total.get().checked_sub(size.get())).filter(|_| !is_cache);
            let span = Span::new(ByteOffset::ZERO, size);
            lower
                .runs
                .extend(header.zip(span).map(|(header, span)| Run::whole(span, ByteOffset::new(header))));
        }
        lowers
    }

    fn targets(
        &self,
        name: &str,
        dev: Option<&str>,
        remarks: &mut Vec<String>,
    ) -> Option<Vec<table::DmTarget>> {
        let lines = match &self.tables {
            Tables::None | Tables::Refused => return None,
            Tables::Captured(tables) => tables.get(name)?.clone(),
            Tables::Kernel(control) => {
                let (major, minor) = dev?.split_once(':')?;
                match ask_table(control, major.parse().ok()?, minor.parse().ok()?) {
                    Ok(lines) => lines,
                    Err(error) => {
                        let remark =
                            format!("{name}: its table cannot be read ({error}, {})", error.os_kind());
                        if !remarks.contains(&remark) {
                            remarks.push(remark);
                        }
                        return None;
                    }
                }
            }
        };
        Some(lines.iter().filter_map(table::target).collect())
    }

    fn usage(&self, name: &str, entry: &Entry) -> Usage {
        let is_here = |device: &Option<String>| device.as_deref() == Some(name);
        let mut mounts: Vec<Mount> = self
            .mounts
            .iter()
            .filter(|mount| match &entry.dev {
                Some(dev) if mount.dev == *dev => true,
                _ => mount.dev.starts_with("0:") && is_here(&self.mounted_device(mount)),
            })
            .cloned()
            .collect();
        mounts.sort_by_key(|mount| mount.root != Path::new("/"));
        mounts.truncate(MAX_USES);
        Usage {
            mounts,
            is_swap: self.swap_devices.iter().any(|device| device == name),
            swap_files: self
                .swap_files
                .iter()
                .filter(|(_, on)| is_here(on))
                .map(|(f, _)| f.clone())
                .collect(),
            loops: self
                .loops
                .iter()
                .filter(|(_, on)| is_here(on))
                .take(MAX_USES)
                .map(|(l, _)| l.clone())
                .collect(),
        }
    }

    fn logical(&self, entry: &Entry) -> Option<BlockSize> {
        let disk = entry.disk.as_ref().and_then(|disk| self.devices.get(disk)).unwrap_or(entry);
        BlockSize::new(disk.directory.number("queue/logical_block_size")?).ok()
    }

    fn bytes_of(&self, name: &str, entry: &Entry) -> BytesOf {
        match (&self.sysroot, &entry.dev) {
            (Some(root), _) => BytesOf::Copy(root.join("dev").join(name)),
            (None, _) if self.is_suspended(name, 0) => BytesOf::Not("it is suspended: a read would block"),
            (None, Some(_)) if self.no_wake && !matches!(standby::found(&entry.directory), Ok(None)) => {
                BytesOf::Not("a disk below it is in standby")
            }
            (None, Some(dev)) => BytesOf::Node(dev.clone()),
            (None, None) => BytesOf::Not("the kernel does not report its number"),
        }
    }

    /// Whether the device, or one below it, is suspended, in which case a read would hang.
    fn is_suspended(&self, name: &str, depth: usize) -> bool {
        let Some(entry) = self.devices.get(name).filter(|_| depth < MAX_DEPTH) else { return false };
        let below = entry.directory.list("slaves");
        entry.directory.number("dm/suspended") == Some(1)
            || below.iter().chain(&entry.disk).any(|below| self.is_suspended(below, depth + 1))
    }
}

impl BytesOf {
    pub(super) fn open(&self, node: &Path, size: ByteCount) -> Result<FileMedium, String> {
        let path = match self {
            Self::Not(why) => return Err((*why).to_owned()),
            Self::Node(_) => node,
            Self::Copy(path) => path,
        };
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        if matches!(self, Self::Copy(_)) && !fs::metadata(path).map_err(named)?.is_file() {
            return Err(format!("{}: not a file", path.display()));
        }
        let file = open_for_reading(path).map_err(named)?;
        let metadata = file.metadata().map_err(named)?;
        let is_it = match self {
            Self::Node(dev) => metadata.file_type().is_block_device() && number_of(&metadata) == *dev,
            _ => metadata.is_file() && metadata.len() == size.get(),
        };
        if !is_it {
            return Err(format!("{}: not the device that sysfs describes", path.display()));
        }
        Ok(FileMedium::new(file, size))
    }
}

fn number_of(metadata: &fs::Metadata) -> String {
    format!("{}:{}", rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()))
}

fn bytes_of_sectors(sectors: u64) -> Option<ByteCount> {
    LbaCount::new(sectors).to_bytes(KERNEL_SECTOR)
}

/// Returns the disks under `block` and their partitions.
fn devices(block: &Path) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    let entry = |path: PathBuf, disk: Option<&String>| {
        let directory = Directory::new(path);
        let dev = directory.text("dev");
        Entry { directory, dev, disk: disk.cloned(), above: Vec::new() }
    };
    for disk in list_names(block) {
        let path = block.join(&disk);
        for name in list_names(&path) {
            // A partition's name begins with its disk's name.
            if name.starts_with(&disk) && path.join(&name).join("partition").is_file() {
                found.insert(name.clone(), entry(path.join(&name), Some(&disk)));
            }
        }
        found.insert(disk, entry(path, None));
    }
    found
}

/// Whether LVM gives this name to a device that only describes another volume (`dm_build_dm_name` of `_tmeta`
/// and the like).
fn is_lvm_metadata(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    ["_tmeta", "_cmeta", "_rmeta_", "_mlog", "_imeta"].iter().any(|suffix| name.ends_with(suffix))
}

/// Returns the backing file of a loop device, and the offset at which the device begins in it.
fn loop_of(directory: &Directory) -> Option<(PathBuf, ByteOffset)> {
    let file = directory.text("loop/backing_file")?;
    Some((PathBuf::from(file), ByteOffset::new(directory.number("loop/offset").unwrap_or(0))))
}

/// Parses the output of `dmsetup table`, by device name.
fn captured_tables(text: &str) -> BTreeMap<String, Vec<TableLine>> {
    let mut tables: BTreeMap<String, Vec<TableLine>> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, line)) = line.split_once(": ") else { continue };
        let lines = tables.entry(name.to_owned()).or_default();
        lines.extend(TableLine::parse(line).filter(|_| lines.len() < MAX_TARGETS));
    }
    tables
}

/// Reads a text file, up to `LARGEST_TEXT` bytes. One that cannot be read is empty.
fn text_of(path: &Path) -> String {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut bytes = Vec::new();
    if let Ok(file) = if is_file { File::open(path) } else { return String::new() } {
        // What was read before an error is kept.
        let _ = file.take(LARGEST_TEXT).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
