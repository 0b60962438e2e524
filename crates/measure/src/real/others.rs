//! Other processes that open the target while it is written: they have to wait, where the kernel supports that, or
//! are detected.
//!
//! It asks the kernel and reads nothing of the target, which would fill its caches. A process that writes to a layer
//! below the target, or to a part of it, counts as one that writes to the target.

use std::fs::{self, File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use straddle_device::FileId;
use straddle_device::claim::{self, LockError};
use straddle_device::live::{Machine, sees_all_processes};

use crate::real::open::{Access, Kind, Opened};

const WATCHED: WatchFlags = WatchFlags::OPEN.union(WatchFlags::CLOSE_WRITE);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Nobody,
    /// A process that may write has opened the target since the previous look.
    Opened,
    /// A process that had opened the target earlier, undetected, has written to it.
    Writer,
}

#[derive(Debug)]
pub(crate) struct Others {
    queue: OwnedFd,
    access: Access,
    target: Metadata,
    path: PathBuf,
    /// Whether a process closed the target after writing while the target's users were being determined.
    wrote: bool,
}

impl Others {
    /// Starts to watch. The error names what cannot be watched.
    pub(crate) fn of(opened: &Opened, access: Access) -> Result<Self, (PathBuf, io::Error)> {
        let of_target = |error: Errno| (opened.path.clone(), error.into());
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(of_target)?;
        let target = opened.file.metadata().map_err(|error| (opened.path.clone(), error))?;
        // The open file, whatever its path names now.
        let path = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
        inotify::add_watch(&queue, path.as_str(), WATCHED).map_err(of_target)?;
        for (id, way) in Machine::read(None).other_ways(&target) {
            let watched = match fs::metadata(&way) {
                Ok(found) if FileId::of(&found) == id => {
                    inotify::add_watch(&queue, &way, WATCHED).map(|_| ()).map_err(io::Error::from)
                }
                // A device without a node cannot be opened.
                Err(error) if id.is_device() && error.kind() == io::ErrorKind::NotFound => Ok(()),
                Ok(_) => Err(io::ErrorKind::NotFound.into()),
                Err(error) => Err(error),
            };
            watched.map_err(|error| (way, error))?;
        }
        let path = opened.path.clone();
        Ok(Self { queue, access, target, path, wrote: false })
    }

    fn users(&mut self) -> Vec<String> {
        // Querying the backing file of a loop device opens the device, which raises events, so they are read after. A
        // process that opens the target from here on is found at the next look.
        let machine = Machine::read(None);
        self.wrote |= self.events().contains(ReadFlags::CLOSE_WRITE);
        if self.access == Access::Share && self.target.file_type().is_block_device() {
            machine.uses_of_whole(&self.target)
        } else {
            machine.uses_of(&self.target, &self.path)
        }
    }

    /// The error names the other process. One that has opened and closed the target already counts if it wrote.
    fn check_alone(&mut self) -> Result<(), String> {
        let wrote = || "another program has opened the target for writing".to_owned();
        match self.users().into_iter().next() {
            Some(user) => Err(user),
            None if std::mem::take(&mut self.wrote) => Err(wrote()),
            None => Ok(()),
        }
    }

    /// Whether another process has, or had, the target open for writing since the previous look.
    fn look(&mut self) -> Seen {
        let seen = self.events();
        let wrote = seen.contains(ReadFlags::CLOSE_WRITE) || std::mem::take(&mut self.wrote);
        match (seen.contains(ReadFlags::OPEN), wrote) {
            (false, false) => Seen::Nobody,
            (true, wrote) if wrote || self.is_used() => Seen::Opened,
            (true, _) => Seen::Nobody,
            (false, true) => Seen::Writer,
        }
    }

    fn events(&self) -> ReadFlags {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        let mut seen = ReadFlags::empty();
        while let Ok(event) = events.next() {
            seen |= event.events();
        }
        seen
    }

    /// Whether the process that opened it may write; also if not every process can be examined.
    fn is_used(&mut self) -> bool {
        !self.users().is_empty() || !sees_all_processes()
    }
}

#[derive(Debug)]
pub(crate) struct Lookout {
    /// They proceed, and are detected; `None` if they wait until the target is released.
    watched: Option<Others>,
    pub(crate) began: SystemTime,
    /// The last time when no other process was detected.
    pub(crate) clear: SystemTime,
}

impl Lookout {
    /// Watches a claimed target. The error names a program that has it open.
    pub(crate) fn over(opened: &Opened, mut others: Others) -> Result<Self, String> {
        let is_kept = opened.kind == Kind::File
            && match claim::keep(&opened.file) {
                Err(LockError::Opened) => return Err(LockError::Opened.to_string()),
                kept => kept.unwrap_or(false),
            };
        // None of the contents to be kept has been read yet.
        others.check_alone()?;
        let began = SystemTime::now();
        Ok(Self { watched: (!is_kept).then_some(others), began, clear: began })
    }

    pub(crate) fn look(&mut self, file: &File) -> Seen {
        let seen = match &mut self.watched {
            Some(others) => others.look(),
            None if claim::is_kept(file) => Seen::Nobody,
            None => Seen::Opened,
        };
        if seen == Seen::Nobody {
            self.clear = SystemTime::now();
        }
        seen
    }

    /// Whether others have to wait.
    pub(crate) fn is_kept(&self) -> bool {
        self.watched.is_none()
    }

    /// Whether a process that was noticed since the last clear look still waits, which the kernel limits.
    pub(crate) fn has_made_wait(&self) -> bool {
        self.is_kept() && self.clear.elapsed().is_ok_and(|waited| waited < claim::waits_for())
    }
}

#[cfg(test)]
mod tests;
