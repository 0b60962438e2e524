//! Why a domain cannot be read.

use std::io;
use std::time::Duration;

use straddle_units::ErrorKind;

/// What is wrong with a domain's description, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} (byte {at}): {what}")]
pub struct DomainError {
    /// The line, from 1.
    pub line: u64,
    /// The byte, from 0.
    pub at: u64,
    /// What is wrong there.
    pub what: String,
}

impl DomainError {
    /// Returns the kind of failure.
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }
}

/// Why virsh gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum VirshError {
    /// It cannot be run.
    #[error("cannot run virsh")]
    Run(#[source] io::Error),
    /// It reported an error.
    #[error("virsh {command}: {message}")]
    Failed {
        /// Its command.
        command: &'static str,
        /// What it printed.
        message: String,
    },
    /// It did not end in time.
    #[error("virsh {command}: timed out after {} seconds (--time-limit)", .limit.as_secs())]
    Late {
        /// Its command.
        command: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// It printed too much, or not text.
    #[error("virsh {command}: printed {what}")]
    Output {
        /// Its command.
        command: &'static str,
        /// What was wrong with the output.
        what: &'static str,
    },
    /// It is connected to another host.
    #[error("virsh is connected to another host ({uri}), whose disks are not here; run straddle there")]
    Remote {
        /// The connection.
        uri: String,
    },
}

impl VirshError {
    /// Returns the kind of failure.
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }
}
