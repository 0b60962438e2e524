//! Notices other processes that open the target while it is measured.
//!
//! The law of this module: it asks the kernel, and reads nothing of the target, whose caches it would fill. Whoever writes to what
//! the target stands on writes to the target, and so does a process that writes to a part of it.

use std::fs::{self, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use straddle_device::FileId;
use straddle_device::live::{Machine, sees_all_processes};

mod partitions;

use crate::open::{Access, Opened};
use partitions::Partitions;

/// What is reported of each.
const WATCHED: WatchFlags = WatchFlags::OPEN.union(WatchFlags::CLOSE_WRITE);

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No writer.
    Nobody,
    /// A process that may write, and opened the target since the look before.
    Opened,
    /// A process that wrote, and had it open before, unseen.
    Writer,
}

/// Watches for other processes that open the target after it was opened here.
#[derive(Debug)]
pub(crate) struct Others {
    queue: OwnedFd,
    /// Those that are made raise nothing in `queue`.
    partitions: Partitions,
    access: Access,
    target: Metadata,
    path: PathBuf,
    /// The other ways to the same bytes, which are looked at as well.
    ways: Vec<(FileId, PathBuf)>,
    /// A process closed it after writing, while its users were being looked for.
    wrote: bool,
}

impl Others {
    /// Begins to look out; the error is of what the kernel cannot tell of.
    pub(crate) fn of(opened: &Opened, access: Access) -> Result<Self, (PathBuf, io::Error)> {
        let of_target = |error: Errno| (opened.path.clone(), error.into());
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(of_target)?;
        let target = opened.file.metadata().map_err(|error| (opened.path.clone(), error))?;
        let ways = Machine::read(None).other_ways(&target);
        let partitions = Partitions::of(opened.id, &ways);
        // By the open file, whatever is called so now.
        let path = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
        inotify::add_watch(&queue, path.as_str(), WATCHED).map_err(of_target)?;
        for (id, way) in &ways {
            let watched = match fs::metadata(way) {
                Ok(found) if FileId::of(&found) == *id => {
                    inotify::add_watch(&queue, way, WATCHED).map(|_| ()).map_err(io::Error::from)
                }
                // Nobody opens a device without a node.
                Err(error) if id.is_device() && error.kind() == io::ErrorKind::NotFound => Ok(()),
                Ok(_) => Err(io::ErrorKind::NotFound.into()),
                Err(error) => Err(error),
            };
            watched.map_err(|error| (way.clone(), error))?;
        }
        let path = opened.path.clone();
        Ok(Self { queue, partitions, access, target, path, ways, wrote: false })
    }

    /// The users of the target, from before this look-out or later.
    pub(crate) fn users(&mut self) -> Vec<String> {
        // To ask a loop device what is behind it is to open it: that is done before the rest is read. Who closes one after writing is
        // not overlooked, and who opens one from here on is there at the next look.
        let machine = Machine::read(None);
        self.wrote |= self.events().contains(ReadFlags::CLOSE_WRITE);
        let mut users = if self.access == Access::Share && self.target.file_type().is_block_device() {
            machine.uses_of_whole(&self.target)
        } else {
            machine.uses_of(&self.target, &self.path)
        };
        let ways = machine.other_ways(&self.target);
        if let Some((_, new)) = ways.iter().find(|way| !self.ways.contains(way)) {
            users.push(format!("{} was made", new.display()));
        }
        users
    }

    /// Whether nobody who uses the target came so far; an error says by whom it is used. Those who opened it and are gone, we among
    /// them, count if they wrote.
    pub(crate) fn check_alone(&mut self) -> Result<(), String> {
        let wrote = || "another program has opened it for writing".to_owned();
        match self.users().into_iter().next() {
            Some(user) => Err(user),
            None if std::mem::take(&mut self.wrote) => Err(wrote()),
            None => Ok(()),
        }
    }

    /// Whether another process has, or had, the target open for writing, since the look before.
    pub(crate) fn look(&mut self) -> Seen {
        let seen = self.events();
        let wrote = seen.contains(ReadFlags::CLOSE_WRITE) || std::mem::take(&mut self.wrote);
        // A way that was made is opened next, and nothing tells of that.
        if self.partitions.has_new() {
            return Seen::Opened;
        }
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

    /// Whether the process that opened it may write, which the event does not say, or cannot be asked.
    fn is_used(&mut self) -> bool {
        !self.users().is_empty() || !sees_all_processes()
    }
}

#[cfg(test)]
mod tests;
