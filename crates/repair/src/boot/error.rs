//! Why nothing is prepared, or why a move at boot did not go through.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::ChangeError;
use crate::TargetError;
use crate::realign::{MoveError, RealignError};
use straddle_device::ReadError;

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
