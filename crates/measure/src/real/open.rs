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

use crate::real::memory::Memory;

/// How data is transferred to and from the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// Past the page cache (`O_DIRECT`): the drive receives the requests unchanged.
    #[default]
    Direct,
    /// Through the page cache.
    Buffered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Writing to free space, while other processes may use partitions of the device, but not the whole disk. A file
    /// must have no user at all.
    Share,
    /// Writing, while no other process may. A block device is claimed (`O_EXCL`).
    Claim,
}

/// Why a target cannot be opened for measuring.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum OpenError {
    #[error("{path}: cannot open", path = path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("{path}: in use: {by}", path = path.display())]
    InUse { path: PathBuf, by: String },
    #[error("{path}: was replaced while it was being opened", path = path.display())]
    Replaced { path: PathBuf },
    #[error("{path}: nothing was overwritten, because {again} is not the same target", path = path.display(), again = again.display())]
    NotNamed { path: PathBuf, again: PathBuf },
    #[error("{path}: is neither a regular file nor a block device", path = path.display())]
    NotATarget { path: PathBuf },
    #[error("{path}: the file system does not support direct I/O; measure through the page cache (--io \
             buffered)", path = path.display())]
    NoDirect { path: PathBuf },
    #[error("{path}: is {what}; straddle writes only to raw files and devices", path = path.display())]
    NotRaw { path: PathBuf, what: String },
    #[error("{path}: {note}", path = path.display())]
    Unfinished { path: PathBuf, note: String },
    #[error("{path}: cannot determine whether a move of its partitions is unfinished; nothing was written", path = path.display())]
    Unseen { path: PathBuf, source: straddle_device::ReadError },
    #[error("{path}: is empty", path = path.display())]
    Empty { path: PathBuf },
}

straddle_units::error_kind! {
    OpenError: Failed;
    Self::InUse { .. } | Self::NotRaw { .. } | Self::NotNamed { .. } | Self::Unfinished { .. } => Refused,
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) kind: Kind,
    pub(crate) id: FileId,
    pub(crate) size: u64,
    pub(crate) sector: u64,
    pub(crate) io: Io,
    _claim: Claim,
}

const UNITS: [u64; 4] = [512, 1024, 2048, 4096];

impl Opened {
    /// Opens `path`. For writing, it is locked until the file is closed, and no other process may use it.
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
        let unseen = |source| OpenError::Unseen { path: path.to_owned(), source };
        let unfinished = match access {
            Access::Read => None,
            Access::Claim | Access::Share => straddle_repair::moves::unfinished(path).map_err(unseen)?,
        };
        if let Some(unfinished) = unfinished {
            let note = unfinished.journal.note(&straddle_device::shown::quote_path(path));
            return Err(OpenError::Unfinished { path: path.to_owned(), note });
        }
        // An open of a FIFO that has taken its place does not wait.
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
                    let unknown = || "another layer or program is using the target".to_owned();
                    let by = if uses.is_empty() { unknown() } else { uses.join("; ") };
                    OpenError::InUse { path: path.to_owned(), by }
                }
                // Another process holds a lease, as a session does; the kernel has asked it to release the file.
                Some(Errno::AGAIN) => OpenError::InUse {
                    path: path.to_owned(),
                    by: "another program has locked the target".into(),
                },
                Some(Errno::INVAL) if io == Io::Direct => OpenError::NoDirect { path: path.to_owned() },
                _ if kind == Kind::Block => unusable(straddle_device::closed(source)),
                _ => unusable(source),
            })?;
        let id = FileId::of_open(&file).map_err(unusable)?;
        if id != FileId::of(&metadata) {
            return Err(OpenError::Replaced { path: path.to_owned() });
        }
        let claim = match access {
            Access::Read => Ok(Claim::default()),
            Access::Share => claim::take_free_space(&file, path),
            Access::Claim => claim::take(&file, path),
        };
        let claim = claim.map_err(|error| match error {
            LockError::Io(source) => unusable(source),
            error => OpenError::InUse { path: path.to_owned(), by: error.to_string() },
        })?;
        let size = size(&file).map_err(unusable)?;
        if size == 0 {
            return Err(OpenError::Empty { path: path.to_owned() });
        }
        let sector = unit(&file, size, io).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), file, kind, id, size, sector, io, _claim: claim })
    }

    pub(crate) fn length(&self) -> u64 {
        match self.kind {
            Kind::Block => self.size,
            Kind::File => self.file.metadata().map_or(0, |metadata| metadata.len()),
        }
    }

    /// A write past the end of a file that was cut short would extend it.
    pub(crate) fn is_whole(&self) -> bool {
        self.length() >= self.size
    }

    /// Writes `bytes` at `at`, if the file still reaches that far.
    pub(crate) fn write_inside(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = u64::try_from(bytes.len()).ok().and_then(|length| at.checked_add(length));
        if end.is_none_or(|end| end > self.size) || !self.is_whole() {
            return Err(io::Error::other("the target has been truncated"));
        }
        self.file.write_all_at(bytes, at)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        claim::unlock(&self.file);
    }
}

fn size(file: &File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut at_end = file;
    at_end.seek(SeekFrom::End(0))
}

/// 512 bytes through the page cache; for direct I/O, found by trying.
fn unit(file: &File, size: u64, io: Io) -> io::Result<u64> {
    if io == Io::Buffered {
        return Ok(UNITS[0]);
    }
    let mut memory = Memory::new(8192);
    for unit in UNITS {
        let at = if size >= 2 * unit { unit } else { 0 };
        let length = usize::try_from(unit).unwrap_or(8192);
        match file.read_at(&mut memory.bytes_mut()[..length], at) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
            // An error of the drive comes after the unit was accepted.
            _ => return Ok(unit),
        }
    }
    Err(Errno::INVAL.into())
}
