//! The contents of a drive: a sparse file, or memory. Bytes never written read as zeroes.
//!
//! A file is locked while it is open: two drives with the same contents would overwrite each other's data.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use straddle_device::claim::{self, Claim, LockError};

use crate::media::pages::Pages;

/// The size of the pieces in which zeroes are written where holes cannot be punched.
const PIECE: usize = 64 << 10;

/// Why the contents cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum StoreError {
    #[error("{}: cannot be used as a store", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("{}: not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{}: holds {found} bytes, but the drive has {wanted}; use another file, or remove this \
             one", path.display())]
    OtherSize { path: PathBuf, found: u64, wanted: u64 },
    #[error("{}: in use: {by}", path.display())]
    InUse { path: PathBuf, by: String },
}

straddle_units::error_kind! {
    StoreError: Refused;
    Self::Unusable { .. } => Failed,
}

/// The contents of a drive.
#[derive(Debug)]
pub struct Store {
    contents: Contents,
    size: u64,
}

#[derive(Debug)]
enum Contents {
    Memory(Pages),
    File {
        file: File,
        /// Held as long as the store exists.
        _claim: Claim,
    },
}

impl Store {
    /// Creates contents of `size` bytes in memory. Only what is written takes memory.
    pub fn memory(size: u64) -> Self {
        Self { contents: Contents::Memory(Pages::default()), size }
    }

    /// Opens contents in a file. Creates a sparse file if there is none; an existing one must have this size.
    /// An empty file is treated as missing.
    pub fn file(path: &Path, size: u64) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Unusable { path: path.to_owned(), source };
        // Without this flag, opening a FIFO would wait for another process to open its other end.
        let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(nonblock)
            .open(path)
            .map_err(unusable)?;
        let metadata = file.metadata().map_err(unusable)?;
        if !metadata.is_file() {
            return Err(StoreError::NotAFile { path: path.to_owned() });
        }
        let claim = claim::take(&file, path).map_err(|error| match error {
            LockError::Io(source) => unusable(source),
            error => StoreError::InUse { path: path.to_owned(), by: error.to_string() },
        })?;
        // The size is certain only once the lock is held.
        match file.metadata().map_err(unusable)?.len() {
            found if found == size => {}
            0 => file.set_len(size).map_err(unusable)?,
            found => return Err(StoreError::OtherSize { path: path.to_owned(), found, wanted: size }),
        }
        Ok(Self { contents: Contents::File { file, _claim: claim }, size })
    }

    /// Returns the size in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.contents {
            Contents::Memory(_) if !self.holds(offset, buffer.len() as u64) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Contents::Memory(pages) => {
                pages.read(offset, buffer);
                Ok(())
            }
            Contents::File { file, .. } => file.read_exact_at(buffer, offset),
        }
    }

    /// Writes `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.holds(offset, data.len() as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A file system's tables on a large drive are gigabytes of zeroes.
        if is_zero(data) {
            return self.zero(offset, data.len() as u64);
        }
        match &mut self.contents {
            Contents::Memory(pages) => {
                pages.write(offset, data);
                Ok(())
            }
            Contents::File { file, .. } => file.write_all_at(data, offset),
        }
    }

    /// Makes the span read as zeroes, and frees its space where possible.
    pub fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        if !self.holds(offset, length) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if length == 0 {
            return Ok(());
        }
        match &mut self.contents {
            Contents::Memory(pages) => {
                pages.zero(offset, length);
                Ok(())
            }
            Contents::File { file, .. } => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                match rustix::fs::fallocate(file.as_fd(), hole, offset, length) {
                    Ok(()) => Ok(()),
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, offset, length),
                    Err(errno) => Err(errno.into()),
                }
            }
        }
    }

    /// Flushes what was written to the file system's own medium. Does nothing for memory.
    pub fn sync(&self) -> io::Result<()> {
        match &self.contents {
            Contents::Memory(_) => Ok(()),
            Contents::File { file, .. } => file.sync_data(),
        }
    }

    const fn holds(&self, offset: u64, length: u64) -> bool {
        match offset.checked_add(length) {
            Some(end) => end <= self.size,
            None => false,
        }
    }

    /// Makes the span read as zeroes, and keeps its space in the file allocated.
    pub fn write_zeroes(&mut self, offset: u64, length: u64) -> io::Result<()> {
        match &self.contents {
            Contents::File { file, .. } if self.holds(offset, length) => fill(file, offset, length),
            _ => self.zero(offset, length),
        }
    }
}

fn fill(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let zeroes = [0; PIECE];
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let piece = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        file.write_all_at(&zeroes[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

fn is_zero(data: &[u8]) -> bool {
    data.chunks(64).all(|chunk| chunk.iter().fold(0, |bits, byte| bits | byte) == 0)
}
