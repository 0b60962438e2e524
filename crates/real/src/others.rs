//! Notices that somebody else opens the target while it is measured.
//!
//! The law of this module: it asks the kernel between turns only, and reads nothing of the target, whose caches it would fill.

use std::fs::Metadata;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use straddle_device::live::Machine;

use crate::open::Opened;

/// A look-out for others, who came after the target was opened.
#[derive(Debug)]
pub struct Others {
    queue: OwnedFd,
    target: Metadata,
    path: PathBuf,
}

impl Others {
    /// Begins to look out; `None` where the kernel cannot tell.
    pub fn of(opened: &Opened) -> Option<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        // By the open file, whatever is called so now.
        let path = format!("/proc/self/fd/{}", opened.file.as_raw_fd());
        inotify::add_watch(&queue, path.as_str(), WatchFlags::OPEN | WatchFlags::CLOSE_WRITE).ok()?;
        Some(Self { queue, target: opened.file.metadata().ok()?, path: opened.path.clone() })
    }

    /// Whether somebody has, or had, the target open for writing.
    pub fn have_written(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        let mut seen = ReadFlags::empty();
        while let Ok(event) = events.next() {
            seen |= event.events();
        }
        if seen.contains(ReadFlags::CLOSE_WRITE) {
            return true;
        }
        // Whether who opened it writes is not told.
        seen.contains(ReadFlags::OPEN) && !Machine::read(None).uses_of(&self.target, &self.path).is_empty()
    }
}
