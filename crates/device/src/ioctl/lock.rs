//! Locks of open file descriptions (`F_OFD_SETLK`) and leases (`F_SETLEASE`) of fcntl(2), which the safe
//! wrappers do not provide.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Sets the signal that announces a lease break (asm-generic/fcntl.h).
const F_SETSIG: i32 = 10;

/// Locks all of `file`, including bytes that may be added at its end, for writing by this open file
/// description only. Does not wait: returns [`io::ErrorKind::WouldBlock`] where another open file
/// description, or a process with a record lock, has locked any byte for reading or writing. The lock lasts
/// as long as the open file description. Closing other descriptors of the same file does not release it.
pub fn lock_whole(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// Releases the lock.
pub fn unlock_whole(file: &File) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

/// Whether another open file description, or a process, has locked any byte, without taking a lock.
pub fn is_locked(file: &File) -> io::Result<bool> {
    let mut found = whole(libc::F_WRLCK);
    // SAFETY: F_OFD_GETLK reads and writes one `struct flock` through the pointer, which lives as long as the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) };
    if done == 0 { Ok(i32::from(found.l_type) != libc::F_UNLCK) } else { Err(io::Error::last_os_error()) }
}

/// A lock of all bytes of a file, also of those that may be added.
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

/// Takes a lease: any process that opens `file` from now on, under any name, waits until [`end_lease`] is
/// called, or for `/proc/sys/fs/lease-break-time` seconds. Returns [`io::ErrorKind::WouldBlock`] where
/// another process has it open. Works only for regular files owned by this process's user.
pub fn lease(file: &File) -> io::Result<()> {
    // The lease holder receives this signal when another process opens the file. SIGURG is ignored by
    // default; the lease is polled instead.
    call(file, F_SETSIG, libc::SIGURG)?;
    call(file, libc::F_SETLEASE, libc::F_WRLCK).map(drop)
}

/// Whether the lease is held and no process waits for its end.
pub fn has_lease(file: &File) -> bool {
    call(file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_WRLCK)
}

/// Releases the lease, so that waiting processes continue.
pub fn end_lease(file: &File) -> io::Result<()> {
    call(file, libc::F_SETLEASE, libc::F_UNLCK).map(drop)
}

fn call(file: &File, command: i32, argument: i32) -> io::Result<i32> {
    // SAFETY: these commands take a number, and touch no memory of this process.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
