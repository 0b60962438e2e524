//! The device that is recorded, and an instance of tracefs: buffers and events of this process alone, in
//! `instances/straddle-PID`. It is removed on drop; one that a killed process left is removed by the next recording.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use straddle_device::sysfs::{self, Attributes, Directory};

use crate::tracefs::RecordError;
use crate::{Partition, Recorded, SECTOR};

const PREFIX: &str = "straddle-";

pub(crate) const EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];

#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
}

/// Read without waiting.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) processor: u32,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
}

impl Instance {
    pub(crate) fn new() -> Result<Self, RecordError> {
        let all = mounted()?.join("instances");
        remove_orphans(&all);
        let path = all.join(format!("{PREFIX}{}", std::process::id()));
        let made = match fs::create_dir(&path) {
            // Left by a process of the same number, or not yet removed by the kernel.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir(&path).and_then(|()| fs::create_dir(&path))
            }
            made => made,
        };
        match made {
            Ok(()) => Ok(Self { path }),
            Err(source) => Err(failed(path)(source)),
        }
    }

    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), RecordError> {
        let path = self.path.join(name);
        fs::write(&path, value).map_err(failed(path))
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, RecordError> {
        let path = self.path.join(name);
        text(&path).map_err(failed(path))
    }

    /// Reads the description of pages, which old kernels have for all instances only.
    pub(crate) fn page_format(&self) -> Result<(PathBuf, String), RecordError> {
        let own = self.path.join("events/header_page");
        let all = self.path.ancestors().nth(2).map(|root| root.join("events/header_page"));
        let path = if own.exists() { own } else { all.unwrap_or(own) };
        match text(&path) {
            Ok(text) => Ok((path, text)),
            Err(source) => Err(failed(path)(source)),
        }
    }

    pub(crate) fn event_format(&self, event: &str) -> Result<(PathBuf, String), RecordError> {
        let path = self.path.join("events/block").join(event).join("format");
        match text(&path) {
            Ok(text) => Ok((path, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RecordError::NoEvents),
            Err(source) => Err(failed(path)(source)),
        }
    }

    pub(crate) fn enable(&self, is_on: bool) -> Result<(), RecordError> {
        EVENTS.iter().try_for_each(|event| {
            self.set(&format!("events/block/{event}/enable"), if is_on { "1" } else { "0" })
        })
    }

    pub(crate) fn buffers(&self) -> Result<Vec<Buffer>, RecordError> {
        let folder = self.path.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(failed(folder))?;
        let mut buffers = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(processor) = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok())
            else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::open(&path, flags, Mode::empty());
            let file = file.map_err(|error| failed(path.clone())(error.into()))?;
            buffers.push(Buffer { processor, file: file.into(), path });
        }
        buffers.sort_by_key(|buffer| buffer.processor);
        Ok(buffers)
    }

    pub(crate) fn lost(&self, buffers: &[Buffer]) -> Result<u64, RecordError> {
        buffers.iter().try_fold(0_u64, |sum, buffer| {
            let stats = self.text(&format!("per_cpu/cpu{}/stats", buffer.processor))?;
            Ok(sum.saturating_add(lost(&stats)))
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The kernel keeps it while a buffer is open; those have been closed.
        let _ = self.enable(false);
        let _ = fs::remove_dir(&self.path);
    }
}

/// By the `stats` file of a processor.
fn lost(stats: &str) -> u64 {
    const KEYS: [&str; 3] = ["overrun", "commit overrun", "dropped events"];
    let number = |line: &str| {
        let (key, number) = line.split_once(':')?;
        KEYS.contains(&key.trim()).then(|| number.trim().parse().ok()).flatten()
    };
    stats.lines().filter_map(number).fold(0, u64::saturating_add)
}

/// Reads a file of tracefs in one call with room for all: `header_page` does not answer a second one.
fn text(path: &Path) -> io::Result<String> {
    const MAX_TEXT: usize = 1 << 16;
    let mut bytes = vec![0; MAX_TEXT];
    let mut file = File::open(path)?;
    let first = file.read(&mut bytes)?;
    bytes.truncate(first);
    file.take((MAX_TEXT - first) as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn failed(path: PathBuf) -> impl FnOnce(io::Error) -> RecordError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => {
            RecordError::Denied { path, source }
        }
        _ => RecordError::Tracefs { path, source },
    }
}

fn mounted() -> Result<PathBuf, RecordError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mount_point(&mounts).or_else(|| {
        // debugfs mounts it there when it is first looked up.
        let within = Path::new("/sys/kernel/debug/tracing");
        within.join("instances").is_dir().then(|| within.to_owned())
    });
    found.ok_or_else(|| {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let is_known = known.lines().any(|line| line.split_whitespace().last() == Some("tracefs"));
        if is_known { RecordError::NotMounted } else { RecordError::NoTracefs }
    })
}

/// As `/proc/self/mounts` lists it.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let mut lines = mounts.lines().map(|line| line.split(' '));
    lines.find_map(|mut fields| {
        let (_, path, kind) = (fields.next()?, fields.next()?, fields.next()?);
        // A blank in the path is written as \040; nobody mounts tracefs there.
        (kind == "tracefs").then(|| PathBuf::from(path))
    })
}

fn remove_orphans(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

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

    /// Returns the condition for the kernel's events. Flushes and the like name only the whole disk.
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
    fn what_was_lost_is_summed_up() {
        let stats = "entries: 170\noverrun: 630\ncommit overrun: 2\nbytes: 10936\noldest event ts:    17.119420\n\
                     now ts:    17.137407\ndropped events: 3\nread events: 393\n";
        assert_eq!(lost(stats), 635);
        assert_eq!(lost("overrun: many\noverrun\n"), 0);
        assert_eq!(lost(&format!("overrun: {0}\ndropped events: {0}\n", u64::MAX)), u64::MAX);
    }

    #[test]
    fn tracefs_is_found_where_it_is_mounted() {
        let mounts = "sysfs /sys sysfs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw,nosuid 0 0\n";
        assert_eq!(mount_point(mounts), Some(PathBuf::from("/sys/kernel/tracing")));
        assert_eq!(mount_point("sysfs /sys sysfs rw 0 0\nx\n"), None);
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!(number("254:0\n"), Some(266_338_304));
        assert_eq!(number("8:17"), Some(8 << 20 | 17));
        for bad in ["", "8", "8:", "4096:0", "8:1048576", "x:y"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }
}
