//! Notices that somebody else opens the target while it is measured.
//!
//! The law of this module: it asks the kernel, and reads nothing of the target, whose caches it would fill. Whoever writes to what
//! the target stands on writes to the target, and so does whoever writes to a part of it.

use std::fs::{self, Metadata};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use straddle_device::FileId;
use straddle_device::live::Machine;
use straddle_device::sysfs::of_number;

use crate::open::Opened;

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nobody who writes.
    Nobody,
    /// Somebody who may write, and opened the target since the look before.
    Opened,
    /// Somebody who wrote, and had it open before, unseen.
    Writer,
}

/// A look-out for others, who came after the target was opened.
#[derive(Debug)]
pub(crate) struct Others {
    queue: OwnedFd,
    target: Metadata,
    path: PathBuf,
    /// Somebody closed it after writing while it was found out who uses it.
    wrote: bool,
}

impl Others {
    /// Begins to look out; `None` where the kernel cannot tell.
    pub(crate) fn of(opened: &Opened) -> Option<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        // By the open file, whatever is called so now.
        let path = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
        let flags = WatchFlags::OPEN | WatchFlags::CLOSE_WRITE;
        inotify::add_watch(&queue, path.as_str(), flags).ok()?;
        let target = opened.file.metadata().ok()?;
        // Whoever writes to a partition writes to the disk, and the other way round.
        for node in partitions(&target) {
            let _ = inotify::add_watch(&queue, &node, flags);
        }
        for (id, path) in Machine::read(None).all_below(&target) {
            if fs::metadata(&path).is_ok_and(|found| FileId::of(&found) == id) {
                let _ = inotify::add_watch(&queue, &path, flags);
            }
        }
        Some(Self { queue, target, path: opened.path.clone(), wrote: false })
    }

    /// Whether somebody has, or had, the target open for writing, since the look before.
    pub(crate) fn look(&mut self) -> Seen {
        let seen = self.events();
        let wrote = seen.contains(ReadFlags::CLOSE_WRITE) || std::mem::take(&mut self.wrote);
        match (seen.contains(ReadFlags::OPEN), wrote) {
            (false, false) => Seen::Nobody,
            (true, wrote) if wrote || self.is_used() => Seen::Opened,
            (true, _) => Seen::Nobody,
            (false, true) => Seen::Writer,
        }
    }

    /// What has happened since these were read before.
    fn events(&self) -> ReadFlags {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        let mut seen = ReadFlags::empty();
        while let Ok(event) = events.next() {
            seen |= event.events();
        }
        seen
    }

    /// Whether who opened it may write, which the event does not say.
    fn is_used(&mut self) -> bool {
        // To ask a loop device what is behind it is to open it: that is done before the rest is read. Who closes one after writing is
        // not overlooked, and who opens one from here on is there at the next look.
        let machine = Machine::read(None);
        self.wrote = self.events().contains(ReadFlags::CLOSE_WRITE);
        !machine.uses_of(&self.target, &self.path).is_empty()
    }
}

/// The nodes of the partitions of a disk.
fn partitions(target: &Metadata) -> Vec<PathBuf> {
    if !target.file_type().is_block_device() {
        return Vec::new();
    }
    let entries = fs::read_dir(of_number(target.rdev())).into_iter().flatten().flatten();
    let parts = entries.filter(|entry| entry.path().join("partition").exists());
    parts.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

#[cfg(test)]
mod tests;
