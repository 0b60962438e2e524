//! Disks that can be written.
//!
//! The law of this module: a [`Disk`] decides nothing, and accepts bytes only from [`apply`](crate::apply). A
//! [`FileDisk`] exists only for a raw image or a block device that no other process uses, as far as locks,
//! the kernel and /proc tell.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use straddle_device::claim::{self, Claim, LockError};
use straddle_device::ioctl::{IoctlError, reread_partitions};
use straddle_device::live::Machine;
use straddle_device::{FileId, Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset};

/// Permission to write to a [`Disk`]: only [`BackedUp::write`](crate::apply::BackedUp::write) has one.
#[derive(Debug)]
pub struct WritePermit(());

impl WritePermit {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

/// A medium that can be written.
pub trait Disk: Medium {
    /// Writes `bytes` at `at`. They may remain in a cache, and reach the medium in any order.
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8], permit: &WritePermit) -> io::Result<()>;

    /// Returns when everything written is on the medium.
    fn flush(&mut self) -> io::Result<()>;

    /// Has the kernel reread the partition table (BLKRRPART); `None` if no kernel reads it.
    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        None
    }
}

/// Why a disk cannot be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The operating system refused.
    #[error("cannot open for writing")]
    Io(#[source] io::Error),
    /// Another process uses it, or has opened it for exclusive use.
    #[error("nothing was written: it is in use: {0}")]
    InUse(String),
    /// The path now leads to another file than the one that was examined.
    #[error("nothing was written: it was replaced while it was opened")]
    Replaced,
    /// It is neither a block device nor a regular file.
    #[error("is neither a block device nor a file")]
    NotADisk,
}

/// A raw image or a block device, open for writing.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    path: PathBuf,
    len: ByteCount,
    is_device: bool,
    /// The lock, held as long as the disk is open.
    _claim: Claim,
}

impl FileDisk {
    /// Opens and locks the image or whole disk at `path`, of `len` bytes. A block device is opened for
    /// exclusive use (O_EXCL), which the kernel refuses while the device or a partition of it is mounted or
    /// held. Other users are searched for as well, as not every process claims what it uses. `seen`
    /// identifies the file that was examined before; another file in its place is refused.
    pub fn open(path: &Path, len: ByteCount, seen: Option<FileId>) -> Result<Self, DiskError> {
        let metadata = std::fs::metadata(path).map_err(DiskError::Io)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(DiskError::NotADisk);
        }
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if kind.is_block_device() {
            flags |= OFlags::EXCL;
        }
        let open =
            OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path);
        let file = open.map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::BUSY.raw_os_error() => {
                let uses = Machine::read(None).uses(path);
                let unknown =
                    "the kernel refuses exclusive use, because it or a partition of it is mounted or held";
                DiskError::InUse(if uses.is_empty() { unknown.to_owned() } else { uses.join("; ") })
            }
            _ => DiskError::Io(error),
        })?;
        let found = file.metadata().map_err(DiskError::Io)?;
        let id = FileId::of(&found);
        if id != FileId::of(&metadata) {
            return Err(DiskError::Replaced);
        }
        let claim = claim::take(&file, path).map_err(|error| match error {
            LockError::Io(source) => DiskError::Io(source),
            error => DiskError::InUse(error.to_string()),
        })?;
        if seen.is_some_and(|seen| seen != id) {
            return Err(DiskError::Replaced);
        }
        Ok(Self { file, path: path.to_owned(), len, is_device: kind.is_block_device(), _claim: claim })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Medium for FileDisk {
    fn len(&self) -> ByteCount {
        self.len
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.file.read_exact_at(buf, at.get()).map_err(|source| ReadError::Io { at, source })
    }
}

impl Disk for FileDisk {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8], _: &WritePermit) -> io::Result<()> {
        self.file.write_all_at(bytes, at.get())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        self.is_device.then(|| reread_partitions(&self.file))
    }
}
