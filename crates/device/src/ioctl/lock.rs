//! Locks of open file descriptions and leases of fcntl(2), which the safe wrappers do not provide.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// asm-generic/fcntl.h.
const F_SETSIG: i32 = 10;

/// For this open file description, with bytes added later. [`io::ErrorKind::WouldBlock`] if others have locked any
/// byte.
pub(crate) fn lock_whole(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

pub(crate) fn unlock_whole(file: &File) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    let mut found = whole(libc::F_WRLCK);
    // SAFETY: F_OFD_GETLK reads and writes one `struct flock` through the pointer, which lives as long as the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) };
    if done == 0 { Ok(i32::from(found.l_type) != libc::F_UNLCK) } else { Err(io::Error::last_os_error()) }
}

fn whole(kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

fn set(file: &File, kind: i32) -> io::Result<()> {
    let whole = whole(kind);
    // SAFETY: F_OFD_SETLK reads one `struct flock` through the pointer, which lives as long as the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Any process that opens `file`, under any name, waits until [`end_lease`], or for
/// `/proc/sys/fs/lease-break-time` seconds. [`io::ErrorKind::WouldBlock`] if another process has it open.
/// Works only for regular files of this process's user.
pub(crate) fn lease(file: &File) -> io::Result<()> {
    // The signal for another process opening the file. SIGURG is ignored by default; the lease is polled.
    call(file, F_SETSIG, libc::SIGURG)?;
    call(file, libc::F_SETLEASE, libc::F_WRLCK).map(drop)
}

pub(crate) fn has_lease(file: &File) -> bool {
    call(file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_WRLCK)
}

pub(crate) fn end_lease(file: &File) -> io::Result<()> {
    call(file, libc::F_SETLEASE, libc::F_UNLCK).map(drop)
}

fn call(file: &File, command: i32, argument: i32) -> io::Result<i32> {
    // SAFETY: these commands take a number, and touch no memory of this process.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
