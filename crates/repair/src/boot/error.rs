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
#[allow(missing_docs, reason = "the messages say it")]
pub enum BootError {
    #[error("not at boot: it is not a whole disk")]
    NotADisk,
    #[error("not at boot: {0}")]
    Blocked(String),
    #[error("not at boot: it is not clear on which disk {} is", .0.display())]
    Unknown(PathBuf),
    #[error(
        "not at boot: {} is in partition {number}, and the boot loader cannot read it while it moves: {ELSEWHERE}, \
         or give /boot a partition that is aligned",
        folder.display()
    )]
    BootFiles { folder: PathBuf, number: u32 },
    #[error("not at boot: neither initramfs-tools nor dracut is installed")]
    NoGenerator,
    #[error("{}: exists and is not straddle's", .0.display())]
    Foreign(PathBuf),
    #[error("{}: cannot {what}", path.display())]
    File { path: PathBuf, what: &'static str, source: io::Error },
    #[error("cannot run {program}")]
    Run { program: &'static str, source: io::Error },
    #[error("{command} failed ({status})")]
    Generator { command: String, status: ExitStatus },
    #[error("nothing is prepared")]
    Removed(#[source] Box<Self>),
    #[error(
        "'{command}' failed, also without the move: a start with an initramfs that was made before it failed moves the partitions; mend that, then cancel with --at-boot=cancel"
    )]
    MayMove { command: String, source: Box<Self> },
    #[error("a move of {} is prepared: cancel that first", .0.display())]
    AnotherDisk(PathBuf),
    #[error("nothing is prepared")]
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
    #[error("the move is not finished; the next start tries again")]
    Unfinished(#[source] Box<Self>),
    #[error("the move ended with an error")]
    EndedBadly(#[source] Box<Self>),
    #[error("the kernel does not list the partitions of the table")]
    NotListed,
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
