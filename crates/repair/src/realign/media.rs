//! What moves read and write: the target, and the file of a journal.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use straddle_device::claim::{self, Claim};
use straddle_device::{FileId, Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{MoveError, Realign};
use crate::apply::create_durably;
use crate::relocate::{Device, FileAccess, RelocateError, journal_len};
use crate::target::Disk;

/// Where the journal of a move is.
#[derive(Debug)]
pub enum JournalPlace {
    /// In unallocated space of the disk.
    Inside,
    /// In a file on another disk, which is removed in the end.
    File(JournalFile),
}

/// A file for a journal, locked. One that was found is written to only if it holds the journal of a move.
#[derive(Debug)]
pub struct JournalFile {
    pub(super) file: File,
    /// Of a file that was found, without symbolic links: those stay.
    path: PathBuf,
    pub(super) size: ByteCount,
    /// Whether it was made for a move that has not begun.
    is_new: bool,
    _claim: Claim,
}

impl JournalPlace {
    pub(super) fn discard(&self) {
        if let Self::File(file) = self
            && file.is_new
        {
            let _ = file.remove();
        }
    }
}

impl JournalFile {
    /// Makes a new file for the journal of `realign`. A file that exists is refused.
    pub fn create(path: &Path, realign: &Realign) -> Result<Self, MoveError> {
        let payload = vec![0; crate::relocate::LARGEST_PAYLOAD];
        let len = journal_len(&realign.job([0; 16], payload)?)?;
        let file = create_durably(path, |file| reserve(file, len)).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => MoveError::JournalExists(path.to_owned()),
            _ => failed(path, error),
        })?;
        Ok(Self { is_new: true, ..Self::of(file, path)? })
    }

    /// Opens the file of an unfinished move.
    pub fn open(path: &Path) -> Result<Self, MoveError> {
        let failed = |source| failed(path, source);
        let path = &std::fs::canonicalize(path).map_err(failed)?;
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("the file is not a regular file")));
        }
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        Self::of(file, path)
    }

    fn of(file: File, path: &Path) -> Result<Self, MoveError> {
        let claim = claim::take(&file, path).map_err(|error| failed(path, io::Error::other(error)))?;
        let size = FileAccess::new(&file).size().map_err(|source| failed(path, source))?;
        Ok(Self { file, path: path.to_owned(), size, is_new: false, _claim: claim })
    }

    /// Removes the file of a complete move, but not another one that has its name now.
    pub(super) fn remove(&self) -> Result<(), MoveError> {
        FileId::remove_open(&self.file, &self.path).map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> MoveError {
    MoveError::JournalFile { path: path.to_owned(), source }
}

/// Zeros are written where the file system cannot reserve space (FAT, exFAT, NTFS-3G, NFS before 4.2).
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

pub(super) fn write(disk: &mut dyn Disk, at: ByteOffset, bytes: &[u8]) -> Result<(), MoveError> {
    let (device, len) = (Device::Data, ByteCount::new(bytes.len() as u64));
    Ok(disk.write_at(at, bytes).map_err(|source| RelocateError::Write { device, at, len, source })?)
}

pub(super) fn flush(disk: &mut dyn Disk) -> Result<(), MoveError> {
    Ok(disk.flush().map_err(|source| RelocateError::Flush { device: Device::Data, source })?)
}

fn read(medium: &dyn Medium, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
    medium.read_at(at, bytes).map_err(|error| match error {
        ReadError::Io { source, .. } => source,
        error => io::Error::other(error),
    })
}

pub(crate) struct Reading<'m>(pub(crate) &'m dyn Medium);

impl crate::relocate::Disk for Reading<'_> {
    fn size(&self) -> ByteCount {
        self.0.len()
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        read(self.0, at, bytes)
    }

    fn write(&mut self, _: ByteOffset, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

pub(super) struct Carrier<'a>(pub(super) &'a mut dyn Disk);

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
