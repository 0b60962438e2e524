//! Notices that somebody else opens the target while it is measured.
//!
//! The law of this module: it asks the kernel, and reads nothing of the target, whose caches it would fill. Whoever writes to what
//! the target stands on writes to the target, and so does whoever writes to a part of it.

use std::fs::{self, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType};
use straddle_device::FileId;
use straddle_device::live::{Machine, sees_all_processes};

use crate::open::{Access, Opened};

/// What is told of each.
const WATCHED: WatchFlags = WatchFlags::OPEN.union(WatchFlags::CLOSE_WRITE);

/// So often is looked for devices that have come, where the kernel does not announce them.
const EVERY: Duration = Duration::from_millis(200);

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
    /// The kernel's announcements of devices that come, which raise nothing in `queue`; `None` where they cannot be had.
    devices: Option<OwnedFd>,
    /// When was last looked for such, without them.
    looked: Instant,
    access: Access,
    target: Metadata,
    path: PathBuf,
    /// The other ways to the same bytes, which are looked at as well.
    ways: Vec<(FileId, PathBuf)>,
    /// Somebody closed it after writing while it was found out who uses it.
    wrote: bool,
}

impl Others {
    /// Begins to look out; the error is of what the kernel cannot tell of.
    pub(crate) fn of(opened: &Opened, access: Access) -> Result<Self, (PathBuf, io::Error)> {
        let of_target = |error: Errno| (opened.path.clone(), error.into());
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(of_target)?;
        let target = opened.file.metadata().map_err(|error| (opened.path.clone(), error))?;
        // Before it is looked which there are.
        let devices = target.file_type().is_block_device().then(announcements).and_then(Result::ok);
        let ways = Machine::read(None).other_ways(&target);
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
        Ok(Self { queue, devices, looked: Instant::now(), access, target, path, ways, wrote: false })
    }

    /// Who uses the target, of those who came before this look-out or later.
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

    /// Whether nobody who uses the target came so far. Those who opened it and are gone, we among them, count if they wrote.
    pub(crate) fn is_alone(&mut self) -> bool {
        self.users().is_empty() && !std::mem::take(&mut self.wrote)
    }

    /// Whether somebody has, or had, the target open for writing, since the look before.
    pub(crate) fn look(&mut self) -> Seen {
        let seen = self.events();
        let wrote = seen.contains(ReadFlags::CLOSE_WRITE) || std::mem::take(&mut self.wrote);
        // A way that was made is opened next, and nothing tells of that.
        if self.has_device_come() && self.has_new_way() {
            return Seen::Opened;
        }
        match (seen.contains(ReadFlags::OPEN), wrote) {
            (false, false) => Seen::Nobody,
            (true, wrote) if wrote || self.is_used() => Seen::Opened,
            (true, _) => Seen::Nobody,
            (false, true) => Seen::Writer,
        }
    }

    /// Whether a device may have come since this was asked before.
    fn has_device_come(&mut self) -> bool {
        if !self.target.file_type().is_block_device() {
            return false;
        }
        let Some(devices) = &self.devices else {
            let is_time = self.looked.elapsed() >= EVERY;
            if is_time {
                self.looked = Instant::now();
            }
            return is_time;
        };
        let mut has_come = false;
        let mut text = [0; 4096];
        loop {
            match net::recv(devices, &mut text, RecvFlags::DONTWAIT) {
                Ok((length, _)) => has_come |= is_of_new_device(&text[..length]),
                Err(Errno::AGAIN) => return has_come,
                // Some were lost.
                Err(Errno::NOBUFS | Errno::INTR) => has_come = true,
                Err(_) => {
                    self.devices = None;
                    return true;
                }
            }
        }
    }

    fn has_new_way(&self) -> bool {
        Machine::read(None).other_ways(&self.target).iter().any(|way| !self.ways.contains(way))
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

    /// Whether who opened it may write, which the event does not say, or cannot be asked.
    fn is_used(&mut self) -> bool {
        !self.users().is_empty() || !sees_all_processes()
    }
}

/// What the kernel announces of devices (lib/kobject_uevent.c): group 1, without rights.
fn announcements() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::KOBJECT_UEVENT))?;
    net::bind(&socket, &SocketAddrNetlink::new(0, 1))?;
    Ok(socket)
}

/// Whether an announcement, texts that each end with a zero, is of a block device that comes or gets another content.
fn is_of_new_device(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.split(|byte| *byte == 0).any(|found| found == word);
    has(b"SUBSYSTEM=block") && !has(b"ACTION=remove")
}

#[cfg(test)]
mod tests;
