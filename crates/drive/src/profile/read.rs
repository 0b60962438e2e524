//! Reads a profile's file. Nothing else in this crate does I/O.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::ProfileError;

/// The largest profile, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

/// The text of the file `name`.
pub(super) fn text(name: &str) -> Result<String, ProfileError> {
    let path = Path::new(name);
    let unreadable = |source| ProfileError::Unreadable { path: path.to_owned(), source };
    // A pipe or a device may have no end, whatever size it says it has.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a file")));
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    // Files of the kernel in /proc and /sys have no size, and some have no end.
    let len = file.metadata().map_err(unreadable)?.len();
    if len == 0 {
        return Err(unreadable(io::Error::other("it is empty")));
    }
    file.take(len.min(LARGEST_FILE + 1)).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST_FILE {
        let message = format!("the file is too large; a profile has at most {LARGEST_FILE} bytes");
        return Err(ProfileError::Syntax { name: name.to_owned(), message });
    }
    Ok(text)
}

/// The path of the file `name` in `folder` or below it, wherever links lead.
pub(super) fn below(folder: &Path, name: &str) -> Result<PathBuf, ProfileError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let path = folder.join(name);
    let unreadable = |source| ProfileError::Unreadable { path: path.clone(), source };
    let real = path.canonicalize().map_err(unreadable)?;
    if real.starts_with(folder.canonicalize().map_err(unreadable)?) {
        Ok(path)
    } else {
        Err(ProfileError::Elsewhere { name: name.to_owned(), folder: folder.to_owned() })
    }
}
