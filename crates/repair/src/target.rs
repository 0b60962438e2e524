//! Disks that can be written.
//!
//! Invariants: a [`Target`] is a raw image or a whole disk that this crate has examined, opened and locked. No other
//! process uses it, as far as locks, the kernel and /proc show. Other crates only read it. [`Target::simulated`] only
//! goes through the stages of [`apply`](crate::apply): fingerprint, backup, order, reading back.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::relocate::{Disk as _, FileAccess};
use rustix::fs::OFlags;
use rustix::io::Errno;
use straddle_device::claim::{self, Claim, LockError};
use straddle_device::image::Format;
use straddle_device::ioctl::{IoctlError, reread_partitions};
use straddle_device::live::Machine;
use straddle_device::sysfs::{Attributes, Directory, name_of_disk};
use straddle_device::{FileId, Medium, OpenError, Options, ReadError, Zoned};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

/// Why a target cannot be written, or cannot be planned for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum TargetError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("is partition {0} of a disk; name the disk instead")]
    Partition(u32),
    #[error(
        "is not a raw image ({0}); first connect the image as a device (qemu-nbd -c), or treat the file \
         itself as the disk (--format raw)"
    )]
    NotRaw(Format),
    #[error(
        "is a {} zoned device; use it without partitions (mkfs.btrfs, mkfs.f2fs -m, zonefs)",
        .0.model
    )]
    Zoned(Zoned),
    #[error("nothing was written, because the device is read-only")]
    ReadOnly,
    #[error("cannot open for writing")]
    Io(#[source] io::Error),
    #[error("in use ({0}); nothing was written")]
    InUse(String),
    #[error("nothing was written, because the target was replaced while it was being opened")]
    Replaced,
}

straddle_units::error_kind! {
    TargetError: Refused;
    Self::Partition(_) => Usage,
    Self::Open(OpenError::NotRead { .. } | OpenError::Image(_)) => Refused,
    Self::Open(error) => error.kind(),
    Self::Io(_) => Failed,
}

/// Opens the target at `path` for reading, and checks that a table could be written to it: a raw image or a
/// whole disk without zones.
pub fn examine(path: &Path, options: &Options) -> Result<straddle_device::Target, TargetError> {
    let target = straddle_device::open(path, options)?;
    if let Some(number) = target.partition {
        return Err(TargetError::Partition(number));
    }
    if let Some(container) = &target.container {
        return Err(TargetError::NotRaw(container.format));
    }
    match &target.zoned {
        Some(zoned) => Err(TargetError::Zoned(zoned.clone())),
        None => Ok(target),
    }
}

/// The serial number or other name of a disk, by which another disk in its place is noticed.
pub fn serial_of(target: &straddle_device::Target) -> Option<String> {
    name_of_disk(&directory_of(target.kernel_name.as_deref()?))
}

pub(crate) fn directory_of(kernel_name: &str) -> Directory {
    Directory::new(Path::new("/sys/block").join(kernel_name.replace('/', "!")))
}

/// With `is_claimed` the kernel refuses while the disk or one of its partitions is mounted or held.
pub(crate) fn open_flags(is_claimed: bool) -> i32 {
    let claim = if is_claimed { OFlags::EXCL } else { OFlags::empty() };
    (OFlags::NONBLOCK | OFlags::NOCTTY | claim).bits().cast_signed()
}

/// What identifies a disk, beside its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The serial number or other name.
    pub serial: Option<String>,
    /// The path, without links; of a loop device that of its file.
    pub path: Option<PathBuf>,
    /// The kernel's name of a block device.
    pub kernel_name: Option<String>,
    /// The logical sector size of a block device.
    pub sector: Option<BlockSize>,
}

/// A disk that a program implements, for tests and simulations. A file or a device behind it would be written
/// without the examination, the lock and the search for users of [`Target::open`].
pub trait Simulated: Medium {
    /// Writes `bytes` at `at`. They may remain in a cache, and reach the medium in any order.
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything written is on the medium.
    fn flush(&mut self) -> io::Result<()>;

    /// Has the kernel reread the partition table (BLKRRPART); `None` if no kernel reads it.
    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        None
    }
}

/// A disk, open for writing by this crate.
pub struct Target<'d> {
    held: Held<'d>,
    identity: Identity,
    /// The places that may be written; all if absent.
    places: Option<Vec<Span>>,
}

enum Held<'d> {
    File(Claimed),
    Simulated(&'d mut dyn Simulated),
}

struct Claimed {
    file: File,
    path: PathBuf,
    len: ByteCount,
    is_device: bool,
    _claim: Claim,
}

impl Target<'static> {
    /// Opens and locks the raw image or whole disk at `path`; an image has this `format`, or the one that its
    /// bytes show. A block device is opened for exclusive use (O_EXCL). Other users are searched for as well,
    /// as not every process claims what it uses.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, TargetError> {
        let options = Options { format, ..Options::default() };
        let examined = examine(path, &options)?;
        if examined.read_only {
            return Err(TargetError::ReadOnly);
        }
        let file = Claimed::open(path, examined.size, examined.id)?;
        let is_device = examined.kernel_name.is_some();
        // A loop device has its number only for a while.
        let name = examined.kernel_name.as_deref();
        let backing = name.and_then(|name| directory_of(name).text("loop/backing_file"));
        let identity = Identity {
            serial: serial_of(&examined),
            path: backing.map(PathBuf::from).or_else(|| std::fs::canonicalize(path).ok()),
            sector: is_device.then(|| examined.topology.logical.value()),
            kernel_name: examined.kernel_name,
        };
        Ok(Self { held: Held::File(file), identity, places: None })
    }
}

impl<'d> Target<'d> {
    /// A disk that the caller implements, identified as the caller says. Nothing of it is checked or locked.
    pub fn simulated(disk: &'d mut dyn Simulated, identity: Identity) -> Self {
        Self { held: Held::Simulated(disk), identity, places: None }
    }

    /// The path by which a file or device was opened.
    pub fn path(&self) -> Option<&Path> {
        match &self.held {
            Held::File(file) => Some(&file.path),
            Held::Simulated(_) => None,
        }
    }

    /// What identifies it.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn file(&self) -> Option<&File> {
        match &self.held {
            Held::File(file) => Some(&file.file),
            Held::Simulated(_) => None,
        }
    }

    /// From now on only `places` can be written. A write anywhere else fails, and changes nothing.
    pub(crate) fn restrict_writes(&mut self, places: Vec<Span>) {
        self.places = Some(places);
    }

    fn check_place(&self, span: Option<Span>) -> io::Result<()> {
        let Some(places) = &self.places else { return Ok(()) };
        if span.is_some_and(|span| span.gaps(places.iter().copied()).is_empty()) {
            return Ok(());
        }
        Err(io::Error::other("the copy must not write at this byte, so nothing was written there"))
    }
}

impl Claimed {
    fn open(path: &Path, len: ByteCount, seen: Option<FileId>) -> Result<Self, TargetError> {
        let metadata = std::fs::metadata(path).map_err(TargetError::Io)?;
        let is_device = metadata.file_type().is_block_device();
        let open = OpenOptions::new().read(true).write(true).custom_flags(open_flags(is_device)).open(path);
        let file = open.map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::BUSY.raw_os_error() => {
                let uses = Machine::read(None).uses(path);
                let unknown =
                    "the kernel refuses exclusive access, because the disk or one of its partitions is \
                     mounted or in use";
                TargetError::InUse(if uses.is_empty() { unknown.to_owned() } else { uses.join("; ") })
            }
            _ if is_device => TargetError::Io(straddle_device::closed(error)),
            _ => TargetError::Io(error),
        })?;
        let id = FileId::of_open(&file).map_err(TargetError::Io)?;
        if id != FileId::of(&metadata) {
            return Err(TargetError::Replaced);
        }
        let claim = claim::take(&file, path).map_err(|error| match error {
            LockError::Io(source) => TargetError::Io(source),
            error => TargetError::InUse(error.to_string()),
        })?;
        if seen.is_some_and(|seen| seen != id) {
            return Err(TargetError::Replaced);
        }
        Ok(Self { file, path: path.to_owned(), len, is_device, _claim: claim })
    }
}

impl Medium for Target<'_> {
    fn len(&self) -> ByteCount {
        match &self.held {
            Held::File(file) => file.len,
            Held::Simulated(disk) => disk.len(),
        }
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        match &self.held {
            Held::File(file) => {
                file.file.read_exact_at(buf, at.get()).map_err(|source| ReadError::Io { at, source })
            }
            Held::Simulated(disk) => disk.read_at(at, buf),
        }
    }
}

/// A target as this crate writes it. Only a [`Target`] is one.
pub(crate) trait Disk: Medium {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
    fn reread_table(&self) -> Option<Result<(), IoctlError>>;
    fn identity(&self) -> &Identity;
    fn drop_cache(&self, span: Span);
    fn prefetch(&self, span: Span);
    fn holes(&self, span: Span) -> Vec<Span>;
    fn punch(&mut self, span: Span) -> io::Result<()>;
}

impl Disk for Target<'_> {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.check_place(Span::of_buffer(at, bytes))?;
        match &mut self.held {
            Held::File(file) => FileAccess::new(&file.file).write(at, bytes),
            Held::Simulated(disk) => disk.write_at(at, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.held {
            Held::File(file) => file.file.sync_data(),
            Held::Simulated(disk) => disk.flush(),
        }
    }

    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        match &self.held {
            Held::File(file) => file.is_device.then(|| reread_partitions(&file.file)),
            Held::Simulated(disk) => disk.reread_table(),
        }
    }

    fn drop_cache(&self, span: Span) {
        if let Some(file) = self.file() {
            FileAccess::new(file).drop_cache(span);
        }
    }

    fn prefetch(&self, span: Span) {
        if let Some(file) = self.file() {
            FileAccess::new(file).prefetch(span);
        }
    }

    fn holes(&self, span: Span) -> Vec<Span> {
        self.file().map(|file| FileAccess::new(file).holes(span)).unwrap_or_default()
    }

    fn punch(&mut self, span: Span) -> io::Result<()> {
        self.check_place(Some(span))?;
        match &self.held {
            Held::File(file) if !file.is_device => FileAccess::new(&file.file).punch(span),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }
}
