//! The folders of runs, and the removal of those whose owner was killed.
//!
//! A run holds a lock on a file in its folder for as long as it lives. So a folder whose lock can be acquired has no
//! owner, and the next run of the same user removes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

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
        remove_orphans(parent);
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
}

/// Removes from `parent` the folders of this user's runs that were killed. Those of live runs stay.
fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            // Held until the folder is gone, so that no other run removes it at the same time.
            && let Some(_lock) = orphaned(&entry.path())
        {
            // A folder that cannot be removed does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
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
        remove_orphans(parent.path());
        assert!(!at("straddle-run-dead").exists());
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
