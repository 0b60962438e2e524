//! What a guest can do to this machine: write to its own folder, and to what it was given, and nothing else.
//!
//! A guest's root can have its kernel do anything, and its kernel is a process of whoever started it. So the process is confined
//! before it executes a single instruction of the guest's, by as much as this machine has of:
//!
//! - a mount namespace in which everything is read-only and without devices but what the guest was given (for whoever is not root
//!   inside a user namespace), and of root's capabilities only those over files;
//! - Landlock, which forbids the same once more, and also TCP, signals and abstract sockets of processes outside;
//! - a filter of system calls, which makes no device nodes, no set-user-ID and set-group-ID files and no mounts. Where there is only
//!   Landlock, which does not cover them, also no change of any file's mode, owner, times or attributes.
//!
//! One of the first two has to be there. The law of this module: what runs between fork and exec allocates nothing and takes no
//! lock; all that it needs was made before.

#![allow(unsafe_code, reason = "system calls between fork and exec, for which there is no safe form")]

mod filter;
mod landlock;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use filter::Filter;
use landlock::Ruleset;

/// Capabilities that root keeps: those over files, in as far as it may write them at all. CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER.
const KEPT_CAPABILITIES: std::ops::Range<libc::c_ulong> = 0..4;
/// Numbers of capabilities end before this on any kernel.
const ALL_CAPABILITIES: libc::c_ulong = 64;

const RECURSIVE: libc::c_uint = 0x8000;
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = 0o2_000_000;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}
const READ_ONLY: u64 = 1;
const NO_DEVICES: u64 = 4;

/// What the guest may write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writable {
    /// Folders, with all that is in them.
    pub(crate) folders: Vec<PathBuf>,
    /// Files that are there.
    pub(crate) files: Vec<PathBuf>,
}

/// Says that this machine has nothing to confine a guest with.
pub(crate) const NOTHING: i32 = libc::ENOTSUP;

/// A confinement that is ready to be entered.
pub(crate) struct Confinement {
    home: CString,
    /// Outer ones first: each covers what is below.
    mounts: Vec<CString>,
    /// `None` where the whole tree is writable.
    is_read_only: bool,
    user_map: Vec<u8>,
    group_map: Vec<u8>,
    landlock: Option<Ruleset>,
    filter: Filter,
    /// Where modes, owners and times are not covered otherwise.
    strict_filter: Filter,
    kept_descriptor: u32,
}

impl Confinement {
    /// Prepares it for a guest whose folder is `home`, and that inherits `kept` beside its standard streams.
    pub(crate) fn new(home: &Path, writable: &Writable, kept: BorrowedFd<'_>) -> io::Result<Self> {
        let named = |path: &PathBuf| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
        // Where the kernel's random numbers would come from; see clock/files.c.
        let null = PathBuf::from("/dev/null");
        let mut paths: Vec<&PathBuf> =
            writable.folders.iter().chain(&writable.files).chain([&null]).collect();
        paths.sort_by_key(|path| path.as_os_str().len());
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Ok(Self {
            home: named(&home.to_owned())?,
            mounts: paths.into_iter().map(named).collect::<Result<_, _>>()?,
            is_read_only: !writable.folders.iter().any(|folder| folder == Path::new("/")),
            user_map: format!("{user} {user} 1").into_bytes(),
            group_map: format!("{group} {group} 1").into_bytes(),
            landlock: Ruleset::new(writable, &null)?,
            filter: Filter::new(false),
            strict_filter: Filter::new(true),
            kept_descriptor: u32::try_from(kept.as_raw_fd()).unwrap_or(u32::MAX),
        })
    }

    /// Confines this process, for ever; to be called between fork and exec.
    pub(crate) fn enter(&self) -> io::Result<()> {
        self.close_others();
        let is_apart = self.enter_namespace().is_ok();
        drop_capabilities();
        // SAFETY: takes numbers only.
        checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
        match &self.landlock {
            Some(ruleset) => ruleset.restrict()?,
            None if is_apart => {}
            None => return Err(io::Error::from_raw_os_error(NOTHING)),
        }
        if is_apart { self.filter.install() } else { self.strict_filter.install() }
    }

    /// What whoever started us has left open is not for the guest.
    fn close_others(&self) {
        let kept = self.kept_descriptor;
        for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1).max(3), u32::MAX)] {
            if first <= last {
                // SAFETY: takes numbers only. Kernels before 5.11 do not know it, and leave open what was left open.
                unsafe { libc::syscall(libc::SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC) };
            }
        }
    }

    fn enter_namespace(&self) -> io::Result<()> {
        // SAFETY: takes a number only; this process has one thread.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            // SAFETY: as before.
            checked(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())?;
            write_to(c"/proc/self/setgroups", b"deny")?;
            write_to(c"/proc/self/uid_map", &self.user_map)?;
            write_to(c"/proc/self/gid_map", &self.group_map)?;
        }
        let (root, none) = (c"/".as_ptr(), std::ptr::null());
        // SAFETY: the strings end with a zero and outlive the call; the others are allowed to be null.
        let private = unsafe { libc::mount(none, root, none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) };
        checked(private.into())?;
        if !self.is_read_only {
            return Ok(());
        }
        // Before all is read-only: these stay as they are.
        let mut kept: [Option<OwnedFd>; MOST_MOUNTS] = [const { None }; MOST_MOUNTS];
        for (path, tree) in self.mounts.iter().zip(&mut kept) {
            let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | RECURSIVE;
            // SAFETY: the path ends with a zero and outlives the call.
            let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
            *tree = Some(descriptor(checked(fd)?));
        }
        let attributes =
            MountAttributes { set: READ_ONLY | NO_DEVICES, clear: 0, propagation: 0, user_namespace: 0 };
        let size = size_of::<MountAttributes>();
        // SAFETY: the path and the structure outlive the call, and the size is the structure's.
        checked(unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                root,
                RECURSIVE,
                &raw const attributes,
                size,
            )
        })?;
        for (path, tree) in self.mounts.iter().zip(&kept) {
            let Some(tree) = tree else { continue };
            // SAFETY: both paths end with a zero and outlive the call.
            checked(unsafe {
                libc::syscall(
                    libc::SYS_move_mount,
                    tree.as_raw_fd(),
                    c"".as_ptr(),
                    libc::AT_FDCWD,
                    path.as_ptr(),
                    MOVE_MOUNT_F_EMPTY_PATH,
                )
            })?;
        }
        // The working directory was that of the mount below.
        // SAFETY: the path ends with a zero and outlives the call.
        checked(unsafe { libc::chdir(self.home.as_ptr()) }.into())?;
        Ok(())
    }
}

/// The run's folder, the output, the events, /dev/null.
const MOST_MOUNTS: usize = 8;

/// Root's, as far as they are not over files. Nobody else has any behind exec.
fn drop_capabilities() {
    for capability in KEPT_CAPABILITIES.end..ALL_CAPABILITIES {
        // SAFETY: takes numbers only. It fails for numbers that are none, and for whoever has none to drop.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    // SAFETY: as before.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
}

fn write_to(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends with a zero and outlives the call.
    let fd = checked(unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) }.into())?;
    let file = descriptor(fd);
    rustix::io::write(&file, bytes)?;
    Ok(())
}

fn descriptor(fd: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just made it, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
