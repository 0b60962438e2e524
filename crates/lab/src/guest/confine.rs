//! Confines a guest: it can write to its own folder and to what it was given, and nowhere else on this
//! machine.
//!
//! Root in a guest can make its kernel do anything, and that kernel is a process of the user who started it.
//! So the process is confined before it executes any instruction of the guest, by as much of the following as
//! this machine supports:
//!
//! - a mount namespace in which everything except what the guest was given is read-only and without devices
//!   (for users other than root inside a user namespace); of root's capabilities only those over files
//!   remain;
//! - Landlock, which forbids the same again, and also TCP, and signals and abstract sockets to processes
//!   outside;
//! - a filter of system calls, which refuses device nodes, set-user-ID and set-group-ID files, and mounts.
//!   Where only Landlock is available, which does not cover them, it also refuses changes of any file's mode,
//!   owner, times or attributes.
//!
//! One of the first two is required. Invariants: the code between fork and exec allocates nothing
//! and takes no lock; all that it needs is prepared before.

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

/// The capabilities that root keeps: those over files, as far as it may write them at all. CHOWN,
/// DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER.
const KEPT_CAPABILITIES: std::ops::Range<libc::c_ulong> = 0..4;
/// An upper bound on the capability numbers of any kernel.
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
    /// Folders, including everything in them.
    pub(crate) folders: Vec<PathBuf>,
    /// Existing files.
    pub(crate) files: Vec<PathBuf>,
}

/// The error returned when this machine has no means to confine a guest.
pub(crate) const NOTHING: i32 = libc::ENOTSUP;

/// A prepared confinement.
pub(crate) struct Confinement {
    home: CString,
    /// Outer ones first: each hides what is below it.
    mounts: Vec<CString>,
    /// Whether the rest of the tree is read-only; false where all of it is writable.
    is_read_only: bool,
    user_map: Vec<u8>,
    group_map: Vec<u8>,
    landlock: Option<Ruleset>,
    filter: Filter,
    /// Used where modes, owners and times are not protected otherwise.
    strict_filter: Filter,
    kept_descriptor: u32,
}

impl Confinement {
    /// Prepares the confinement of a guest whose folder is `home`, and that inherits `kept` besides its
    /// standard streams.
    pub(crate) fn new(home: &Path, writable: &Writable, kept: BorrowedFd<'_>) -> io::Result<Self> {
        let named = |path: &PathBuf| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
        // Opened in place of the kernel's source of random numbers; see clock/files.c.
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

    /// Confines this process permanently. To be called between fork and exec.
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

    /// Marks descriptors that our parent left open as close-on-exec, so that the guest does not get them.
    fn close_others(&self) {
        let kept = self.kept_descriptor;
        for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1).max(3), u32::MAX)] {
            if first <= last {
                // SAFETY: takes numbers only. Kernels before 5.11 do not know this call or its flag, and then
                // the descriptors stay open.
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
        // SAFETY: the strings are NUL-terminated and outlive the call; the other pointers may be null.
        let private = unsafe { libc::mount(none, root, none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) };
        checked(private.into())?;
        if !self.is_read_only {
            return Ok(());
        }
        // Cloned before everything becomes read-only, so that these mounts stay writable.
        let mut kept: [Option<OwnedFd>; MOST_MOUNTS] = [const { None }; MOST_MOUNTS];
        for (path, tree) in self.mounts.iter().zip(&mut kept) {
            let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | RECURSIVE;
            // SAFETY: the path is NUL-terminated and outlives the call.
            let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
            *tree = Some(descriptor(checked(fd)?));
        }
        let attributes =
            MountAttributes { set: READ_ONLY | NO_DEVICES, clear: 0, propagation: 0, user_namespace: 0 };
        let size = size_of::<MountAttributes>();
        // SAFETY: the path and the structure outlive the call, and the size is that of the structure.
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
            // SAFETY: both paths are NUL-terminated and outlive the call.
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
        // The working directory still refers to the mount that is now hidden.
        // SAFETY: the path is NUL-terminated and outlives the call.
        checked(unsafe { libc::chdir(self.home.as_ptr()) }.into())?;
        Ok(())
    }
}

/// The most mounts needed: the run's folder, the output, the events, /dev/null.
const MOST_MOUNTS: usize = 8;

/// Drops root's capabilities except those over files. Other users have none after exec.
fn drop_capabilities() {
    for capability in KEPT_CAPABILITIES.end..ALL_CAPABILITIES {
        // SAFETY: takes numbers only. It fails for numbers that are not capabilities, and for a process that
        // has none to drop.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    // SAFETY: as before.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
}

fn write_to(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path is NUL-terminated and outlives the call.
    let fd = checked(unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) }.into())?;
    let file = descriptor(fd);
    rustix::io::write(&file, bytes)?;
    Ok(())
}

fn descriptor(fd: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just created this descriptor, and nothing else uses it.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
