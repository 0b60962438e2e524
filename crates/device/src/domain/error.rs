use std::io;
use std::time::Duration;

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

straddle_units::error_kind!(DomainError: Failed);

/// Why virsh gave no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum VirshError {
    #[error("cannot run virsh")]
    Run(#[source] io::Error),
    #[error("virsh {command}: {message}")]
    Failed { command: &'static str, message: String },
    #[error("virsh {command}: timed out after {} seconds (--time-limit)", .limit.as_secs())]
    Late { command: &'static str, limit: Duration },
    #[error("virsh {command}: printed {what}")]
    Output { command: &'static str, what: &'static str },
    #[error("virsh is connected to another host ({uri}): run straddle there")]
    Remote { uri: String },
}

straddle_units::error_kind!(VirshError: Failed);
