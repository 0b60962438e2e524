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
mod prepare;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::{fs, io};

use straddle_device::ReadError;
use straddle_device::sysfs::Directory;

use crate::realign::{MoveError, RealignError};
use crate::{ChangeError, TargetError};

pub use carry::{Console, Ended};

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

/// Why nothing is prepared, or why a move at boot did not go through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum BootError {
    #[error("cannot move at boot: {0}")]
    Blocked(String),
    #[error("{}: already exists, and was not written by straddle", .0.display())]
    Foreign(PathBuf),
    #[error("{}: cannot {what}", path.display())]
    File { path: PathBuf, what: &'static str, source: io::Error },
    #[error("cannot run {program}")]
    Run { program: &'static str, source: io::Error },
    #[error("{command} failed ({status})")]
    Generator { command: String, status: ExitStatus },
    #[error("the move could not be prepared")]
    Removed(#[source] Box<Self>),
    #[error(
        "'{command}' failed both with and without the move in the initramfs. The current initramfs would \
         still move the partitions at boot. Repair the program that generates the initramfs, then cancel the \
         move with --at-boot=cancel"
    )]
    MayMove { command: String, source: Box<Self> },
    #[error("a move of {} is already prepared; first cancel that move (--at-boot=cancel)", .0.display())]
    AnotherDisk(PathBuf),
    #[error("no move is prepared")]
    NotPrepared,
    #[error("the plan cannot be stored")]
    Store(#[source] serde_json::Error),
    #[error(transparent)]
    Plan(#[from] RealignError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Move(#[from] MoveError),
    #[error("{0}")]
    Hibernated(String),
    #[error("the partitions were not moved")]
    NotMoved(#[source] Box<Self>),
    #[error(
        "the move is unfinished; the next boot will resume it. If the error recurs, boot another system and run \
         straddle resume DISK --rollback"
    )]
    Unfinished(#[source] Box<Self>),
    #[error("the move ended with an error")]
    EndedBadly(#[source] Box<Self>),
    #[error("the kernel's list of partitions differs from the partition table")]
    NotListed,
    #[error("cannot reboot; power-cycle the machine")]
    NoRestart(#[source] io::Error),
}

straddle_units::error_kind! {
    BootError: Failed;
    Self::Blocked(_) | Self::Foreign(_) | Self::AnotherDisk(_) | Self::Hibernated(_) => Refused,
    Self::Plan(error) => error.kind(),
    Self::Target(error) => error.kind(),
    Self::Change(error) => error.kind(),
    Self::Read(error) => error.kind(),
    Self::Move(error) => error.kind(),
    Self::Removed(source) | Self::MayMove { source, .. } | Self::NotMoved(source) => source.kind(),
}
