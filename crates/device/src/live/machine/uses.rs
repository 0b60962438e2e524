//! Uses of a device or a file: what stands on it, and users that do not claim it.
//!
//! A use is found whichever end the kernel reports it at, through any number of layers. Users of a whole disk count
//! for its partitions, and those below for the device above, but not those of other partitions or volumes.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{Entry, Machine, number_of, sysfs, text_of};
use crate::claim::FileId;
use crate::ioctl;
use crate::live::MAX_DEPTH;
use crate::sysfs::{Attributes, Directory, list_names};
use crate::target::open_for_reading;

const MAX_LISTED: usize = 64;

/// fcntl(2). The `flags` of /proc/PID/fdinfo/FD are octal.
const ACCESS: u32 = 0o3;

pub(super) struct Consumer {
    label: String,
    device: Option<String>,
    backing: Backing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Backing {
    Device(String),
    /// By identity; in a captured tree by name.
    File(Option<FileId>, PathBuf),
}

impl Backing {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(Some(one), _), Self::File(Some(other), _)) => one == other,
            (Self::File(_, one), Self::File(_, other)) => one == other,
            (one, other) => one == other,
        }
    }
}

#[derive(Default)]
struct Found {
    uses: Vec<String>,
    seen: BTreeSet<String>,
    watched: Vec<(FileId, String)>,
}

enum Lower<'a> {
    Device(Link, String),
    File(&'a Backing),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Disk,
    /// A loop device or the like: partitions below are other ways to the same bytes.
    Backing,
    Member,
}

impl Machine {
    /// Returns the uses of a file or block device in words: those of its parts, of what stands on it and,
    /// where that is another way to the same bytes, of what it stands on.
    pub fn uses(&self, path: &Path) -> Vec<String> {
        fs::metadata(path).map_or_else(|_| Vec::new(), |metadata| self.uses_of(&metadata, path))
    }

    /// Does the same for an open file, which cannot have been replaced.
    pub fn uses_of(&self, metadata: &Metadata, path: &Path) -> Vec<String> {
        if metadata.file_type().is_block_device() {
            return self.device_of(metadata).map_or_else(Vec::new, |name| self.uses_of_device(name));
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.uses_of_file(&Backing::File(Some(FileId::of(metadata)), path))
    }

    /// Returns the uses of the disk with this `metadata`, apart from the uses of its partitions.
    pub fn uses_of_whole(&self, metadata: &Metadata) -> Vec<String> {
        self.device_of(metadata).map_or_else(Vec::new, |name| self.uses_of_whole_disk(name))
    }

    fn device_of(&self, metadata: &Metadata) -> Option<&String> {
        let number = metadata.file_type().is_block_device().then(|| number_of(metadata))?;
        self.numbers.get(&number)
    }

    fn uses_of_device(&self, name: &str) -> Vec<String> {
        let mut found = Found::default();
        for name in std::iter::once(name).chain(self.partitions_of(name)) {
            self.find_above(name, &mut found);
            found.watched.extend(self.id_of(name));
        }
        self.find_below(name, 0, &mut found);
        self.find_open(&mut found);
        found.uses
    }

    fn uses_of_whole_disk(&self, name: &str) -> Vec<String> {
        let mut found = Found::default();
        self.find_direct(name, None, &mut found);
        found.uses
    }

    fn uses_of_file(&self, file: &Backing) -> Vec<String> {
        let mut found = Found::default();
        self.find_users_of_file(file, None, &mut found);
        if let Backing::File(Some(id), _) = file {
            found.watched.push((*id, "it".to_owned()));
        }
        self.find_open(&mut found);
        found.uses
    }

    fn find_users_of_file(&self, file: &Backing, but: Option<&str>, found: &mut Found) {
        for consumer in self.consumers.iter().filter(|consumer| consumer.backing.is_same(file)) {
            if but.is_some() && consumer.device.as_deref() == but {
                continue;
            }
            found.tell(match but {
                None => format!("the file is the backing file of {}", consumer.label),
                Some(_) => format!("the file below the target also backs {}", consumer.label),
            });
            if let Some(device) = &consumer.device {
                self.find_above(device, found);
            }
        }
        let Backing::File(id, path) = file else { return };
        let is_swap = self
            .swap_files
            .iter()
            .any(|swap| swap == path || (id.is_some() && self.sysroot.is_none() && id_of_path(swap) == *id));
        if is_swap {
            found.tell(if but.is_none() {
                "the file is a swap file"
            } else {
                "the file below the target is a swap file"
            });
        }
    }

    fn find_above(&self, name: &str, found: &mut Found) {
        let Some(entry) = self.devices.get(name) else { return };
        if !found.seen.insert(name.to_owned()) {
            return;
        }
        self.find_direct(name, None, found);
        for above in &entry.above {
            self.find_above(above, found);
        }
        for device in self.consumers_of(name).filter_map(|consumer| consumer.device.as_ref()) {
            self.find_above(device, found);
        }
    }

    fn consumers_of(&self, name: &str) -> impl Iterator<Item = &Consumer> {
        let backing = Backing::Device(name.to_owned());
        self.consumers.iter().filter(move |consumer| consumer.backing == backing)
    }

    fn find_direct(&self, name: &str, but: Option<&str>, found: &mut Found) {
        let Some(entry) = self.devices.get(name) else { return };
        let used = self.usage(name, entry);
        for mount in &used.mounts {
            found.tell(format!("{name} is mounted at {}", mount.point.display()));
        }
        if used.is_swap {
            found.tell(format!("{name} is used as swap space"));
        }
        for above in entry.above.iter().filter(|above| but != Some(above.as_str())) {
            if self.devices.get(above).is_none_or(|above| above.disk.is_none()) {
                found.tell(format!("{above} is using {name}"));
            }
        }
        self.find_consumers(name, but, found);
    }

    /// Returns the other devices and files that hold bytes of a device: its partitions, the disk of a
    /// partition, members below, and the devices (with their partitions) and files behind loop devices.
    pub fn other_ways(&self, metadata: &Metadata) -> Vec<(FileId, PathBuf)> {
        let mut below = Vec::new();
        if let Some(name) = self.device_of(metadata) {
            for partition in self.partitions_of(name) {
                self.add_node(partition, &mut below);
            }
            self.find_all_below(name, 0, &mut below);
        }
        below
    }

    /// Loop devices do not claim what they use.
    pub fn behind(&self, metadata: &Metadata) -> Vec<(FileId, PathBuf)> {
        let is_backing = |consumer: &&Consumer, id: FileId| match &consumer.backing {
            Backing::Device(device) => self.id_of(device).is_some_and(|(of, _)| of == id),
            Backing::File(of, _) => *of == Some(id),
        };
        let is_behind =
            |(id, _): &(FileId, PathBuf)| self.consumers.iter().any(|consumer| is_backing(&consumer, *id));
        self.other_ways(metadata).into_iter().filter(is_behind).collect()
    }

    fn find_all_below(&self, name: &str, depth: usize, below: &mut Vec<(FileId, PathBuf)>) {
        for lower in self.lower(name, depth) {
            match lower {
                Lower::File(Backing::File(Some(id), path)) => {
                    add(below, *id, path);
                }
                Lower::File(_) => {}
                Lower::Device(link, device) => {
                    if link == Link::Backing {
                        for partition in self.partitions_of(&device) {
                            self.add_node(partition, below);
                        }
                    }
                    if self.add_node(&device, below) {
                        self.find_all_below(&device, depth + 1, below);
                    }
                }
            }
        }
    }

    fn add_node(&self, name: &str, below: &mut Vec<(FileId, PathBuf)>) -> bool {
        self.id_of(name).is_some_and(|(id, node)| add(below, id, Path::new(&node)))
    }

    fn partitions_of(&self, disk: &str) -> impl Iterator<Item = &str> {
        let is_on = move |(_, entry): &(&String, &Entry)| entry.disk.as_deref() == Some(disk);
        self.devices.iter().filter(is_on).map(|(name, _)| name.as_str())
    }

    fn lower(&self, name: &str, depth: usize) -> Vec<Lower<'_>> {
        let Some(entry) = self.devices.get(name).filter(|_| depth < MAX_DEPTH) else { return Vec::new() };
        let disk = entry.disk.iter().map(|disk| Lower::Device(Link::Disk, disk.clone()));
        let members = entry.directory.list("slaves").into_iter();
        let members = members.map(|member| Lower::Device(Link::Member, member));
        let own = self.consumers.iter().filter(|consumer| consumer.device.as_deref() == Some(name));
        let backing = own.map(|consumer| match &consumer.backing {
            Backing::Device(device) => Lower::Device(Link::Backing, device.clone()),
            file @ Backing::File(..) => Lower::File(file),
        });
        disk.chain(members).chain(backing).collect()
    }

    fn find_consumers(&self, name: &str, but: Option<&str>, found: &mut Found) {
        for consumer in self.consumers_of(name) {
            if but.is_none() || consumer.device.as_deref() != but {
                found.tell(format!("{name} is the backing device of {}", consumer.label));
            }
        }
    }

    fn find_below(&self, name: &str, depth: usize, found: &mut Found) {
        for lower in self.lower(name, depth) {
            let (link, device) = match lower {
                Lower::File(file) => {
                    self.find_users_of_file(file, Some(name), found);
                    if let Backing::File(Some(id), _) = file {
                        found.watched.push((*id, "the file below the target".to_owned()));
                    }
                    continue;
                }
                Lower::Device(link, device) => (link, device),
            };
            match link {
                Link::Disk | Link::Backing => self.find_direct(&device, Some(name), found),
                Link::Member => self.find_consumers(&device, Some(name), found),
            }
            if link == Link::Backing {
                for partition in self.partitions_of(&device) {
                    self.find_above(partition, found);
                    found.watched.extend(self.id_of(partition));
                }
            }
            found.watched.extend(self.id_of(&device));
            self.find_below(&device, depth + 1, found);
        }
    }

    fn id_of(&self, name: &str) -> Option<(FileId, String)> {
        let (major, minor) = self.devices.get(name)?.dev.as_deref()?.split_once(':')?;
        let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        Some((FileId::of_device(number), sysfs::node_of(name).display().to_string()))
    }

    /// As far as /proc shows them.
    fn find_open(&self, found: &mut Found) {
        if self.sysroot.is_some() || found.watched.is_empty() {
            return;
        }
        let own = std::process::id().to_string();
        for process in list_names(Path::new("/proc")) {
            if process == own || !process.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let folder = Path::new("/proc").join(&process);
            let tell = |found: &mut Found, how: &str| {
                let name = text_of(&folder.join("comm"));
                found.tell(format!("process {process} ({}) has {how} for writing", name.trim_end()));
            };
            for what in mapped_for_writing(&folder, &found.watched) {
                tell(found, &format!("{what} mapped"));
            }
            for fd in list_names(&folder.join("fd")) {
                let Ok(metadata) = fs::metadata(folder.join("fd").join(&fd)) else { continue };
                let id = FileId::of(&metadata);
                let Some((_, what)) = found.watched.iter().find(|(watched, _)| *watched == id) else {
                    continue;
                };
                let is_for_writing = || is_for_writing(&text_of(&folder.join("fdinfo").join(&fd)));
                // A program that we start has our files open until it executes, and none of them after that.
                if is_for_writing() && !is_being_started_by_us(&folder) && is_for_writing() {
                    let how = format!("{what} open");
                    tell(found, &how);
                }
            }
        }
    }

    pub(super) fn find_consumers_of_all(&self, root: &Path) -> Vec<Consumer> {
        let mut consumers = Vec::new();
        // No partition is a consumer, and there may be very many.
        for (name, entry) in self.devices.iter().filter(|(_, entry)| entry.disk.is_none()) {
            let mut add = |label: String, backing: Option<Backing>| {
                let device = Some(name.clone());
                consumers.extend(backing.map(|backing| Consumer { label, device, backing }));
            };
            if let Some(file) = entry.directory.text("loop/backing_file") {
                let asked = self.sysroot.is_none().then(|| self.asked_of_loop(name)).flatten();
                add(format!("/dev/{name}"), asked.or_else(|| self.backing(Path::new(&file))));
            }
            if let Some(file) = entry.directory.text("backing_dev").filter(|file| file.starts_with('/')) {
                add(
                    format!("/dev/{name}, which writes back to this file or device"),
                    self.backing(Path::new(&file)),
                );
            }
        }
        for (label, file) in exported(&root.join("sys/kernel/config")) {
            consumers.extend(self.backing(&file).map(|backing| Consumer { label, device: None, backing }));
        }
        consumers
    }

    fn asked_of_loop(&self, name: &str) -> Option<Backing> {
        let file = open_for_reading(&Path::new("/dev").join(name)).ok()?;
        let dev = self.devices.get(name)?.dev.as_deref()?;
        if number_of(&file.metadata().ok()?) != dev {
            return None;
        }
        let backing = ioctl::loops::backing(&file).ok()?;
        if backing.of_device == 0 {
            let path = PathBuf::from(self.devices.get(name)?.directory.text("loop/backing_file")?);
            return Some(Backing::File(Some(FileId::of_file(backing.device, backing.inode)), path));
        }
        self.numbers.get(&sysfs::number_text(backing.of_device)).cloned().map(Backing::Device)
    }

    fn backing(&self, path: &Path) -> Option<Backing> {
        if self.sysroot.is_some() {
            return Some(match self.device_of_node(path) {
                Some(device) => Backing::Device(device),
                None => Backing::File(None, path.to_owned()),
            });
        }
        let Ok(metadata) = fs::metadata(path) else { return Some(Backing::File(None, path.to_owned())) };
        if metadata.file_type().is_block_device() {
            return self.numbers.get(&number_of(&metadata)).cloned().map(Backing::Device);
        }
        Some(Backing::File(Some(FileId::of(&metadata)), path.to_owned()))
    }
}

impl Found {
    fn tell(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.uses.len() < MAX_LISTED && !self.uses.contains(&what) {
            self.uses.push(what);
        }
    }
}

fn add(list: &mut Vec<(FileId, PathBuf)>, id: FileId, path: &Path) -> bool {
    let is_new = !list.iter().any(|(listed, _)| *listed == id);
    if is_new {
        list.push((id, path.to_owned()));
    }
    is_new
}

fn id_of_path(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().filter(|metadata| metadata.ino() != 0).map(|metadata| FileId::of(&metadata))
}

/// A thread of ours has forked it to start a program.
fn is_being_started_by_us(process: &Path) -> bool {
    let program = |process: &Path| id_of_path(&process.join("exe"));
    let own = format!("PPid:\t{}", std::process::id());
    text_of(&process.join("status")).lines().any(|line| line == own)
        && program(process).is_some_and(|of| Some(of) == program(Path::new("/proc/self")))
}

/// Open or not (proc_pid_maps(5)).
fn mapped_for_writing(process: &Path, watched: &[(FileId, String)]) -> Vec<String> {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let mut found = Vec::new();
    for line in maps.lines() {
        let mut words = line.splitn(6, ' ');
        let (Some(range), Some(rights), Some(path)) = (words.next(), words.next(), words.nth(3)) else {
            continue;
        };
        let is_file = path.trim_start().starts_with('/');
        if !(is_file && rights.as_bytes().get(1) == Some(&b'w') && rights.ends_with('s')) {
            continue;
        }
        // By the mapped file itself or, without the right to that, by its name.
        let mapped = fs::metadata(process.join("map_files").join(range));
        let Ok(mapped) = mapped.or_else(|_| fs::metadata(path.trim_start())) else { continue };
        let id = FileId::of(&mapped);
        found.extend(watched.iter().find(|(watched, _)| *watched == id).map(|(_, what)| what.clone()));
    }
    found.dedup();
    found
}

/// Whether /proc shows us the open files of every process.
pub fn sees_all_processes() -> bool {
    let is_hidden = |process: &String| {
        let files = fs::read_dir(Path::new("/proc").join(process).join("fd"));
        files.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let processes = list_names(Path::new("/proc"));
    !processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).any(is_hidden)
}

fn is_for_writing(text: &str) -> bool {
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS != 0)
}

/// What the kernel exports by `configfs`: NVMe targets, SCSI targets' backstores (LIO) and USB gadgets
/// (Documentation/nvme, Documentation/target, Documentation/usb/gadget_configfs.rst).
fn exported(config: &Path) -> Vec<(String, PathBuf)> {
    type Label = fn(&[String]) -> String;
    // Folders in which a name follows, the attribute with the path, and the label by the names.
    const KINDS: [(&[&str], &str, Label); 3] = [
        (&["nvmet/subsystems", "namespaces"], "device_path", |names| {
            format!("namespace {} of the NVMe target {}", names[1], names[0])
        }),
        (&["target/core", ""], "udev_path", |names| format!("the SCSI target's {}/{}", names[0], names[1])),
        (&["usb_gadget", "functions", ""], "file", |names| {
            format!("{}/{} of the USB gadget {}", names[1], names[2], names[0])
        }),
    ];
    let mut found = Vec::new();
    for (folders, attribute, label) in KINDS {
        let mut places = vec![(config.to_owned(), Vec::new())];
        for folder in folders {
            let below = |(path, names): (PathBuf, Vec<String>)| {
                let path = path.join(folder);
                list_names(&path)
                    .into_iter()
                    .map(move |name| (path.join(&name), [&names[..], &[name]].concat()))
            };
            places = places.into_iter().flat_map(below).collect();
        }
        for (path, names) in places {
            let directory = Directory::new(path);
            let is_enabled = directory.number("enable").unwrap_or(1) == 1;
            let file = directory.text(attribute).filter(|file| is_enabled && file.starts_with('/'));
            found.extend(file.map(|file| (label(&names), PathBuf::from(file))));
        }
    }
    found.sort_by_key(|(label, _)| sysfs::natural_order(label));
    found
}

#[cfg(test)]
mod tests;
