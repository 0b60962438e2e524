//! Disks that can be written.
//!
//! The law of this module: a [`Disk`] does what it is told and decides nothing; [`FileDisk`] exists only for a raw image or a
//! block device that nobody else has open for themselves.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset};

/// A medium that can be written.
pub trait Disk: Medium {
    /// Writes `bytes` at `at`. They may be in a cache afterwards, and reach the medium in any order.
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()>;

    /// Ends when everything written is on the medium.
    fn flush(&mut self) -> io::Result<()>;
}

/// Why a disk cannot be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The operating system refused.
    #[error("cannot open for writing")]
    Io(#[source] io::Error),
    /// Somebody else has it open for themselves.
    #[error("is in use: {0}")]
    InUse(String),
    /// It is no disk.
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
}

impl FileDisk {
    /// Opens the image or the whole disk at `path`, of `len` bytes. A block device is opened for exclusive use (O_EXCL),
    /// which the kernel refuses while it, or a partition of it, is mounted or held; an image is locked.
    pub fn open(path: &Path, len: ByteCount) -> Result<Self, DiskError> {
        let kind = std::fs::metadata(path).map_err(DiskError::Io)?.file_type();
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
            Some(code) if code == Errno::BUSY.raw_os_error() => DiskError::InUse(
                "the kernel refuses exclusive use, because it or a partition of it is mounted or held"
                    .to_owned(),
            ),
            _ => DiskError::Io(error),
        })?;
        let found = file.metadata().map_err(DiskError::Io)?.file_type();
        if found.is_file() != kind.is_file() || found.is_block_device() != kind.is_block_device() {
            return Err(DiskError::NotADisk);
        }
        if found.is_file() {
            lock(&file)?;
        }
        Ok(Self { file, path: path.to_owned(), len, is_device: found.is_block_device() })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a block device.
    pub fn is_device(&self) -> bool {
        self.is_device
    }
}

/// Locks a file in both ways that others look at: flock(2), and the record locks that QEMU's conflict with.
fn lock(file: &File) -> Result<(), DiskError> {
    let in_use = |errno: Errno| match errno {
        Errno::WOULDBLOCK | Errno::ACCESS => {
            DiskError::InUse("another program has locked the file".to_owned())
        }
        errno => DiskError::Io(errno.into()),
    };
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(in_use)?;
    rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive).map_err(in_use)
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
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at.get())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
