//! What a file of a journal says of itself in its first line: whose it is says that, and not its name.
//!
//! The law of this module: a file of another program is never written and never removed, whatever it is called.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags};
use rustix::io::Errno;

/// What all of them begin with.
const MAGIC: &str = "straddle-journal-3";
/// No line is longer: names of files are not.
const LONGEST: u64 = 512;

/// Of which journal a file is, and which one of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Title {
    pub(super) stem: String,
    pub(super) number: u64,
}

/// Whether a file may be there and cannot be read by us, or not now.
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

    /// The first line, with its end.
    pub(super) fn line(&self) -> String {
        format!("{MAGIC} {} {}\n", self.stem, self.number)
    }

    /// Of the first line, without its end; `None` where it is anything else.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let (stem, number) = text.strip_prefix(MAGIC)?.strip_prefix(' ')?.split_once(' ')?;
        let title = Self { stem: stem.to_owned(), number: number.parse().ok()? };
        (title.line().trim_end() == text).then_some(title)
    }

    /// What the file at `path` says; `None` where it is no file, or none of a journal, and an error where that is not known.
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

    /// Makes the file at `path`, which was not there, with this line and nothing else in it, durable and locked. It has its name when
    /// the line is in it, where the file system can do that.
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
            let _ = fs::remove_file(path);
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

/// Opens a file that is called as a journal is: no link to one, and a FIFO of that name holds up no process.
pub(super) fn open(path: &Path) -> io::Result<File> {
    open_as(path, OpenOptions::new().read(true))
}

/// The same, to write in it.
pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    open_as(path, OpenOptions::new().read(true).write(true))
}

fn open_as(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    Ok(file)
}

/// Removes a file of the journal `stem`, if that is what is at `path`.
pub(super) fn remove(path: &Path, stem: &str) -> io::Result<()> {
    if Title::read(path)?.is_none_or(|title| title.stem != stem) {
        return Ok(());
    }
    match fs::remove_file(path) {
        // Somebody else who settles the same journal was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
