//! The disk that is copied.
//!
//! Invariants: a [`Source`] has opened its disk or image with every file that the image may open. No other
//! process used them then, as far as locks, the kernel and /proc show. While it is open, programs that take
//! locks cannot write these files, and a disk cannot be mounted. Other writes are [noticed](Source::written),
//! also behind loop devices. Nothing of that holds for [`Source::simulated`].

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use straddle_device::claim::{self, LockError};
use straddle_device::live::Machine;
use straddle_device::sysfs::{Attributes, Directory, of_number};
use straddle_device::{FileId, Medium, OpenError, Options};

use crate::target::{TargetError, open_flags, serial_of};

/// A disk to copy, open for reading.
pub struct Source<'a> {
    bytes: Bytes<'a>,
    serial: Option<String>,
    is_raw: bool,
    files: Vec<Held>,
    /// What is behind loop devices among them, which use it: not locked.
    behind: Vec<Held>,
}

struct Held {
    path: PathBuf,
    file: File,
    opened: Option<Written>,
}

/// Changes whenever a file or device is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// The time of the last write, and the length.
    File { modified: (i64, i64), len: u64 },
    /// Sectors written to and discarded from a disk.
    Disk(u64, u64),
}

impl Held {
    fn new(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), opened: written(&file), file }
    }

    /// Without access to the file, only the sectors written to the loop device are known.
    fn behind((id, path): (FileId, PathBuf)) -> Option<Self> {
        let file = OpenOptions::new().read(true).custom_flags(open_flags(false)).open(&path).ok()?;
        let is_it = FileId::of_open(&file).is_ok_and(|found| found == id);
        is_it.then(|| Self::new(&path, file))
    }

    fn is_written(&self) -> bool {
        written(&self.file) != self.opened
    }
}

fn written(file: &File) -> Option<Written> {
    let found = file.metadata().ok()?;
    if !found.file_type().is_block_device() {
        let modified = (found.mtime(), found.mtime_nsec());
        return Some(Written::File { modified, len: found.len() });
    }
    let text = Directory::new(of_number(found.rdev())).text("stat")?;
    // Documentation/block/stat.rst: the seventh number counts sectors written, the fourteenth discarded ones.
    let number = |index| text.split_ascii_whitespace().nth(index).and_then(|word| word.parse().ok());
    Some(Written::Disk(number(6)?, number(13).unwrap_or(0)))
}

enum Bytes<'a> {
    Opened(Box<dyn Medium>),
    Simulated(&'a dyn Medium),
}

impl Source<'static> {
    /// Opens the disk or image at `path`, with the files that `options` allow it to open.
    pub fn open(path: &Path, options: &Options) -> Result<Self, TargetError> {
        let target = straddle_device::open(path, options)?;
        if let Some(number) = target.partition {
            return Err(TargetError::Partition(number));
        }
        let serial = serial_of(&target);
        let machine = Machine::read(None);
        let (mut files, mut behind) = (Vec::new(), Vec::new());
        for path in std::iter::once(path).chain(options.allow_backing.iter().map(|file| file.as_path())) {
            let file = open(path).map_err(failed)?;
            claim::share(&file).map_err(|error| match error {
                LockError::Io(source) => failed(source),
                error => TargetError::InUse(error.to_string()),
            })?;
            let metadata = file.metadata().map_err(failed)?;
            if files.is_empty() && target.id.is_some_and(|id| id != FileId::of(&metadata)) {
                return Err(TargetError::Replaced);
            }
            let uses = machine.uses_of(&metadata, path);
            if !uses.is_empty() {
                return Err(TargetError::InUse(uses.join("; ")));
            }
            behind.extend(machine.behind(&metadata).into_iter().filter_map(Held::behind));
            files.push(Held::new(path, file));
        }
        let first = files.first().and_then(|held: &Held| held.file.metadata().ok());
        let is_file = first.is_some_and(|found| found.is_file());
        let is_raw = is_file && target.container.is_none() && target.through.is_none();
        let medium = target.medium.ok_or_else(|| failed(io::Error::other("it cannot be read")))?;
        Ok(Self { bytes: Bytes::Opened(medium), serial, is_raw, files, behind })
    }
}

impl<'a> Source<'a> {
    /// Bytes of the caller, for tests and simulations; nothing of them is checked or locked.
    pub fn simulated(medium: &'a dyn Medium) -> Self {
        let bytes = Bytes::Simulated(medium);
        Self { bytes, serial: None, is_raw: false, files: Vec::new(), behind: Vec::new() }
    }

    /// Its bytes.
    pub fn medium(&self) -> &dyn Medium {
        match &self.bytes {
            Bytes::Opened(medium) => medium.as_ref(),
            Bytes::Simulated(medium) => *medium,
        }
    }

    pub(super) fn serial(&self) -> Option<&str> {
        self.serial.as_deref()
    }

    pub(super) fn raw(&self) -> Option<&File> {
        self.files.first().filter(|_| self.is_raw).map(|held| &held.file)
    }

    pub(super) fn written(&self) -> Option<PathBuf> {
        let machine = Machine::read(None);
        let is_used = |held: &Held| {
            held.file.metadata().map_or(true, |found| !machine.uses_of(&found, &held.path).is_empty())
        };
        let mut written = self.files.iter().chain(&self.behind).filter(|held| held.is_written());
        let found = written.next().or_else(|| self.files.iter().find(|held| is_used(held)));
        found.map(|held| held.path.clone())
    }

    pub(super) fn is_behind(&self, file: &File) -> bool {
        let machine = Machine::read(None);
        let Ok(new) = file.metadata() else { return true };
        self.files.iter().any(|own| own.file.metadata().map_or(true, |own| is_same(&machine, &own, &new)))
    }
}

/// The first file of a source that leads to bytes of `new`, by another name or through loop devices. Files
/// that cannot be examined do not count.
pub fn shared<'a>(path: &'a Path, options: &'a Options, new: &Path) -> Option<&'a Path> {
    let new = std::fs::metadata(new).ok()?;
    let machine = Machine::read(None);
    let is_shared = |path: &&Path| std::fs::metadata(path).is_ok_and(|own| is_same(&machine, &own, &new));
    std::iter::once(path).chain(options.allow_backing.iter().map(PathBuf::as_path)).find(is_shared)
}

fn open(path: &Path) -> io::Result<File> {
    // A disk that is claimed cannot be mounted, nor can its partitions.
    let is_disk = std::fs::metadata(path)?.file_type().is_block_device();
    OpenOptions::new().read(true).custom_flags(open_flags(is_disk)).open(path)
}

fn failed(error: io::Error) -> TargetError {
    OpenError::Io(error).into()
}

fn is_same(machine: &Machine, one: &Metadata, other: &Metadata) -> bool {
    let other = ways(machine, other);
    ways(machine, one).iter().any(|id| other.contains(id))
}

fn ways(machine: &Machine, metadata: &Metadata) -> Vec<FileId> {
    let behind = machine.behind(metadata).into_iter().map(|(id, _)| id);
    behind.chain([FileId::of(metadata)]).collect()
}

#[cfg(test)]
mod tests {
    use straddle_device::image::Format;

    use super::*;
    use crate::Target;

    /// A qcow2 image whose file is as long as its disk.
    fn qcow2(path: &Path) {
        let mut header = vec![0_u8; 1 << 20];
        let fields: [(usize, &[u8]); 8] = [
            (0, b"QFI\xFB"),
            (4, &2_u32.to_be_bytes()),
            (20, &16_u32.to_be_bytes()),
            (24, &(1_u64 << 20).to_be_bytes()),
            (36, &1_u32.to_be_bytes()),
            (40, &(1_u64 << 16).to_be_bytes()),
            (48, &(2_u64 << 16).to_be_bytes()),
            (56, &1_u32.to_be_bytes()),
        ];
        for (at, bytes) in fields {
            header[at..at + bytes.len()].copy_from_slice(bytes);
        }
        std::fs::write(path, header).unwrap();
    }

    #[test]
    fn only_bytes_in_no_container_are_raw_and_no_name_hides_the_source() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.qcow2");
        qcow2(&path);
        let opened = Source::open(&path, &Options::default()).unwrap();
        assert_eq!(opened.medium().len().get(), 1 << 20);
        assert!(opened.raw().is_none(), "it is as long as its disk, and not raw");
        drop(opened);
        let options = Options { format: Some(Format::Raw), ..Options::default() };
        let opened = Source::open(&path, &options).unwrap();
        assert!(opened.raw().is_some());
        let other = folder.path().join("other");
        std::fs::hard_link(&path, &other).unwrap();
        assert!(opened.is_behind(&File::open(&other).unwrap()));
        assert_eq!(shared(&path, &options, &other), Some(path.as_path()));
        std::fs::write(folder.path().join("apart"), [1; 512]).unwrap();
        assert!(!opened.is_behind(&File::open(folder.path().join("apart")).unwrap()));
        assert_eq!(shared(&path, &options, &folder.path().join("apart")), None);
        assert_eq!(shared(&path, &options, &folder.path().join("none")), None);
        let backed = Options { allow_backing: vec![other.clone()], ..Options::default() };
        assert_eq!(shared(&folder.path().join("apart"), &backed, &path), Some(other.as_path()));
        assert!(Target::open(&path, options.format).is_err(), "it is locked");
    }
}
