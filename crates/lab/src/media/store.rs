//! The contents of a drive: a sparse file, or memory. Bytes never written read as zeroes.
//!
//! A file is locked while it is open: two drives with the same contents would overwrite each other's data.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, MemfdFlags, OFlags};
use rustix::io::Errno;
use straddle_device::claim::{self, Claim, LockError};

/// The size of the pieces in which zeroes are written where holes cannot be punched.
const PIECE: usize = 64 << 10;

/// Why the contents cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum StoreError {
    #[error("{}: cannot be used as a store", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("{}: is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{}: holds {found} bytes, but the drive has {wanted}; use another file, or remove this one", path.display())]
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
    file: File,
    size: u64,
    /// Held as long as the store exists; `None` for memory.
    claim: Option<Claim>,
}

impl Store {
    /// Creates contents of `size` bytes in memory. Only what is written takes memory.
    pub fn memory(size: u64) -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("straddle-store", MemfdFlags::CLOEXEC)?);
        file.set_len(size)?;
        Ok(Self { file, size, claim: None })
    }

    /// Opens contents in a file of this size. Creates a sparse file if there is none or it is empty.
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
        Ok(Self { file, size, claim: Some(claim) })
    }

    /// Returns the size in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Writes `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(offset, data.len() as u64)?;
        // A file system's tables on a large drive are gigabytes of zeroes.
        if is_zero(data) {
            return self.zero(offset, data.len() as u64);
        }
        self.file.write_all_at(data, offset)
    }

    /// Makes the span read as zeroes, and frees its space where possible.
    pub fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.check(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self.file.as_fd(), hole, offset, length) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(&self.file, offset, length),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes the span read as zeroes, and keeps its space in the file allocated.
    pub fn write_zeroes(&mut self, offset: u64, length: u64) -> io::Result<()> {
        if self.claim.is_none() {
            return self.zero(offset, length);
        }
        self.check(offset, length)?;
        fill(&self.file, offset, length)
    }

    /// Flushes what was written to the file system's own medium.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn check(&self, offset: u64, length: u64) -> io::Result<()> {
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= self.size);
        if is_inside { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
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
