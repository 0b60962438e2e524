//! Exit codes: one meaning each, the same for every command.

use std::io::{self, IsTerminal, Write};

use clap::{CommandFactory, Parser};
use straddle_bench::TargetError;
use straddle_device::shown::is_hidden;
use straddle_guest::GuestError;
use straddle_reproduce::lab::LabError;
use straddle_units::ErrorKind;

use crate::args::{Arguments, Colour};
use crate::output::{self, Styles};

/// How a command ended, from best to worst. Of several targets the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done, and nothing to find fault with.
    Success,
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

/// The codes as shown by `--help` and the man page.
pub(crate) const HELP: &str = "\
Exit status:
  0  done, and nothing found above advice
  1  there are findings
  2  the command line cannot be understood
  3  a target could not be opened, read or judged, or a published figure was not reproduced
  4  refused for safety (commands that write, and serve)
130  interrupted (Ctrl-C)

Of several targets the worst status counts; 3 outweighs 1.";

impl Exit {
    /// Ended by Ctrl-C: as a shell says it of what SIGINT ends.
    pub(crate) const INTERRUPTED: Self = Self::Command(128 + 2);

    /// What a failure of this kind exits with.
    pub(crate) const fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Refused => Self::Refused,
            ErrorKind::Failed => Self::Failed,
            ErrorKind::Interrupted => Self::INTERRUPTED,
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
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

/// Refused for safety.
#[derive(Debug)]
pub(crate) struct RefusedError(pub(crate) String);

impl std::fmt::Display for RefusedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedError {}

/// A library's error of this kind, in words that have its causes.
pub(crate) fn of_library(kind: ErrorKind, text: String) -> anyhow::Error {
    match kind {
        ErrorKind::Usage => UsageError(text).into(),
        ErrorKind::Refused => RefusedError(text).into(),
        ErrorKind::Failed | ErrorKind::Interrupted => anyhow::anyhow!(text),
    }
}

/// Whether an error is no more than the user's wish to end.
fn is_interruption(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(GuestError::Interrupted))
        || matches!(cause.downcast_ref(), Some(LabError::Interrupted))
        || matches!(cause.downcast_ref(), Some(TargetError::Interrupted))
}

/// Help, the version, or what is wrong with the command line. clap would print it by itself, and not tell whether it could.
pub(crate) fn of_command_line(error: clap::Error) -> anyhow::Result<Exit> {
    if error.use_stderr() {
        let is_coloured =
            io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let text = shown(error).render();
        let text = if is_coloured { text.ansi().to_string() } else { text.to_string() };
        // Where that cannot be written, the exit code has to do.
        let _ = io::stderr().write_all(text.as_bytes());
        return Ok(Exit::Usage);
    }
    let is_coloured = Styles::choose(Colour::Auto).is_coloured();
    let text = if is_coloured { error.render().ansi().to_string() } else { error.render().to_string() };
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Success)
}

/// The same error with what was typed, or came from a file's name, made printable: the message has it as it is.
fn shown(error: clap::Error) -> clap::Error {
    let typed: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if !typed.iter().any(|word| word.contains(is_hidden)) {
        return error;
    }
    let shown = Arguments::try_parse_from(typed.iter().map(|word| output::printable(word)));
    // Where that would be understood, no more than the kind of error can be said.
    shown
        .err()
        .filter(clap::Error::use_stderr)
        .unwrap_or_else(|| clap::Error::new(error.kind()).with_cmd(&Arguments::command()))
}

/// Says on stderr what failed, and which exit that is. A closed pipe is a quiet success: the reader has had enough.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return Exit::Success;
    }
    // Whoever interrupts it knows why it ended.
    if error.chain().any(is_interruption) {
        return Exit::INTERRUPTED;
    }
    // The operating system's word alone comes from writing what was asked for: all else says what it was about.
    let what = if error.is::<io::Error>() && error.chain().nth(1).is_none() {
        "cannot write to standard output: "
    } else {
        ""
    };
    output::complain(&output::printable(&format!("{what}{error:#}")));
    if error.is::<UsageError>() {
        Exit::Usage
    } else if error.is::<RefusedError>() {
        Exit::Refused
    } else {
        Exit::Failed
    }
}
