//! Confines a guest: it can write to its own folder and to what it was given, and nowhere else on this machine.
//!
//! Root in a guest can make its kernel do anything, and that kernel is a process of the user who started it. So it is
//! confined before it executes any instruction of the guest, by what this machine supports of:
//!
//! - a mount namespace in which everything except what the guest was given is read-only and without devices (for
//!   users other than root inside a user namespace); of root's capabilities only those over files remain;
//! - Landlock, which forbids the same again, and also TCP, and signals and abstract sockets to processes outside;
//! - a filter of system calls, which refuses device nodes, set-user-ID and set-group-ID files, and mounts. Where only
//!   Landlock is available, it also refuses changes of any file's mode, owner, times or attributes.
//!
//! One of the first two is required. The code between fork and exec takes no lock, and allocates nothing unless it
//! fails: everything is prepared before.

#![allow(unsafe_code, reason = "system calls between fork and exec, for which there is no safe form")]

mod filter;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};
use rustix::thread::{CapabilitySet, UnshareFlags, unshare_unsafe};

use filter::Filter;

/// The capabilities that root keeps: those over files, as far as it may write them at all.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);

#[derive(Clone, Debug, Default)]
pub(crate) struct Writable {
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

/// Where this machine has no means to confine a guest.
pub(crate) const NOTHING: i32 = libc::ENOTSUP;

pub(crate) struct Confinement {
    home: CString,
    /// Outer ones first: each hides what is below it.
    mounts: Vec<CString>,
    /// Of the rest of the tree.
    is_read_only: bool,
    user_map: Vec<u8>,
    group_map: Vec<u8>,
    /// Until it is in force.
    landlock: Option<RulesetCreated>,
    filter: Filter,
    /// Used where modes, owners and times are not protected otherwise.
    strict_filter: Filter,
    kept_descriptor: u32,
}

impl Confinement {
    /// The guest's folder is `home`; it inherits `kept` besides its standard streams.
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
            landlock: Some(landlock_rules(writable, &null)?),
            filter: Filter::new(false).map_err(io::Error::other)?,
            strict_filter: Filter::new(true).map_err(io::Error::other)?,
            kept_descriptor: u32::try_from(kept.as_raw_fd()).unwrap_or(u32::MAX),
        })
    }

    /// Confines this process permanently. To be called between fork and exec.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        self.close_others();
        let is_apart = self.enter_namespace().is_ok();
        drop_capabilities();
        let nothing = || io::Error::from_raw_os_error(NOTHING);
        let status = self.landlock.take().ok_or_else(nothing)?.restrict_self();
        if status.map_err(|_| io::Error::last_os_error())?.ruleset == RulesetStatus::NotEnforced && !is_apart
        {
            return Err(nothing());
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
                unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
            }
        }
    }

    fn enter_namespace(&self) -> io::Result<()> {
        // SAFETY: this process has one thread, and shares no open files with another.
        if unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.is_err() {
            // SAFETY: as before.
            unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
            write_to(c"/proc/self/setgroups", b"deny")?;
            write_to(c"/proc/self/uid_map", &self.user_map)?;
            write_to(c"/proc/self/gid_map", &self.group_map)?;
        }
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        if !self.is_read_only {
            return Ok(());
        }
        // Cloned before everything becomes read-only, so that these mounts stay writable.
        let mut kept: [Option<OwnedFd>; MOST_MOUNTS] = [const { None }; MOST_MOUNTS];
        for (path, tree) in self.mounts.iter().zip(&mut kept) {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            *tree = Some(open_tree(CWD, path, flags | OpenTreeFlags::AT_RECURSIVE)?);
        }
        make_read_only()?;
        for (path, tree) in self.mounts.iter().zip(&kept) {
            let Some(tree) = tree else { continue };
            move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        }
        // The working directory still refers to the mount that is now hidden.
        rustix::process::chdir(&self.home)?;
        Ok(())
    }
}

/// The run's folder, the output, the events, /dev/null.
const MOST_MOUNTS: usize = 8;

fn make_read_only() -> io::Result<()> {
    let attr_set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV;
    let attributes = libc::mount_attr { attr_set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let (flags, size) = (OpenTreeFlags::AT_RECURSIVE.bits(), size_of_val(&attributes));
    // SAFETY: the path and the structure outlive the call, and the size is that of the structure.
    let made = unsafe {
        let root = c"/".as_ptr();
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, root, flags, &raw const attributes, size)
    };
    if made < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Drops root's capabilities except those over files. Other users have none after exec.
fn drop_capabilities() {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !KEPT_CAPABILITIES.contains(capability) {
            // Fails for what is not a capability, and for a process that has none to drop.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    let _ = rustix::thread::clear_ambient_capability_set();
}

fn write_to(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// The rights used, as far as the kernel has them: 4 forbids TCP, 6 signals and abstract sockets to outside
/// processes.
const VERSION: ABI = ABI::V6;

/// Returns rules that forbid writing except to `writable` and to the file `null`.
fn landlock_rules(writable: &Writable, null: &Path) -> io::Result<RulesetCreated> {
    let refused = |error: RulesetError| io::Error::other(error);
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_write(VERSION))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(VERSION)))
        .and_then(|rules| rules.scope(Scope::from_all(VERSION)))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let in_folders = AccessFs::from_write(VERSION) & !devices;
    let to_files = AccessFs::WriteFile | AccessFs::Truncate;
    let folders = writable.folders.iter().map(|folder| (folder.as_path(), in_folders));
    let files = writable.files.iter().map(PathBuf::as_path).chain([null]).map(|file| (file, to_files));
    folders.chain(files).try_fold(rules, |rules, (path, access)| {
        let place = PathFd::new(path).map_err(io::Error::other)?;
        rules.add_rule(PathBeneath::new(place, access)).map_err(refused)
    })
}
