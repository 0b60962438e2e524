//! Locks of open file descriptions (`F_OFD_SETLK`) and leases (`F_SETLEASE`) of fcntl(2), which the safe wrappers do not offer.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Which signal tells of a lease that is to end (asm-generic/fcntl.h).
const F_SETSIG: i32 = 10;

/// Locks every byte of `file`, and those that may come behind its end, for writing by this open file only. Does not
/// wait: [`io::ErrorKind::WouldBlock`] where another open file, or a process with a record lock, has locked any of them,
/// for reading or for writing. The lock ends with the open file, whichever other files of this process are closed.
pub fn lock_whole(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// Gives the lock up.
pub fn unlock_whole(file: &File) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

fn set(file: &File, kind: i32) -> io::Result<()> {
    let whole = libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: F_OFD_SETLK reads one `struct flock` through the pointer, which lives as long as the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes whoever opens `file` from now on, by whatever name, wait until [`end_lease`] is called, or for
/// `/proc/sys/fs/lease-break-time` seconds. [`io::ErrorKind::WouldBlock`] where somebody has it open. Only for files, whose
/// owner this process is.
pub fn lease(file: &File) -> io::Result<()> {
    // The signal for who has to give it up: one that is ignored unless asked for. The lease is asked after instead.
    call(file, F_SETSIG, libc::SIGURG)?;
    call(file, libc::F_SETLEASE, libc::F_WRLCK).map(drop)
}

/// Whether the lease is there, and nobody waits for its end.
pub fn has_lease(file: &File) -> bool {
    call(file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_WRLCK)
}

/// Gives the lease up: whoever waits goes on.
pub fn end_lease(file: &File) -> io::Result<()> {
    call(file, libc::F_SETLEASE, libc::F_UNLCK).map(drop)
}

fn call(file: &File, command: i32, argument: i32) -> io::Result<i32> {
    // SAFETY: these commands take a number, and touch no memory of this process.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
