//! Writes files that a command was asked for besides its output: plans, pictures, pages, traces.
//!
//! The law of this module: such a file is written whole or not at all. It never replaces anything else: not a
//! disk, not an image that the command works on, nor anything that is not text.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::exit::RefusedError;

/// Bytes examined of a file that would be replaced.
const LOOKED_AT: u64 = 64 << 10;

/// Writes `contents` to a temporary file, which then replaces `path`. Refused if [`may_replace`] refuses.
pub(crate) fn write(path: &Path, contents: &[u8], inputs: &[&Path]) -> Result<()> {
    let failure = || format!("{}: cannot write", path.display());
    may_replace(path, inputs)?;
    let present = fs::metadata(path).ok();
    if present.as_ref().is_some_and(|present| !present.is_file()) {
        // A pipe or a terminal has no contents to lose.
        return fs::write(path, contents).with_context(failure);
    }
    replace(path, contents, present.as_ref()).with_context(failure)
}

/// A file that is written piece by piece, and then replaces another one or none.
pub(crate) enum Pending {
    /// A temporary file, the place that it is for, and what is there.
    Made(Box<NamedTempFile>, PathBuf, Option<Permissions>),
    /// A pipe or a terminal.
    Direct(File),
}

impl Pending {
    /// Begins a file for `path`. Refused if [`may_replace`] refuses.
    pub(crate) fn begin(path: &Path, inputs: &[&Path]) -> Result<Self> {
        may_replace(path, inputs)?;
        let begun = match fs::metadata(path).ok() {
            Some(present) if !present.is_file() => {
                fs::OpenOptions::new().write(true).open(path).map(Self::Direct)
            }
            present => made(path, present.as_ref()).map(|(made, path)| {
                Self::Made(Box::new(made), path, present.map(|present| present.permissions()))
            }),
        };
        begun.with_context(|| format!("{}: cannot write", path.display()))
    }

    /// Cuts the file to this many bytes. A pipe keeps what it got.
    pub(crate) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Made(made, ..) => {
                made.as_file_mut().set_len(bytes)?;
                made.as_file_mut().seek(io::SeekFrom::Start(bytes)).map(|_| ())
            }
            Self::Direct(_) => Ok(()),
        }
    }

    /// Puts the file in its place.
    pub(crate) fn commit(self) -> io::Result<()> {
        match self {
            Self::Made(made, path, permissions) => persist(*made, &path, permissions),
            Self::Direct(_) => Ok(()),
        }
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Made(made, ..) => made.write(bytes),
            Self::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Made(made, ..) => made.flush(),
            Self::Direct(file) => file.flush(),
        }
    }
}

fn replace(path: &Path, contents: &[u8], present: Option<&Metadata>) -> io::Result<()> {
    let (mut made, path) = made(path, present)?;
    made.write_all(contents)?;
    persist(made, &path, present.map(Metadata::permissions))
}

/// Makes a temporary file beside `path`, and returns the place that it is for.
fn made(path: &Path, present: Option<&Metadata>) -> io::Result<(NamedTempFile, PathBuf)> {
    // Replace the target of a symbolic link, not the link.
    let path: PathBuf = if present.is_some() { path.canonicalize()? } else { path.to_owned() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The user's umask applies to a new file.
    let usual = Permissions::from_mode(0o666);
    // The error of a folder that does not exist would name the temporary file.
    std::fs::metadata(folder)?;
    let made = tempfile::Builder::new().prefix(".straddle-").permissions(usual).tempfile_in(folder)?;
    Ok((made, path))
}

fn persist(made: NamedTempFile, path: &Path, permissions: Option<Permissions>) -> io::Result<()> {
    made.as_file().sync_all()?;
    if let Some(permissions) = permissions {
        made.as_file().set_permissions(permissions)?;
    }
    made.persist(path).map_err(|error| error.error)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Checks that `path` may be overwritten: it does not exist, is a pipe or a terminal, or is a text file and
/// not one of `inputs`, whatever its name.
pub(crate) fn may_replace(path: &Path, inputs: &[&Path]) -> Result<()> {
    let Ok(present) = fs::metadata(path) else { return Ok(()) };
    let refused =
        |why: &str| -> Result<()> { Err(RefusedError(format!("{}: {why}", path.display())).into()) };
    let is_same = |input: &&Path| {
        fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (present.dev(), present.ino()))
    };
    if present.file_type().is_block_device() {
        return refused("is a device and would be overwritten: name a file that does not exist");
    }
    if let Some(input) = inputs.iter().copied().find(is_same) {
        let text =
            format!("would be overwritten, and is {}: name a file that does not exist", input.display());
        return refused(&text);
    }
    if present.is_file() && !is_text(path).with_context(|| format!("{}: cannot read", path.display()))? {
        return refused("would be overwritten, and holds something else: name a file that does not exist");
    }
    Ok(())
}

/// Whether the file may have been written by this program: there is no NUL byte in its first 64 KiB, or it is a table
/// in Parquet or a recording.
fn is_text(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(LOOKED_AT).read_to_end(&mut head)?;
    Ok(!head.contains(&0) || head.starts_with(b"PAR1") || straddle_trace::is_recording(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path) -> Vec<String> {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("plan.json"), dir.path().join("link"));
        write(&path, b"one", &[]).unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), mode(&plain));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("plan.json", &link).unwrap();
        write(&link, b"two", &[]).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(listing(dir.path()), ["link", "plain", "plan.json"]);
    }

    #[test]
    fn nothing_else_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        fs::write(&disk, vec![0; 1 << 20]).unwrap();
        let text = dir.path().join("text");
        fs::write(&text, "target").unwrap();
        let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
        fs::hard_link(&text, &hard).unwrap();
        std::os::unix::fs::symlink(&text, &soft).unwrap();
        for (path, inputs) in
            [(&disk, vec![]), (&text, vec![text.as_path()]), (&hard, vec![&text]), (&soft, vec![&text])]
        {
            let error = write(path, b"plan", &inputs).unwrap_err();
            assert!(error.is::<RefusedError>(), "{error:#}");
        }
        assert_eq!(fs::read(&disk).unwrap(), vec![0; 1 << 20]);
        assert_eq!(fs::read(&text).unwrap(), b"target");
    }

    #[test]
    fn what_cannot_be_stored_leaves_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no folder").join("plan.json");
        assert!(write(&path, b"x", &[]).is_err());
        assert!(write(Path::new("/dev/full"), b"x", &[]).is_err());
        write(Path::new("/dev/null"), b"x", &[]).unwrap();
    }
}
