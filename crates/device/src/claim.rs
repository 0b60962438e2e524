//! Locks a file or a device that this program did not create, before it is written. Locks are taken in both ways that
//! other programs check, and a lease keeps out programs that check none ([`keep`]).

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::ioctl;
use crate::live::Machine;

/// How often a device's lock is tried, which udev holds (<https://systemd.io/BLOCK_DEVICE_LOCKING>).
const TRIES: u32 = 40;
/// The same for a file: a program that its last user has just started may still have it open for a moment.
const TRIES_OF_FILE: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// Identifies a file by device and inode, and a device by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file or device with this `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::of_device(metadata.rdev())
        } else {
            Self::of_file(metadata.dev(), metadata.ino())
        }
    }

    /// Removes the file of this name, if it is this one.
    pub fn remove(self, path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Ok(named) if Self::of(&named) == self => fs::remove_file(path),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes `path`, if it is still the name of this open file.
    pub fn remove_open(file: &File, path: &Path) -> io::Result<()> {
        Self::of_open(file)?.remove(path)
    }

    /// The open file.
    pub fn of_open(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::of(&metadata))
    }

    /// The file with this inode on this device.
    pub const fn of_file(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }

    /// The block device with this number. It uses device 0, which no file is on.
    pub const fn of_device(number: u64) -> Self {
        Self { device: 0, inode: number }
    }

    /// Whether it is a block device.
    pub const fn is_device(self) -> bool {
        self.device == 0
    }

    /// The inode, or the device's number.
    pub const fn number(self) -> u64 {
        self.inode
    }
}

/// Why a file or device cannot be claimed for writing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum LockError {
    #[error("another program has locked the file or device")]
    Locked,
    #[error("another program has the file or device open")]
    Opened,
    #[error("{0}")]
    Used(String),
    #[error("cannot lock the file or device")]
    Io(#[source] io::Error),
}

straddle_units::error_kind! {
    LockError: Refused;
    Self::Io(_) => Failed,
}

fn patiently<T>(tries: u32, mut attempt: impl FnMut() -> Result<T, LockError>) -> Result<T, LockError> {
    for _ in 1..tries {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(LockError::Io(error)) => return Err(LockError::Io(error)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    attempt()
}

fn try_lock(file: &File) -> Result<(), LockError> {
    let is_locked = |errno| matches!(errno, Errno::WOULDBLOCK | Errno::ACCESS);
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(errno) if is_locked(errno) => return Err(LockError::Locked),
        Err(errno) => return Err(LockError::Io(errno.into())),
    }
    ioctl::lock::lock_whole(file).or_else(|error| match Errno::from_io_error(&error) {
        Some(errno) if is_locked(errno) => Err(LockError::Locked),
        // Where the file system has no record locks, no other process has one either.
        Some(Errno::INVAL | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        _ => Err(LockError::Io(error)),
    })
}

/// Locks `file` with flock(2) for reading, against programs that lock it before they write.
pub fn share(file: &File) -> Result<(), LockError> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).map_err(|errno| match errno {
        Errno::WOULDBLOCK | Errno::ACCESS => LockError::Locked,
        errno => LockError::Io(errno.into()),
    })
}

/// Locks `file`, which is open for writing and was found at `path`, and what it stands on: with flock(2), as
/// udev and partitioning tools do, and with a record lock of the open file description, as QEMU does. Then
/// looks for users that take no lock.
pub fn take(file: &File, path: &Path) -> Result<Claim, LockError> {
    take_part(file, path, true)
}

/// As [`take`], but other programs may use partitions of the device.
pub fn take_free_space(file: &File, path: &Path) -> Result<Claim, LockError> {
    take_part(file, path, false)
}

fn take_part(file: &File, path: &Path, all: bool) -> Result<Claim, LockError> {
    let mut claim = Claim::default();
    claim.lock(file)?;
    let metadata = file.metadata().map_err(LockError::Io)?;
    let machine = Machine::read(None);
    claim.lock_below(&machine, &metadata, all)?;
    let mut machine = Some(machine);
    patiently(TRIES_OF_FILE, || {
        let machine = machine.take().unwrap_or_else(|| Machine::read(None));
        let uses = if all || !metadata.file_type().is_block_device() {
            machine.uses_of(&metadata, path)
        } else {
            machine.uses_of_whole(&metadata)
        };
        if uses.is_empty() { Ok(()) } else { Err(LockError::Used(uses.join("; "))) }
    })?;
    Ok(claim)
}

/// Locks, held until this is dropped, which releases them explicitly: a program that is just being started
/// still has the files of its parent open.
#[must_use = "what is not held is not locked"]
#[derive(Debug, Default)]
pub struct Claim(Vec<File>);

impl Claim {
    fn lock(&mut self, file: &File) -> Result<(), LockError> {
        // The first of the two locks may succeed and the second fail.
        self.0.push(file.try_clone().map_err(LockError::Io)?);
        let is_device = file.metadata().map_err(LockError::Io)?.file_type().is_block_device();
        patiently(if is_device { TRIES } else { TRIES_OF_FILE }, || try_lock(file))
    }

    /// Also locks the openable files below loop devices on which the device stands: their bytes are written
    /// too. If `all` of the target is claimed, devices below loop devices are opened exclusively.
    fn lock_below(&mut self, machine: &Machine, metadata: &Metadata, all: bool) -> Result<(), LockError> {
        for (id, path) in machine.behind(metadata) {
            if id.is_device() && !all {
                continue;
            }
            let claims = if id.is_device() { OFlags::EXCL } else { OFlags::empty() };
            let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | claims).bits().cast_signed();
            let opened = OpenOptions::new().read(true).write(!id.is_device()).custom_flags(flags).open(&path);
            let used = |how: &str, what: &str| {
                LockError::Used(format!(
                    "another program {how} {}, the {what} below the target",
                    path.display()
                ))
            };
            if id.is_device() && opened.as_ref().is_err_and(is_busy) {
                let uses = machine.uses_of(metadata, &path);
                let held = used("or layer holds", "device");
                return Err(if uses.is_empty() { held } else { LockError::Used(uses.join("; ")) });
            }
            let Some(file) = opened.ok().filter(|file| FileId::of_open(file).is_ok_and(|found| found == id))
            else {
                continue;
            };
            if id.is_device() {
                self.0.push(file);
                continue;
            }
            self.lock(&file).map_err(|error| match error {
                LockError::Locked => used("has locked", "file"),
                error => error,
            })?;
        }
        Ok(())
    }
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.iter().for_each(unlock);
    }
}

/// ext4, XFS, Btrfs, F2FS, tmpfs (linux/magic.h): files are written only through their own inodes.
const LEASED: [i64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];

/// Keeps other processes out of `file`, which is locked: any that opens it waits until [`unlock`]. Returns
/// false where no lease is available: for a device, another user's file, and some file systems.
pub fn keep(file: &File) -> Result<bool, LockError> {
    // On an overlay or network file system the lease covers one name of the file only.
    if !rustix::fs::fstatfs(file).is_ok_and(|found| LEASED.contains(&found.f_type)) {
        return Ok(false);
    }
    // Programs that only examine a file close it soon.
    patiently(TRIES, || match ioctl::lock::lease(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(LockError::Opened),
        Err(_) => Ok(false),
    })
}

/// Whether no process has tried to open `file` since [`keep`] took the lease.
pub fn is_kept(file: &File) -> bool {
    ioctl::lock::has_lease(file)
}

/// Whether another program has locked the file or device at `path`, as this one does to write to it. No lock is taken.
pub fn is_locked(path: &Path) -> bool {
    let waits_for_nobody = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(waits_for_nobody).open(path) {
        Ok(file) => ioctl::lock::is_locked(&file).unwrap_or(false),
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// How long the kernel makes a process wait (proc_sys_fs(5)).
pub fn waits_for() -> Duration {
    let text = std::fs::read_to_string("/proc/sys/fs/lease-break-time").ok();
    Duration::from_secs(text.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
}

/// Releases the locks and the lease of an open file, which the kernel may hold longer than its process.
pub fn unlock(file: &File) {
    // A lock that cannot be released ends with the open file.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    let _ = ioctl::lock::unlock_whole(file);
    let _ = ioctl::lock::end_lease(file);
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn lock(file: &File) -> Result<Claim, LockError> {
        let mut claim = Claim::default();
        claim.lock(file).map(|()| claim)
    }

    #[test]
    fn whoever_opens_a_kept_file_waits_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, [0; 4096]).unwrap();
        std::fs::hard_link(&path, folder.path().join("other")).unwrap();
        let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let file = open();
        let second = open();
        assert!(matches!(keep(&file), Err(LockError::Opened)));
        drop(second);
        assert!(keep(&file).unwrap(), "no leases here");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| std::fs::write(folder.path().join("other"), b"theirs"));
            while is_kept(&file) {
                std::thread::yield_now();
            }
            let mut held = [0; 6];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut held, 0).unwrap();
            assert!(held == [0; 6] && !other.is_finished());
            unlock(&file);
            other.join().unwrap().unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
    }

    /// A process that opens the file without waiting is refused, and counts as an attempt.
    #[test]
    fn whoever_will_not_wait_for_a_kept_file_is_sent_away_and_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(keep(&file).unwrap(), "no leases here");
        assert!(is_kept(&file));
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let sent_away = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap_err();
        assert_eq!(sent_away.kind(), io::ErrorKind::WouldBlock);
        assert!(!is_kept(&file));
        unlock(&file);
        OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
    }

    #[test]
    fn another_file_of_the_name_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("own"), folder.path().join("link"));
        let own = File::create(&path).unwrap();
        let id = FileId::of_open(&own).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        id.remove(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        std::os::unix::fs::symlink("moved", &link).unwrap();
        id.remove(&path).and_then(|()| id.remove(&link)).unwrap();
        assert!(path.exists() && link.exists());
        id.remove(&folder.path().join("moved")).unwrap();
        assert!(!folder.path().join("moved").exists());
    }

    #[test]
    fn whether_a_file_is_locked_is_seen_without_a_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_locked(file.path()));
        let claim = lock(file.as_file()).unwrap();
        assert!(is_locked(file.path()) && is_locked(file.path()));
        drop(claim);
        assert!(!is_locked(file.path()) && !is_locked(Path::new("/nonexistent")));
    }

    #[test]
    fn a_claim_ends_with_itself_whoever_has_its_open_file_still() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
        let (first, second) = (open(), open());
        let claim = lock(&first).unwrap();
        // Inherited as by a program that is just being started, up to its exec.
        let inherited = first.try_clone().unwrap();
        assert!(matches!(lock(&second), Err(LockError::Locked)));
        drop((claim, first));
        let claim = lock(&second).unwrap();
        drop((claim, inherited));
    }

    #[test]
    fn either_kind_of_lock_is_in_the_way_of_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, [0; 4096]).unwrap();
        std::fs::hard_link(&path, folder.path().join("other")).unwrap();
        let open =
            |name: &str| OpenOptions::new().read(true).write(true).open(folder.path().join(name)).unwrap();
        let (first, second) = (open("disk.img"), open("other"));
        assert_eq!(FileId::of_open(&first).unwrap(), FileId::of_open(&second).unwrap());
        rustix::fs::flock(&first, FlockOperation::NonBlockingLockShared).unwrap();
        assert!(matches!(lock(&second), Err(LockError::Locked)));
        unlock(&first);
        ioctl::lock::lock_whole(&first).unwrap();
        assert!(matches!(lock(&second), Err(LockError::Locked)));
        // A record lock of the process, rather than of the open file, would end when any of its files is
        // closed.
        drop(open("disk.img"));
        assert!(matches!(lock(&second), Err(LockError::Locked)));
        unlock(&first);
        let _claim = lock(&second).unwrap();
        assert!(matches!(lock(&first), Err(LockError::Locked)));
    }
}
