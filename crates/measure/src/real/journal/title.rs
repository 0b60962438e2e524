//! The first line of a journal file. It decides to which journal the file belongs; the name does not.
//!
//! Invariants: a file of another program is never written and never removed, whatever it is
//! called.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags};
use rustix::io::Errno;
use straddle_device::FileId;

/// The first word of every journal file.
const MAGIC: &str = "straddle-journal-3";
/// The maximum length of the line in bytes. It contains the stem of a file name, and file names are shorter
/// than this.
const LONGEST: u64 = 512;

/// The journal to which a file belongs, and its number in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Title {
    pub(super) stem: String,
    pub(super) number: u64,
}

/// Whether the error leaves open whose file it is: it may exist, but cannot be read by this process, or not
/// now.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::ACCESS | Errno::PERM | Errno::IO | Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    )
}

impl Title {
    pub(super) fn new(stem: &str, number: u64) -> Self {
        Self { stem: stem.to_owned(), number }
    }

    /// The first line, with its line feed.
    pub(super) fn line(&self) -> String {
        format!("{MAGIC} {} {}\n", self.stem, self.number)
    }

    /// Parses the first line, without its line feed. `None` if it is anything else.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let (stem, number) = text.strip_prefix(MAGIC)?.strip_prefix(' ')?.split_once(' ')?;
        let title = Self { stem: stem.to_owned(), number: number.parse().ok()? };
        (title.line().trim_end() == text).then_some(title)
    }

    /// Reads the title of the file at `path`. `None` if there is no file, or it does not belong to a journal;
    /// an error if that cannot be determined.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        match open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes)) {
            Err(error) if is_passing(&error) => return Err(error),
            Err(_) => return Ok(None),
            Ok(_) => {}
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        Ok(end.and_then(|end| Self::decode(&bytes[..end])))
    }

    /// Creates the file at `path`, which must not exist, with only this line in it, durable and locked. Where
    /// the file system supports unnamed files (`O_TMPFILE`), it gets its name only after the line has been
    /// written.
    pub(super) fn make(&self, path: &Path) -> io::Result<File> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::TMPFILE.bits().cast_signed();
        let nameless = OpenOptions::new().write(true).mode(0o600).custom_flags(flags).open(folder);
        if let Ok(file) = nameless {
            self.fill(&file)?;
            let from = format!("/proc/self/fd/{}", file.as_raw_fd());
            match rustix::fs::linkat(CWD, from.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(file),
                Err(errno @ (Errno::EXIST | Errno::NOSPC | Errno::DQUOT)) => return Err(errno.into()),
                Err(_) => {}
            }
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        if let Err(error) = self.fill(&file) {
            let _ = FileId::remove_open(&file, path);
            return Err(error);
        }
        Ok(file)
    }

    fn fill(&self, mut file: &File) -> io::Result<()> {
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(self.line().as_bytes())?;
        file.sync_all()
    }
}

/// Opens a file for reading that has the name of a journal file. Symbolic links are refused, and a FIFO does
/// not block.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    Ok(file)
}

/// Removes the file at `path` if it belongs to the journal `stem`.
pub(super) fn remove(path: &Path, stem: &str) -> io::Result<()> {
    if Title::read(path)?.is_none_or(|title| title.stem != stem) {
        return Ok(());
    }
    match fs::remove_file(path) {
        // Another process that settles the same journal has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
