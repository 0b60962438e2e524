//! The folders of runs, and the removal of those whose owner was killed.
//!
//! A run holds a lock on a file in its folder for as long as it lives. So a folder whose lock can be acquired has no
//! owner, and the next run of the same user removes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::TempDir;

const PREFIX: &str = "straddle-run-";
const LOCK: &str = "lock";

/// The folder of a run, which is removed with everything in it when this is dropped.
#[derive(Debug)]
pub struct RunFolder {
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    /// Creates a folder in `parent`, and removes those that killed runs of this user have left there.
    pub fn new(parent: &Path) -> io::Result<Self> {
        // Folders that cannot be removed do no harm here.
        let _ = remove_orphans(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = OpenOptions::new().write(true).create_new(true).open(folder.path().join(LOCK))?;
            let is_ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            // Another run may have taken the folder for an orphan before it was locked.
            if is_ours && lock.metadata()?.nlink() > 0 {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether something is mounted in it.
    pub fn has_mount(&self) -> bool {
        stays_on_one_device(self.path()).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    }
}

impl Drop for RunFolder {
    /// Leaves the folder where it is if something is still mounted in it: a later run removes it.
    fn drop(&mut self) {
        if self.has_mount() {
            self.folder.disable_cleanup(true);
        }
    }
}

/// The result of removing the folders that killed runs have left.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The folders removed.
    pub removed: Vec<PathBuf>,
    /// The folders that could not be removed, each with the reason.
    pub left: Vec<(PathBuf, io::Error)>,
}

/// Removes from `parent` the folders of this user's runs that were killed. Those of live runs stay.
pub fn remove_orphans(parent: &Path) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let Ok(entries) = fs::read_dir(parent) else { return cleaned };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        // Held until the folder is gone, so that no other run removes it at the same time.
        let Some(_lock) = orphaned(&path) else { continue };
        match stays_on_one_device(&path).and_then(|()| fs::remove_dir_all(&path)) {
            Ok(()) => cleaned.removed.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => cleaned.left.push((path, error)),
        }
    }
    cleaned
}

/// A folder without a lock file may be one that is just being created.
fn orphaned(path: &Path) -> Option<File> {
    let folder = fs::symlink_metadata(path).ok()?;
    if !folder.is_dir() || folder.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).ok()?;
    let lock = OpenOptions::new().read(true).custom_flags(flags).open(path.join(LOCK)).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok().map(|()| lock)
}

/// Fails if something is mounted in the folder: it must not be removed with it.
fn stays_on_one_device(path: &Path) -> io::Result<()> {
    let device = fs::symlink_metadata(path)?.dev();
    for entry in fs::read_dir(path)? {
        if fs::symlink_metadata(entry?.path())?.dev() != device {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "something is mounted in the directory"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nobodys_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let live = RunFolder::new(parent.path()).unwrap();
        for name in ["straddle-run-dead", "straddle-run-new", "straddle-other", "elsewhere"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in
            ["straddle-run-dead/lock", "straddle-run-dead/script", "elsewhere/lock", "straddle-run-file"]
        {
            fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink(at("elsewhere"), at("straddle-run-link")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("straddle-run-dead/input")).unwrap();
        let cleaned = remove_orphans(parent.path());
        assert_eq!(cleaned.removed, [at("straddle-run-dead")]);
        assert!(cleaned.left.is_empty());
        for name in
            ["straddle-run-new", "straddle-other", "elsewhere/lock", "straddle-run-file", "straddle-run-link"]
        {
            assert!(fs::symlink_metadata(at(name)).is_ok(), "{name}");
        }
        assert!(live.path().is_dir());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }
}
