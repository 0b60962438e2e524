//! Locks of open file descriptions (`F_OFD_SETLK`, fcntl(2)), which the safe wrappers do not offer.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

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
