//! Opens a file or block device for measuring, and finds its smallest addressable unit.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use straddle_device::FileId;
use straddle_device::claim::{self, Claim, LockError};
use straddle_device::image::Format;
use straddle_device::live::Machine;

use crate::memory::Memory;

/// How bytes go to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// Past the page cache (`O_DIRECT`): the drive sees the requests as they are.
    #[default]
    Direct,
    /// Through the page cache.
    Buffered,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// What is going to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading only.
    Read,
    /// Writing beside others who use partitions of the device: into free space. No process may use the disk as a whole; a file
    /// belongs to no process.
    Share,
    /// Writing where no other process may: a block device is claimed (`O_EXCL`), which fails when it is mounted or held.
    Claim,
}

/// Why a target cannot be opened for measuring.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused.
    #[error("{path}: cannot open", path = path.display())]
    Unusable {
        /// The target.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Somebody uses it.
    #[error("{path}: in use: {by}", path = path.display())]
    InUse {
        /// The target.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// The path leads to another file than a moment ago.
    #[error("{path}: was replaced while it was opened", path = path.display())]
    Replaced {
        /// The target.
        path: PathBuf,
    },
    /// Neither a file nor a block device.
    #[error("{path}: neither a regular file nor a block device", path = path.display())]
    NotATarget {
        /// The path.
        path: PathBuf,
    },
    /// The file system knows no direct I/O.
    #[error("{path}: the file system takes no direct I/O; measure through the page cache (--io buffered)", path = path.display())]
    NoDirect {
        /// The target.
        path: PathBuf,
    },
    /// Its bytes are not those of a disk: writing among them would destroy what it holds.
    #[error("{path}: is {what}: nothing is written to it; measure on a raw file", path = path.display())]
    NotRaw {
        /// The target.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// There is nothing in it.
    #[error("{path}: empty", path = path.display())]
    Empty {
        /// The target.
        path: PathBuf,
    },
}

/// An open target.
#[derive(Debug)]
pub struct Opened {
    /// As it was named.
    pub path: PathBuf,
    /// The open file, through which only this crate writes.
    pub(crate) file: File,
    /// What it is.
    pub kind: Kind,
    /// Which file or device it is, under whichever name.
    pub id: FileId,
    /// Its size in bytes.
    pub size: u64,
    /// The smallest unit that can be read by itself, in bytes.
    pub sector: u64,
    /// How bytes go to it.
    pub io: Io,
    /// Held as long as it is.
    _claim: Claim,
}

/// Units that are tried, the smallest first.
const UNITS: [u64; 4] = [512, 1024, 2048, 4096];

impl Opened {
    /// Opens `path` for reading only.
    pub fn for_reading(path: &Path, io: Io) -> Result<Self, OpenError> {
        Self::open(path, Access::Read, io)
    }

    /// Opens `path`. For writing it is locked, which ends with the file, and no other process may use it.
    pub(crate) fn open(path: &Path, access: Access, io: Io) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
        let metadata = path.metadata().map_err(unusable)?;
        let found = metadata.file_type();
        let kind = match (found.is_file(), found.is_block_device()) {
            (true, _) => Kind::File,
            (_, true) => Kind::Block,
            _ => return Err(OpenError::NotATarget { path: path.to_owned() }),
        };
        if kind == Kind::File
            && access != Access::Read
            && let Some(what) = Format::not_raw(path).map_err(unusable)?
        {
            return Err(OpenError::NotRaw { path: path.to_owned(), what });
        }
        // Should a FIFO have taken its place, this flag keeps us from waiting for somebody at its other end.
        let mut flags = OFlags::NONBLOCK;
        flags.set(OFlags::DIRECT, io == Io::Direct);
        flags.set(OFlags::EXCL, access == Access::Claim && kind == Kind::Block);
        let file = OpenOptions::new()
            .read(true)
            .write(access != Access::Read)
            .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
            .open(path)
            .map_err(|source| match Errno::from_io_error(&source) {
                Some(Errno::BUSY) => {
                    let uses = Machine::read(None).uses(path);
                    let unknown = || "another layer or program holds it".to_owned();
                    let by = if uses.is_empty() { unknown() } else { uses.join("; ") };
                    OpenError::InUse { path: path.to_owned(), by }
                }
                // Somebody keeps it from others, as we do; they are asked to give it up.
                Some(Errno::AGAIN) => OpenError::InUse {
                    path: path.to_owned(),
                    by: "another program keeps it to itself".into(),
                },
                Some(Errno::INVAL) if io == Io::Direct => OpenError::NoDirect { path: path.to_owned() },
                _ => unusable(source),
            })?;
        let id = FileId::of_open(&file).map_err(unusable)?;
        if id != FileId::of(&metadata) {
            return Err(OpenError::Replaced { path: path.to_owned() });
        }
        let mut claim = Claim::default();
        if access != Access::Read {
            claim = take(&file, path, access)?;
        }
        let size = size(&file).map_err(unusable)?;
        if size == 0 {
            return Err(OpenError::Empty { path: path.to_owned() });
        }
        let sector = unit(&file, size, io).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), file, kind, id, size, sector, io, _claim: claim })
    }
}

impl Opened {
    /// How long the file is now; a device keeps its size.
    pub(crate) fn length(&self) -> u64 {
        match self.kind {
            Kind::Block => self.size,
            Kind::File => self.file.metadata().map_or(0, |metadata| metadata.len()),
        }
    }

    /// Whether it is as long as it was: what is cut short meanwhile is not to be grown by a write behind its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.length() >= self.size
    }

    /// Writes `bytes` at `at`, as far as the file still reaches.
    pub(crate) fn write_inside(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = u64::try_from(bytes.len()).ok().and_then(|length| at.checked_add(length));
        if end.is_none_or(|end| end > self.size) || !self.is_whole() {
            return Err(io::Error::other("it has been cut short"));
        }
        self.file.write_all_at(bytes, at)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        claim::unlock(&self.file);
    }
}

/// Locks what is open and what it stands on, and looks for other users: those that lock nothing are found only this way.
fn take(file: &File, path: &Path, access: Access) -> Result<Claim, OpenError> {
    let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
    let refused = |error| match error {
        LockError::Io(source) => unusable(source),
        error => OpenError::InUse { path: path.to_owned(), by: error.to_string() },
    };
    let mut claim = claim::lock(file).map_err(refused)?;
    let metadata = file.metadata().map_err(unusable)?;
    let machine = Machine::read(None);
    claim.lock_below(&machine, &metadata, access == Access::Claim).map_err(refused)?;
    let uses = if access == Access::Share && metadata.file_type().is_block_device() {
        machine.uses_of_whole(&metadata)
    } else {
        machine.uses_of(&metadata, path)
    };
    if uses.is_empty() {
        return Ok(claim);
    }
    Err(OpenError::InUse { path: path.to_owned(), by: uses.join("; ") })
}

/// The size of a file, or, where `stat` says nothing, of a device.
fn size(file: &File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut at_end = file;
    at_end.seek(SeekFrom::End(0))
}

/// The smallest unit that can be read: 512 bytes through the page cache; with direct I/O what the file system or device
/// takes, which is tried.
fn unit(file: &File, size: u64, io: Io) -> io::Result<u64> {
    if io == Io::Buffered {
        return Ok(UNITS[0]);
    }
    let mut memory = Memory::new(8192);
    for unit in UNITS {
        let at = if size >= 2 * unit { unit } else { 0 };
        let length = usize::try_from(unit).unwrap_or(8192);
        match file.read_at(&mut memory.bytes_mut()[..length], at) {
            Ok(_) => return Ok(unit),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::INVAL.into())
}
