//! The block devices of this machine, or of a captured tree, and what stands on each.

mod stacking;
mod uses;
pub use stacking::Holder;
pub use uses::sees_all_processes;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::array::Array;
use super::mapping::{Mapping, Owner};
use super::runs::Run;
use super::usage::{self, MAX_USES, Mount, Usage};
use super::{LiveDevice, LiveKind, Lower, MAX_DEPTH, MAX_DEVICES, table};
use crate::ioctl::dm::{MAX_TARGETS, TableLine, table as ask_table};
use crate::medium::FileMedium;
use crate::standby;
use crate::sysfs::{self, Attributes, Directory, list_names};
use crate::target::open_for_reading;

const LARGEST_TEXT: u64 = 16 << 20;

const CONTROL: &str = "/dev/mapper/control";

/// The block devices of a machine.
#[derive(Default)]
pub struct Machine {
    sysroot: Option<PathBuf>,
    devices: BTreeMap<String, Entry>,
    /// Names by `major:minor`.
    numbers: BTreeMap<String, String>,
    mounts: Vec<Mount>,
    swap_devices: Vec<String>,
    swap_files: Vec<PathBuf>,
    consumers: Vec<uses::Consumer>,
    tables: Tables,
    no_wake: bool,
    remarks: Vec<String>,
}

struct Entry {
    directory: Directory,
    dev: Option<String>,
    disk: Option<String>,
    above: Vec<String>,
}

#[derive(Default)]
enum Tables {
    #[default]
    None,
    Kernel(File),
    Captured(BTreeMap<String, Vec<TableLine>>),
}

#[derive(Clone, Debug)]
pub(super) enum BytesOf {
    /// It must have this `major:minor`.
    Node(String),
    Copy(PathBuf),
    Not(&'static str),
}

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

    pub(crate) fn of_devices(sysroot: Option<&Path>) -> Self {
        let root = sysroot.unwrap_or(Path::new("/"));
        let mut machine = Self {
            sysroot: sysroot.map(Path::to_owned),
            devices: devices(&root.join("sys/block")),
            ..Self::default()
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

    /// Returns what stands on `name`, without the partitions of a disk, and what was left out.
    pub fn layers(&self, name: &str) -> (Option<LiveDevice>, Vec<String>) {
        let mut walk = Walk::default();
        let device = self.device(name, &mut walk);
        (device, walk.remarks)
    }

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
                let remark = "dmsetup-table: was not captured, so the positions of mappings on their devices \
                              are unknown";
                self.remarks.push(remark.to_owned());
                return Tables::None;
            }
            return Tables::Captured(captured_tables(&text_of(&path)));
        }
        match open_for_reading(Path::new(CONTROL)) {
            Ok(file) => Tables::Kernel(file),
            Err(error) => {
                self.remarks.push(format!(
                    "{CONTROL}: {error}; the positions of mappings on their devices are unknown"
                ));
                Tables::None
            }
        }
    }

    fn find_uses(&mut self, root: &Path) {
        for (path, is_file) in usage::swaps(&text_of(&root.join("proc/swaps"))) {
            if is_file {
                self.swap_files.push(path);
            } else {
                self.swap_devices.extend(self.device_of_node(&path));
            }
        }
        self.consumers = self.find_consumers_of_all(root);
    }

    fn mounted_device(&self, mount: &Mount) -> Option<String> {
        self.numbers.get(&mount.dev).cloned().or_else(|| self.device_of_node(&mount.source))
    }

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
        // udev's links. A captured tree has none.
        let metadata = self.sysroot.is_none().then(|| fs::metadata(path).ok()).flatten()?;
        metadata.file_type().is_block_device().then(|| self.numbers.get(&number_of(&metadata)).cloned())?
    }

    fn device(&self, name: &str, walk: &mut Walk) -> Option<LiveDevice> {
        let entry = self.devices.get(name)?;
        let size = entry.directory.sectors("size")?;
        let (kind, below, remarks) = self.describe(name, entry, size, &mut walk.remarks);
        // What only describes or caches data does not count.
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
                if walk.remarks.len() < MAX_DEPTH {
                    let path = walk.path.join(" > ");
                    walk.remarks.push(format!(
                        "{name}: too many layers or devices are stacked here, so those on top of {path} were \
                         not examined"
                    ));
                }
                break;
            }
            found.extend(self.device(name, walk));
        }
        found
    }

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
                    let remark = "the array is being reshaped, and the kernel does not report where its data \
                                  is";
                    remarks.push(remark.to_owned());
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
            let number = directory.text("partition").and_then(|number| number.parse().ok());
            let start = directory.sectors("start").map(|start| ByteOffset::new(start.get()));
            let run = start.map(|start| Run::whole(Span::first(size), start));
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

    fn slaves(&self, directory: &Directory) -> Vec<Lower> {
        let lower = |device: String| {
            let name = self.devices.get(&device).and_then(|entry| entry.directory.text("dm/name"));
            let holds_data = !name.is_some_and(|name| is_lvm_metadata(&name));
            Lower { device, holds_data, runs: Vec::new() }
        };
        directory.list("slaves").into_iter().map(lower).collect()
    }

    /// Only a caching device has buckets. A bcache device shows its backing device from the data on.
    fn bcache_lowers(&self, directory: &Directory, size: ByteCount) -> Vec<Lower> {
        let mut lowers = self.slaves(directory);
        for lower in &mut lowers {
            let Some(below) = self.devices.get(&lower.device) else { continue };
            let is_cache = below.directory.text("bcache/bucket_size").is_some();
            lower.holds_data = !is_cache;
            let total = below.directory.sectors("size").filter(|_| !is_cache);
            let header = total.and_then(|total| total.checked_sub(size));
            lower
                .runs
                .extend(header.map(|header| Run::whole(Span::first(size), ByteOffset::new(header.get()))));
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
            Tables::None => return None,
            Tables::Captured(tables) => tables.get(name)?.clone(),
            Tables::Kernel(control) => {
                let (major, minor) = dev?.split_once(':')?;
                match ask_table(control, major.parse().ok()?, minor.parse().ok()?) {
                    Ok(lines) => lines,
                    Err(error) => {
                        let why = error.os_kind();
                        let remark =
                            format!("{name}: the device-mapper table cannot be read ({error}, {why})");
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
        let mut mounts: Vec<Mount> = self
            .mounts
            .iter()
            .filter(|mount| match &entry.dev {
                Some(dev) if mount.dev == *dev => true,
                _ => mount.dev.starts_with("0:") && self.mounted_device(mount).as_deref() == Some(name),
            })
            .cloned()
            .collect();
        mounts.sort_by_key(|mount| mount.root != Path::new("/"));
        mounts.truncate(MAX_USES);
        Usage { mounts, is_swap: self.swap_devices.iter().any(|device| device == name) }
    }

    fn logical(&self, entry: &Entry) -> Option<BlockSize> {
        let disk = entry.disk.as_ref().and_then(|disk| self.devices.get(disk)).unwrap_or(entry);
        BlockSize::new(disk.directory.number("queue/logical_block_size")?).ok()
    }

    fn bytes_of(&self, name: &str, entry: &Entry) -> BytesOf {
        match (&self.sysroot, &entry.dev) {
            (Some(root), _) => BytesOf::Copy(root.join("dev").join(name)),
            (None, _) if self.is_suspended(name, 0) => {
                BytesOf::Not("the device is suspended, so a read would block")
            }
            (None, Some(_)) if self.no_wake && !matches!(standby::found(&entry.directory), Ok(None)) => {
                BytesOf::Not("a disk below this device is in standby")
            }
            (None, Some(dev)) => BytesOf::Node(dev.clone()),
            (None, None) => BytesOf::Not("the kernel does not report the device number"),
        }
    }

    /// A read of a suspended device, or of one that stands on it, would hang.
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
    sysfs::number_text(metadata.rdev())
}

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
            if name.starts_with(&disk) && path.join(&name).join("partition").is_file() {
                found.insert(name.clone(), entry(path.join(&name), Some(&disk)));
            }
        }
        found.insert(disk, entry(path, None));
    }
    found
}

/// `dm_build_dm_name`.
fn is_lvm_metadata(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    ["_tmeta", "_cmeta", "_rmeta_", "_mlog", "_imeta"].iter().any(|suffix| name.ends_with(suffix))
}

fn loop_of(directory: &Directory) -> Option<(PathBuf, ByteOffset)> {
    let file = directory.text("loop/backing_file")?;
    Some((PathBuf::from(file), ByteOffset::new(directory.number("loop/offset").unwrap_or(0))))
}

fn captured_tables(text: &str) -> BTreeMap<String, Vec<TableLine>> {
    let mut tables: BTreeMap<String, Vec<TableLine>> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, line)) = line.split_once(": ") else { continue };
        let lines = tables.entry(name.to_owned()).or_default();
        lines.extend(TableLine::parse(line).filter(|_| lines.len() < MAX_TARGETS));
    }
    tables
}

fn text_of(path: &Path) -> String {
    let mut bytes = Vec::new();
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::open(path)
    {
        // What was read before an error is kept.
        let _ = file.take(LARGEST_TEXT).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
