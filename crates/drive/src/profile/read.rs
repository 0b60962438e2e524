//! Reads a profile's file. Nothing else in this crate does I/O.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::ProfileError;

const LARGEST_FILE: u64 = 1 << 20;

pub(super) fn text(name: &str) -> Result<String, ProfileError> {
    let path = Path::new(name);
    let unreadable = |source| ProfileError::Unreadable { path: path.to_owned(), source };
    text_of(open(path).map_err(unreadable)?, path)
}

/// The text of the file `path`, if it is in `folder` or below it, wherever links lead.
pub(super) fn text_below(folder: &Path, path: &Path) -> Result<String, ProfileError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let unreadable = |source| ProfileError::Unreadable { path: path.to_owned(), source };
    let file = open(path).map_err(unreadable)?;
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(unreadable)?;
    if !real.starts_with(folder.canonicalize().map_err(unreadable)?) {
        return Err(ProfileError::Elsewhere { path: path.to_owned(), folder: folder.to_owned() });
    }
    text_of(file, path)
}

/// Opens a file that has a size: pipes, devices and files in /proc or /sys may have no end.
fn open(path: &Path) -> io::Result<File> {
    // A pipe without a writer is not waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    match (found.is_file(), found.len()) {
        (false, _) => Err(io::Error::other("not a regular file")),
        (true, 0) => Err(io::Error::other("the file is empty")),
        (true, _) => Ok(file),
    }
}

fn text_of(file: File, path: &Path) -> Result<String, ProfileError> {
    let unreadable = |source| ProfileError::Unreadable { path: path.to_owned(), source };
    let len = file.metadata().map_err(unreadable)?.len();
    let mut text = String::new();
    file.take(len.min(LARGEST_FILE + 1)).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST_FILE {
        let message = format!("the file is too large; a profile can have at most {LARGEST_FILE} bytes");
        return Err(ProfileError::Syntax { name: path.display().to_string(), message });
    }
    Ok(text)
}
