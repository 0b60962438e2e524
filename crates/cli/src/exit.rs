//! Exit codes: one meaning each, the same for every command.

use std::io;

use crate::output;

/// How a command ended, from best to worst. Of several targets the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done, and nothing to find fault with.
    Aligned,
    /// Done, with findings.
    Findings,
    /// The command line cannot be understood.
    Usage,
    /// A target could not be opened or read.
    Failed,
    /// Refused for safety.
    Refused,
    /// A command in the lab's guest ended with this status.
    Command(u8),
}

/// The codes as `--help` and the man page tell them.
pub(crate) const HELP: &str = "\
Exit status:
  0  done, and nothing found above advice
  1  there are findings
  2  the command line cannot be understood
  3  a target could not be opened, read or judged, or a published figure was not reproduced
  4  refused for safety (commands that write, and serve)

Of several targets the worst status counts; 3 outweighs 1.";

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Aligned => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Failed => 3,
            Self::Refused => 4,
            Self::Command(status) => status,
        }
    }
}

/// A failure that is the command line's fault.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// What was asked would harm somebody.
#[derive(Debug)]
pub(crate) struct RefusedError(pub(crate) String);

impl std::fmt::Display for RefusedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedError {}

/// Says on stderr what failed, and which exit that is. A closed pipe is a quiet success: the reader has had enough.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return Exit::Aligned;
    }
    // The operating system's word alone comes from writing what was asked for: all else says what it was about.
    let what = if error.is::<io::Error>() { "cannot write to standard output: " } else { "" };
    output::complain(&output::printable(&format!("{what}{error:#}")));
    if error.is::<UsageError>() {
        Exit::Usage
    } else if error.is::<RefusedError>() {
        Exit::Refused
    } else {
        Exit::Failed
    }
}
