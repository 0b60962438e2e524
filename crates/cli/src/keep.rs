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
    if is_descriptor(path) {
        return appended(path).and_then(|mut file| file.write_all(contents)).with_context(failure);
    }
    let present = fs::metadata(path).ok();
    if present.as_ref().is_some_and(|present| !present.is_file()) {
        // A pipe or a terminal has no contents to lose.
        return fs::write(path, contents).with_context(failure);
    }
    replace(path, contents, present.as_ref()).with_context(failure)
}

/// As [`write`], for a file whose first line is always the same: nothing else is replaced.
pub(crate) fn write_over(path: &Path, contents: &[u8], inputs: &[&Path], first_line: &str) -> Result<()> {
    let failure = || format!("{}: cannot read", path.display());
    if !is_descriptor(path) && fs::metadata(path).is_ok_and(|present| present.is_file() && present.len() > 0)
    {
        let mut head = vec![0; first_line.len()];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
        let is_ours = match read {
            Ok(()) => head == first_line.as_bytes(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(error).with_context(failure),
        };
        if !is_ours {
            let message = format!(
                "{}: would be overwritten, and holds something else: name a file that does not exist",
                path.display()
            );
            return Err(RefusedError(message).into());
        }
    }
    write(path, contents, inputs)
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
            Some(_) if is_descriptor(path) => appended(path).map(Self::Direct),
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

/// Whether the name stands for an open file of this process, such as where its output goes.
fn is_descriptor(path: &Path) -> bool {
    let is_named = |name: &&str| path.starts_with(name);
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|name| is_named(&name))
}

/// Opens such a file without touching what it holds.
fn appended(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().append(true).open(path)
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
    if !is_descriptor(path)
        && present.is_file()
        && !is_text(path).with_context(|| format!("{}: cannot read", path.display()))?
    {
        return refused("would be overwritten, and holds something else: name a file that does not exist");
    }
    Ok(())
}

/// Whether the file may have been written by this program: its first 64 KiB are text, or it is a table in Parquet or a
/// recording.
fn is_text(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(LOOKED_AT).read_to_end(&mut head)?;
    let is_text = match std::str::from_utf8(&head) {
        Ok(text) => !text.contains('\0'),
        // The last character may be cut off.
        Err(error) => head.len() as u64 == LOOKED_AT && error.error_len().is_none() && !head.contains(&0),
    };
    Ok(is_text || head.starts_with(b"PAR1") || straddle_trace::is_recording(&head))
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
    fn a_key_is_no_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("luks.key");
        // None of these bytes begins a character in UTF-8, and none is zero.
        let key: Vec<u8> = (0..32_u8).map(|at| at.wrapping_mul(167) | 0x81).collect();
        fs::write(&path, &key).unwrap();
        assert!(write(&path, b"page", &[]).unwrap_err().is::<RefusedError>());
        assert_eq!(fs::read(&path).unwrap(), key);
        // A long text that is cut inside a character.
        let long = "\u{e4}".repeat(50_000);
        fs::write(&path, format!("x{long}")).unwrap();
        write(&path, b"page", &[]).unwrap();
    }

    #[test]
    fn only_a_file_of_the_same_kind_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.fio");
        write_over(&path, b"; ours\none", &[], "; ours").unwrap();
        write_over(&path, b"; ours\ntwo", &[], "; ours").unwrap();
        for other in ["; our", "notes\n", "\n; ours"] {
            fs::write(&path, other).unwrap();
            assert!(write_over(&path, b"; ours\n", &[], "; ours").unwrap_err().is::<RefusedError>());
            assert_eq!(fs::read_to_string(&path).unwrap(), other);
        }
    }

    #[test]
    fn where_output_goes_is_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "a log\n").unwrap();
        let log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let name = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&log));
        write(Path::new(&name), b"page\n", &[]).unwrap();
        let mut pending = Pending::begin(Path::new(&name), &[]).unwrap();
        pending.write_all(b"more\n").unwrap();
        pending.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a log\npage\nmore\n");
        assert_eq!(listing(dir.path()), ["log"]);
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
