//! Why nothing is prepared, or why a move at boot did not go through.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::ChangeError;
use crate::TargetError;
use crate::realign::{ELSEWHERE, MoveError, RealignError};
use straddle_device::ReadError;

/// Why nothing is prepared, or why a move at boot did not go through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// No system starts from it.
    #[error("not at boot: it is not a whole disk")]
    NotADisk,
    /// Something on the disk is read before the move can go on.
    #[error("not at boot: {0}")]
    Blocked(String),
    /// The partitions that hold a folder of the boot loader cannot be found out.
    #[error("not at boot: it is not clear on which disk {} is", .0.display())]
    Unknown(PathBuf),
    /// A folder of the boot loader is in a partition that moves.
    #[error(
        "not at boot: {} is in partition {number}, and the boot loader cannot read it while it moves: {ELSEWHERE}, \
         or give /boot a partition that is aligned",
        folder.display()
    )]
    BootFiles {
        /// The folder.
        folder: PathBuf,
        /// The partition's number.
        number: u32,
    },
    /// No program makes an initramfs.
    #[error("not at boot: neither initramfs-tools nor dracut is installed")]
    NoGenerator,
    /// Another program's file is in the place of a hook.
    #[error("{}: exists and is not straddle's", .0.display())]
    Foreign(PathBuf),
    /// A file cannot be read, written or removed.
    #[error("{}: cannot {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The program that makes the initramfs cannot be run.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The program that makes the initramfs failed.
    #[error("{command} failed ({status})")]
    Generator {
        /// The command.
        command: String,
        /// Its status.
        status: ExitStatus,
    },
    /// What had been installed was removed again.
    #[error("nothing is prepared")]
    Removed(#[source] Box<Self>),
    /// What had been installed may be in an initramfs: none could be made without it.
    #[error(
        "'{command}' failed, also without the move: a start with an initramfs that was made before it failed moves the partitions; mend that, then cancel with --at-boot=cancel"
    )]
    MayMove {
        /// The command that makes every initramfs.
        command: String,
        /// Why it could not be installed.
        source: Box<Self>,
    },
    /// A move of another disk is prepared.
    #[error("a move of {} is prepared: cancel that first", .0.display())]
    AnotherDisk(PathBuf),
    /// Nothing was prepared that could be cancelled.
    #[error("nothing is prepared")]
    NotPrepared,
    /// The plan cannot be written as JSON.
    #[error("the plan cannot be stored")]
    Store(#[source] serde_json::Error),
    /// The stored plan cannot be used.
    #[error(transparent)]
    Plan(#[from] RealignError),
    /// The disk cannot be opened for writing.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The disk cannot be opened again to read its table.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The disk cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The move cannot begin, or not go on.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// A hibernated system would write to the old places.
    #[error("{0}")]
    Hibernated(String),
    /// Nothing was moved; the system starts as before.
    #[error("the partitions were not moved")]
    NotMoved(#[source] Box<Self>),
    /// The move has begun, and is not finished.
    #[error("the move is not finished; the next start tries again")]
    Unfinished(#[source] Box<Self>),
    /// The table that was aimed at counts, but something failed.
    #[error("the move ended with an error")]
    EndedBadly(#[source] Box<Self>),
    /// The kernel lists other partitions than the table.
    #[error("the kernel does not list the partitions of the table")]
    NotListed,
    /// The machine should start again, and does not.
    #[error("cannot start again: turn the machine off")]
    NoRestart(#[source] io::Error),
}

straddle_units::error_kind! {
    BootError: Failed;
    Self::NotADisk
    | Self::Blocked(_)
    | Self::Unknown(_)
    | Self::BootFiles { .. }
    | Self::NoGenerator
    | Self::Foreign(_)
    | Self::AnotherDisk(_)
    | Self::Hibernated(_) => Refused,
    Self::Plan(error) => error.kind(),
    Self::Target(error) => error.kind(),
    Self::Change(error) => error.kind(),
    Self::Read(error) => error.kind(),
    Self::Move(error) => error.kind(),
    Self::Removed(source) | Self::MayMove { source, .. } | Self::NotMoved(source) => source.kind(),
}
