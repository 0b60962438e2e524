//! Landlock: rules that any process can impose on itself and cannot remove (Linux,
//! Documentation/userspace-api/landlock.rst).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{Writable, checked, descriptor};

/// Access rights, with the version of the interface that introduced them; `LANDLOCK_ACCESS_FS_` and similar
/// names in `linux/landlock.h`.
mod right {
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const MAKE_CHAR: u64 = 1 << 6;
    pub(super) const MAKE_BLOCK: u64 = 1 << 11;
    /// WRITE_FILE, and REMOVE_DIR up to MAKE_SYM.
    pub(super) const FIRST: u64 = WRITE_FILE | 0x1ff0;
    /// Since version 2.
    pub(super) const REFER: u64 = 1 << 13;
    /// Since version 3.
    pub(super) const TRUNCATE: u64 = 1 << 14;
    /// Since version 5.
    pub(super) const IOCTL_DEV: u64 = 1 << 15;
    /// BIND_TCP and CONNECT_TCP, since version 4.
    pub(super) const TCP: u64 = 3;
    /// ABSTRACT_UNIX_SOCKET and SIGNAL, since version 6.
    pub(super) const SCOPES: u64 = 3;
}

const VERSION: u32 = 1;
const PATH_BENEATH: u32 = 1;

/// `struct landlock_ruleset_attr`. Older kernels accept it if the fields that they do not know are zero.
#[repr(C)]
struct Attributes {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

/// A set of rules, not yet in force.
pub(super) struct Ruleset(OwnedFd);

impl Ruleset {
    /// Creates rules that forbid writing except to `writable` and to the file `null`. `None` where the kernel
    /// has no Landlock.
    pub(super) fn new(writable: &Writable, null: &Path) -> io::Result<Option<Self>> {
        let none = std::ptr::null::<Attributes>();
        // SAFETY: queries the version; no structure is read.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION) };
        if version < 1 {
            return Ok(None);
        }
        let since = |first: libc::c_long, rights: u64| if version >= first { rights } else { 0 };
        let truncate = since(3, right::TRUNCATE);
        let attributes = Attributes {
            files: right::FIRST | since(2, right::REFER) | truncate | since(5, right::IOCTL_DEV),
            network: since(4, right::TCP),
            scopes: since(6, right::SCOPES),
        };
        let size = size_of::<Attributes>();
        // SAFETY: the structure outlives the call, and the size is its own.
        let fd =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0u32) };
        let this = Self(descriptor(checked(fd)?));
        let in_folders = attributes.files & !(right::MAKE_CHAR | right::MAKE_BLOCK | right::IOCTL_DEV);
        for folder in &writable.folders {
            this.allow(folder, in_folders)?;
        }
        for file in writable.files.iter().map(AsRef::as_ref).chain([null]) {
            this.allow(file, right::WRITE_FILE | truncate)?;
        }
        Ok(Some(this))
    }

    fn allow(&self, path: &Path, allowed: u64) -> io::Result<()> {
        let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let rule = Beneath { allowed, parent: place.as_raw_fd() };
        // SAFETY: the structure outlives the call, and has the layout that PATH_BENEATH requires.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                PATH_BENEATH,
                &raw const rule,
                0u32,
            )
        };
        checked(added).map(|_| ())
    }

    /// Puts the rules in force for this process.
    pub(super) fn restrict(&self) -> io::Result<()> {
        // SAFETY: takes numbers only.
        let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0u32) };
        checked(result).map(|_| ())
    }
}
