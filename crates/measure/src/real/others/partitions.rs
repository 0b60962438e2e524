//! Detects partitions that are made or changed, on the target or on a layer below it, by a process that
//! already has the disk open.
//!
//! Invariants: it opens no device, since that open would itself be detected.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType};
use straddle_device::FileId;

/// The interval at which /sys is read: uevents do not reach every process.
const EVERY: Duration = Duration::from_millis(200);

/// The partitions of some devices.
#[derive(Debug)]
pub(super) struct Partitions {
    /// The devices' directories in /sys.
    folders: Vec<PathBuf>,
    /// The partitions at the start.
    known: BTreeSet<Partition>,
    /// The socket for the kernel's uevents, where there is one.
    pub(super) announced: Option<OwnedFd>,
    /// When /sys was last read.
    pub(super) looked: Instant,
}

/// A partition as listed in /sys. One that is removed and made again has another inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Partition {
    folder: PathBuf,
    inode: u64,
    start: String,
    size: String,
}

impl Partition {
    /// Reads the partition with this directory; `None` if it is not a partition's.
    fn of(folder: PathBuf) -> Option<Self> {
        if !is_partition(&folder) {
            return None;
        }
        let inode = fs::metadata(&folder).ok()?.ino();
        let attribute = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (start, size) = (attribute("start"), attribute("size"));
        Some(Self { folder, inode, start, size })
    }
}

impl Partitions {
    /// The current partitions of the target and of the other paths to its bytes.
    pub(super) fn of(target: FileId, ways: &[(FileId, PathBuf)]) -> Self {
        let own = folder(target);
        let announced = own.as_ref().and_then(|_| announcements().ok());
        // A new partition on the same disk does not contain the bytes of the target, which is a partition
        // itself.
        let disk = own.as_ref().filter(|own| is_partition(own)).and_then(|own| own.parent());
        let others = ways.iter().filter_map(|(id, _)| folder(*id)).filter(|way| Some(way.as_path()) != disk);
        let folders: Vec<PathBuf> = others.chain(own.clone()).collect();
        let known = listed(&folders);
        Self { folders, known, announced, looked: Instant::now() }
    }

    /// Whether a partition was made or changed since the start.
    pub(super) fn has_new(&mut self) -> bool {
        if self.folders.is_empty() {
            return false;
        }
        if self.is_announced() {
            return true;
        }
        if self.looked.elapsed() < EVERY {
            return false;
        }
        self.looked = Instant::now();
        !listed(&self.folders).is_subset(&self.known)
    }

    fn is_announced(&mut self) -> bool {
        let mut is_announced = false;
        let mut text = [0; 4096];
        while let Some(socket) = &self.announced {
            match net::recv(socket, &mut text, RecvFlags::DONTWAIT) {
                Ok((length, _)) => is_announced |= self.is_new(&text[..length]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // Some uevents were lost.
                Err(Errno::NOBUFS) => is_announced |= !listed(&self.folders).is_subset(&self.known),
                Err(_) => self.announced = None,
            }
        }
        is_announced
    }

    /// Whether a uevent (texts that each end with a zero byte) announces a new partition of one of these
    /// devices. A program can have the existing ones announced again (`udevadm trigger`).
    pub(super) fn is_new(&self, text: &[u8]) -> bool {
        let mut words = text.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
        let path = words.clone().find_map(|word| word.strip_prefix("DEVPATH=/"));
        let Some(path) = path.map(|path| Path::new("/sys").join(path)) else { return false };
        words.any(|word| word == "ACTION=add")
            && path.parent().is_some_and(|disk| self.folders.iter().any(|folder| folder == disk))
            && Partition::of(path).is_none_or(|partition| !self.known.contains(&partition))
    }
}

/// The directory of a device in /sys; `None` for a file.
fn folder(id: FileId) -> Option<PathBuf> {
    if !id.is_device() {
        return None;
    }
    let (major, minor) = (rustix::fs::major(id.number()), rustix::fs::minor(id.number()));
    Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok()
}

fn is_partition(folder: &Path) -> bool {
    folder.join("partition").exists()
}

fn listed(folders: &[PathBuf]) -> BTreeSet<Partition> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries.filter_map(|entry| Partition::of(entry.path())).collect()
}

/// Opens a socket for the kernel's uevents (lib/kobject_uevent.c): multicast group 1, which needs no
/// privileges. In a user namespace there may be none.
fn announcements() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::KOBJECT_UEVENT))?;
    net::bind(&socket, &SocketAddrNetlink::new(0, 1))?;
    Ok(socket)
}
