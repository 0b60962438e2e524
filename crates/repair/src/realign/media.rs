//! What moves write to: the target and the file of a journal.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::relocate::{FileAccess, journal_len};
use serde::{Deserialize, Serialize};
use straddle_device::claim::{self, Claim};
use straddle_device::{FileId, Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{MoveError, Realign};
use crate::target::Disk;

/// Where the journal of a move that begins is.
#[derive(Debug)]
pub enum JournalPlace {
    /// In unallocated space of the disk.
    Inside,
    /// In a file on another disk, which was made for it.
    File(NewJournal),
}

/// A file that was made for a journal, locked. It is written to, and removed in the end.
#[derive(Debug)]
pub struct NewJournal(JournalHandle);

/// A file that may hold the journal of an unfinished move, locked. It is written to only if it does.
#[derive(Debug)]
pub struct FoundJournal(pub(super) JournalHandle);

/// Where the journal of a run is.
#[derive(Debug)]
pub(super) enum Place {
    /// In unallocated space of the disk.
    Inside,
    /// In a file on another disk.
    File(JournalHandle),
}

impl From<JournalPlace> for Place {
    fn from(place: JournalPlace) -> Self {
        match place {
            JournalPlace::Inside => Self::Inside,
            JournalPlace::File(NewJournal(file)) => Self::File(file),
        }
    }
}

/// A file for a journal, locked.
#[derive(Debug)]
pub(super) struct JournalHandle {
    pub(super) file: File,
    /// Without symbolic links: what they lead to is the journal, and they are the user's.
    path: PathBuf,
    pub(super) size: ByteCount,
    /// Whether it was made for a move that has not begun.
    is_new: bool,
    _claim: Claim,
}

/// When a file was made, in seconds and nanoseconds. A copy of the file has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Birth {
    seconds: i64,
    nanoseconds: u32,
}

/// The file systems, by their magic numbers, of which the time is known to be that of the file, whichever kernel
/// mounts them: ext4, XFS, Btrfs, F2FS and tmpfs.
const WITH_BIRTH: [u64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];

impl Place {
    /// When its file was made, if that is known.
    pub(super) fn birth(&self) -> Option<Birth> {
        match self {
            Self::File(file) => file.birth(),
            Self::Inside => None,
        }
    }

    /// Removes the file that was made for a move that cannot begin.
    pub(super) fn discard(self) {
        if let Self::File(file) = self
            && file.is_new
        {
            // The error that is reported counts for more.
            let _ = file.remove();
        }
    }
}

impl NewJournal {
    /// Makes a new file for the journal of `realign`. A file that exists is refused.
    ///
    /// # Errors
    ///
    /// [`MoveError::JournalFile`].
    pub fn create(path: &Path, realign: &Realign) -> Result<Self, MoveError> {
        let failed = |source| MoveError::JournalFile { path: path.to_owned(), source };
        let payload = vec![0; crate::relocate::LARGEST_PAYLOAD];
        let len = journal_len(&realign.job([0; 16], payload)?)?;
        // It will hold data of the disk, which not everybody may read.
        let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                MoveError::JournalExists { path: path.to_owned(), is_journal: is_journal(path) }
            }
            _ => failed(error),
        })?;
        let made = reserve(&file, len).and_then(|()| file.sync_all()).and_then(|()| {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        });
        made.map_err(|error| {
            let _ = FileId::remove_open(&file, path);
            failed(error)
        })?;
        Ok(Self(JournalHandle { is_new: true, ..JournalHandle::of(file, path)? }))
    }
}

/// Gives a new file this length, with space for all of it: with zeros where the file system cannot reserve space
/// (FAT, exFAT, NTFS-3G, NFS before 4.2).
fn reserve(mut file: &File, len: ByteCount) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::empty(), 0, len.get()) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            io::copy(&mut io::repeat(0).take(len.get()), &mut file).map(drop)
        }
        reserved => Ok(reserved?),
    }
}

/// Whether a file begins as a journal does. One that cannot be read may. No other program is waited for, as the other
/// end of a pipe would be.
fn is_journal(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let mut start = [0; 16];
    let waits_for_nobody = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(waits_for_nobody).open(path);
    match file.and_then(|mut file| file.read_exact(&mut start)) {
        Ok(()) => crate::relocate::is_title(&start),
        Err(error) => error.kind() != io::ErrorKind::UnexpectedEof,
    }
}

impl FoundJournal {
    /// Opens the file of an unfinished move. Of a symbolic link, the file that it leads to is the journal: that
    /// one is removed in the end, and the link stays.
    ///
    /// # Errors
    ///
    /// [`MoveError::JournalFile`].
    pub fn open(path: &Path) -> Result<Self, MoveError> {
        let failed = |source| MoveError::JournalFile { path: path.to_owned(), source };
        let path = &std::fs::canonicalize(path).map_err(failed)?;
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        JournalHandle::of(file, path).map(Self)
    }
}

impl JournalHandle {
    fn of(file: File, path: &Path) -> Result<Self, MoveError> {
        let failed = |source| MoveError::JournalFile { path: path.to_owned(), source };
        let claim = claim::take(&file, path).map_err(|error| failed(io::Error::other(error)))?;
        let size = FileAccess::new(&file).size().map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), size, is_new: false, _claim: claim })
    }

    /// When the file was made, if its file system says so.
    pub(super) fn birth(&self) -> Option<Birth> {
        use rustix::fs::{AtFlags, StatxFlags, fstatfs, statx};
        let magic = u64::try_from(fstatfs(&self.file).ok()?.f_type).ok()?;
        let found = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
        let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0 && WITH_BIRTH.contains(&magic);
        let (seconds, nanoseconds) = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        is_known.then_some(Birth { seconds, nanoseconds })
    }

    /// Removes the file of a move that is complete. Another file that has its name now stays; the journal has no
    /// contents any more.
    pub(super) fn remove(self) -> Result<(), MoveError> {
        let failed = |source| MoveError::JournalFile { path: self.path.clone(), source };
        FileId::remove_open(&self.file, &self.path).map_err(failed)
    }
}

/// Reads a medium as the engine reads a disk.
pub(super) fn read(medium: &dyn Medium, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
    medium.read_at(at, bytes).map_err(|error| match error {
        ReadError::Io { source, .. } => source,
        error => io::Error::other(error),
    })
}

/// A target, as data are moved on it.
pub(super) struct Carrier<'a>(pub(super) &'a mut dyn Disk);

/// A file, as a journal is written to it.
pub(super) struct Writer<'a>(pub(super) &'a File);

impl crate::relocate::Disk for Carrier<'_> {
    fn size(&self) -> ByteCount {
        self.0.len()
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        read(self.0, at, bytes)
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn drop_cache(&mut self, span: Span) {
        self.0.drop_cache(span);
    }

    fn prefetch(&mut self, span: Span) {
        self.0.prefetch(span);
    }

    fn holes(&mut self, span: Span) -> Vec<Span> {
        self.0.holes(span)
    }

    fn punch(&mut self, span: Span) -> io::Result<()> {
        self.0.punch(span)
    }
}

impl crate::relocate::Disk for Writer<'_> {
    fn size(&self) -> ByteCount {
        FileAccess::new(self.0).size().unwrap_or_default()
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        FileAccess::new(self.0).read(at, bytes)
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        FileAccess::new(self.0).write(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn drop_cache(&mut self, span: Span) {
        FileAccess::new(self.0).drop_cache(span);
    }
}
