//! Exit codes. Each has one meaning, the same for every command.

use std::error::Error;
use std::io::{self, Write};

use straddle_device::shown::is_hidden;
use straddle_drive::ProfileError;
use straddle_units::ErrorKind;

use crate::args::{Arguments, as_options};
use crate::output;

/// How a command ended, from best to worst. Of several targets the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, with no findings, or only advice.
    Success,
    /// Done, with findings.
    Findings,
    /// The command line is invalid.
    Usage,
    /// A target could not be opened, read or judged, or a published figure was not reproduced.
    Failed,
    /// Refused for safety.
    Refused,
    /// The command in the lab's guest ended with this status.
    Command(u8),
}

/// The statuses of a command that reads nothing but its arguments.
pub(crate) const OF_OUTPUT: &[(u8, &str)] = &[(0, "success"), (3, "the output could not be written")];

pub(crate) const OF_WORK: &[(u8, &str)] =
    &[(0, "success"), (3, "a target could not be read or written"), (4, "refused for safety")];

/// For help and man page. Statuses that every command can end with need not be in `own`.
pub(crate) fn help(own: &[(u8, &str)]) -> String {
    let mut all = [own, &[(130, "interrupted (Ctrl-C)")]].concat();
    if own.iter().all(|(status, _)| *status != 2) {
        all.push((2, "invalid command line"));
    }
    all.sort_by_key(|(status, _)| *status);
    let line = |(status, meaning): (u8, &str)| format!("\n{status:>3}  {meaning}");
    "Exit status:".to_owned() + &all.into_iter().map(line).collect::<String>()
}

impl Exit {
    /// Ended by Ctrl-C: the status that a shell reports for SIGINT.
    pub const INTERRUPTED: Self = Self::Command(128 + 2);

    pub(crate) const fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Refused => Self::Refused,
            ErrorKind::Failed => Self::Failed,
            ErrorKind::Interrupted => Self::INTERRUPTED,
        }
    }

    /// Whether an error is a refusal, so that nothing was written.
    pub(crate) fn of_refusal(error: &anyhow::Error) -> bool {
        error.chain().find_map(kind_of) == Some(ErrorKind::Refused)
    }

    /// The exit code.
    pub fn code(self) -> u8 {
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

/// A failure caused by the command line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

straddle_units::error_kind!(UsageError: Usage);

impl UsageError {
    /// Refuses an option that is specified twice for the same partition.
    pub(crate) fn unless_once(option: &str, numbers: impl Iterator<Item = u32>) -> Result<(), Self> {
        let mut seen = std::collections::BTreeSet::new();
        match numbers.into_iter().find(|number| !seen.insert(*number)) {
            Some(number) => Err(Self(format!("{option} is specified twice for partition {number}"))),
            None => Ok(()),
        }
    }
}

/// A refusal for safety.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RefusedError(pub String);

straddle_units::error_kind!(RefusedError: Refused);

pub(crate) fn usage<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(UsageError(message.into()).into())
}

pub(crate) fn refuse<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(RefusedError(message.into()).into())
}

/// What a program knows about errors.
#[derive(Clone, Copy, Debug)]
pub struct Errors {
    /// Returns the kind of failure of a cause, if its error type has one.
    pub kind_of: fn(&(dyn Error + 'static)) -> Option<ErrorKind>,
    /// Returns the file's name in a cause whose text shows lines of that file.
    pub name_of: for<'a> fn(&'a (dyn Error + 'static)) -> Option<&'a str>,
}

/// The errors of `straddle`.
pub const ERRORS: Errors = Errors { kind_of, name_of };

fn name_of<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a str> {
    match cause.downcast_ref() {
        Some(ProfileError::Syntax { name, .. }) => Some(name),
        _ => None,
    }
}

/// Defines `kind_of`, which finds the kinds of these error types.
#[macro_export]
macro_rules! kinds {
    ($($error:ty,)*) => {
        fn kind_of(cause: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
            None$(.or_else(|| cause.downcast_ref::<$error>().map(<$error>::kind)))*
        }
    };
}

kinds! {
    UsageError,
    RefusedError,
    straddle_measure::bench::RunError,
    straddle_measure::bench::TargetError,
    straddle_measure::bench::WorkloadError,
    straddle_repair::boot::BootError,
    straddle_device::AddressError,
    straddle_device::AssumeError,
    straddle_device::OpenError,
    straddle_device::ReadError,
    straddle_device::claim::LockError,
    straddle_device::image::ImageError,
    straddle_device::image::UnpackError,
    straddle_device::ioctl::IoctlError,
    straddle_device::domain::DomainError,
    straddle_device::domain::FindError,
    straddle_device::domain::VirshError,
    straddle_drive::ProfileError,
    straddle_drive::disk::GeometryError,
    straddle_drive::disk::SeekError,
    straddle_drive::profile::StartError,
    straddle_drive::ssd::FlashError,
    straddle_repair::ChangeError,
    straddle_audit::examine::ExamineError,
    straddle_audit::examine::ExceptionError,
    straddle_audit::examine::NameError,
    straddle_measure::probe::ProbeError,
    straddle_measure::real::AreaError,
    straddle_measure::real::JournalError,
    straddle_measure::real::OpenError,
    straddle_measure::real::RealError,
    straddle_measure::real::SessionError,
    straddle_trace::tracefs::FormatError,
    straddle_trace::tracefs::PageError,
    straddle_trace::tracefs::RecordError,
    straddle_repair::PlanError,
    straddle_repair::TargetError,
    straddle_repair::apply::ApplyError,
    straddle_repair::apply::BackupError,
    straddle_repair::copy::CopyError,
    straddle_repair::realign::MoveError,
    straddle_repair::realign::RealignError,
    straddle_trace::ColumnsError,
    straddle_trace::LineError,
    straddle_trace::ParquetError,
    straddle_trace::StoredError,
    straddle_trace::TableError,
    straddle_trace::TraceError,
    straddle_trace::WriteError,
    straddle_units::BlockSizeError,
    straddle_units::ParseSizeError,
}

/// Prints the help, the version, or what is wrong with the command line. clap would not report whether that
/// succeeded.
///
/// # Errors
///
/// Returns what a value's parser says of it, and why the help or version could not be printed.
pub fn of_command_line(error: clap::Error) -> anyhow::Result<Exit> {
    if let Some(refused) = of_parser::<RefusedError>(&error) {
        return Err(refused.into());
    }
    if let Some(usage) = of_parser::<UsageError>(&error) {
        return Err(usage.into());
    }
    if error.use_stderr() {
        // If this cannot be written, the exit code has to suffice.
        let _ = write!(io::stderr(), "{}", shown(error).render());
        return Ok(Exit::Usage);
    }
    output::print(&error.render().to_string())
}

/// Reported in place of clap's message, which repeats the value: that may be secret.
fn of_parser<E: Error + Clone + 'static>(error: &clap::Error) -> Option<E> {
    Error::source(error)?.downcast_ref().cloned()
}

/// The words typed, or taken from a file's name, are made printable. clap's message has them as they are.
fn shown(error: clap::Error) -> clap::Error {
    let typed: Vec<String> =
        as_options(std::env::args_os()).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if !typed.iter().any(|word| word.contains(is_hidden)) {
        return error;
    }
    let words: Vec<_> = typed.iter().map(|word| output::printable(word).into()).collect();
    // If the printable words are valid, only the kind of the error can be reported.
    let shown = Arguments::parse_words(&words).err().filter(clap::Error::use_stderr);
    shown.unwrap_or_else(|| clap::Error::new(error.kind()).with_cmd(&Arguments::described()))
}

fn with_causes(error: &anyhow::Error, errors: Errors) -> String {
    let shown = |cause: &(dyn Error + 'static)| {
        let text = cause.to_string();
        match (errors.name_of)(cause) {
            Some(name) => output::printable_lines(&text.replacen(name, &output::printable(name), 1)),
            None => output::printable(&text),
        }
    };
    error.chain().map(shown).collect::<Vec<_>>().join(": ")
}

/// Prints the failure to stderr and returns its exit. A stream that its reader closed, such as a converted trace,
/// counts as success, silently.
pub fn of_error(error: &anyhow::Error, errors: Errors) -> Exit {
    // The outermost error with a kind knows what its causes mean.
    let kind = error.chain().find_map(errors.kind_of);
    let closed = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    // An error with a kind comes from a library, and its broken pipe is not stdout.
    if kind.is_none() && error.chain().any(closed) {
        return Exit::Success;
    }
    // No message: the user who interrupted it knows why it ended.
    if kind == Some(ErrorKind::Interrupted) {
        return Exit::INTERRUPTED;
    }
    // An I/O error without context comes from writing the output. All others say what they are about.
    let what = if error.is::<io::Error>() && error.chain().nth(1).is_none() {
        "cannot write to standard output: "
    } else {
        ""
    };
    output::complain(&format!("{what}{}", with_causes(error, errors)));
    Exit::of_kind(kind.unwrap_or(ErrorKind::Failed))
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, Error, anyhow};
    use straddle_measure::bench::{RunError, TargetError};
    use straddle_repair::PlanError;

    use super::*;

    fn closed() -> io::Error {
        io::ErrorKind::BrokenPipe.into()
    }

    #[test]
    fn the_outermost_error_with_a_kind_says_the_exit() {
        let interrupted = RunError::Target { index: 0, source: TargetError::Interrupted };
        let named = |error: Error| error.context("a name");
        let cases: [(Error, Exit); 6] = [
            (closed().into(), Exit::Success),
            (Error::from(closed()).context("printing"), Exit::Success),
            (named(interrupted.into()), Exit::INTERRUPTED),
            (named(PlanError::Nothing.into()), Exit::Usage),
            (named(PlanError::TwoSteps(0).into()), Exit::Refused),
            (anyhow!("no kind"), Exit::Failed),
        ];
        for (error, exit) in cases {
            assert_eq!(of_error(&error, ERRORS), exit, "{error:?}");
        }
        let refused: anyhow::Result<()> = Err(RefusedError("in use".into())).context("a name");
        assert_eq!(of_error(&refused.unwrap_err(), ERRORS), Exit::Refused);
    }
}
