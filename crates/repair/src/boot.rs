//! Moves at boot: the partitions of the disk that the system starts from are moved in the initramfs, before
//! the root file system is mounted.
//!
//! Invariants: a move is prepared only if everything that is read before it can go on, from the boot code to
//! the initramfs, is in partitions that stay. Whatever fails before the first write lets the machine start as
//! before; it never starts with partitions in the kernel that the table does not have.
//!
//! [`System::prepare`] installs the plan, the program and the hooks (`hooks/`) into the initramfs, all of them or
//! none; [`System::cancel`] removes them. At the next start a hook has the program call [`System::carry_out`], which
//! moves the data or resumes the move, and records what it did for [`System::last`].

mod carry;
mod error;
mod prepare;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use straddle_device::sysfs::Directory;

pub use carry::{Console, Ended};
pub use error::BootError;

const HOME: &str = "/var/lib/straddle/at-boot";
const LOG: &str = "/run/initramfs/straddle.log";

/// The running system, or its initramfs.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// The one that this process runs in.
    pub fn running() -> Self {
        Self { root: PathBuf::from("/") }
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn home(&self) -> PathBuf {
        self.path(HOME)
    }

    /// What the last start did to one of `targets`, or to any disk if there are none.
    pub fn last(&self, targets: &[PathBuf]) -> Option<String> {
        let log = fs::read_to_string(self.path(LOG)).ok()?;
        let (disk, text) = log.split_once('\n')?;
        let disk_path = fs::canonicalize(disk).ok();
        let same = |target: &PathBuf| disk_path.is_some() && fs::canonicalize(target).ok() == disk_path;
        let is_meant = targets.is_empty() || targets.iter().any(same);
        is_meant.then(|| format!("{disk}, at the last boot: {}", text.trim_end()))
    }
}

fn sysfs_of(disk: &Path) -> Option<Directory> {
    use std::os::unix::fs::FileTypeExt;

    let disk = fs::canonicalize(disk).ok()?;
    let is_device = fs::metadata(&disk).is_ok_and(|found| found.file_type().is_block_device());
    let sys = Path::new("/sys/block").join(disk.file_name()?);
    (is_device && sys.exists()).then(|| Directory::new(sys))
}
