//! Notices that somebody else opens the target while it is measured.
//!
//! The law of this module: it asks the kernel, and reads nothing of the target, whose caches it would fill.

use std::fs::Metadata;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use straddle_device::live::Machine;

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
}

impl Others {
    /// Begins to look out; `None` where the kernel cannot tell.
    pub(crate) fn of(opened: &Opened) -> Option<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        // By the open file, whatever is called so now.
        let path = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
        inotify::add_watch(&queue, path.as_str(), WatchFlags::OPEN | WatchFlags::CLOSE_WRITE).ok()?;
        Some(Self { queue, target: opened.file.metadata().ok()?, path: opened.path.clone() })
    }

    /// Whether somebody has, or had, the target open for writing, since the look before.
    pub(crate) fn look(&mut self) -> Seen {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        let mut seen = ReadFlags::empty();
        while let Ok(event) = events.next() {
            seen |= event.events();
        }
        let (opened, wrote) = (seen.contains(ReadFlags::OPEN), seen.contains(ReadFlags::CLOSE_WRITE));
        // Whether who opened it writes is not told.
        let writes = || !Machine::read(None).uses_of(&self.target, &self.path).is_empty();
        match (opened, wrote) {
            (false, false) => Seen::Nobody,
            (true, wrote) if wrote || writes() => Seen::Opened,
            (true, _) => Seen::Nobody,
            (false, true) => Seen::Writer,
        }
    }
}
