//! `.straddle.toml`: what `check` ignores and why, and defaults of its options.
//!
//! Invariants: a file that is not understood in full is an error, with its line. A file that is read without
//! being named, in a folder that others may have made, leads to no file outside of it.

use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use rustix::fs::OFlags;
use serde::Deserialize;
use straddle_audit::Reason;
use straddle_audit::examine::{ExceptionError, TargetException};
use toml::Spanned;

use crate::commands::check::{self, CheckArguments, FailOn};
use crate::exit::UsageError;
use crate::output::printable;
use crate::{input, target};

/// The name of the file that is read without an option.
const NAME: &str = ".straddle.toml";

/// The largest file accepted, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The arguments of `check`, completed by a file.
#[derive(Debug)]
pub(crate) struct Config {
    /// The arguments; what the command line leaves out is from the file.
    pub(crate) arguments: CheckArguments,
    /// The findings that the file ignores.
    pub(crate) exceptions: Vec<TargetException>,
}

/// The contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    assume: Option<Spanned<String>>,
    page: Option<Spanned<String>>,
    fail_on: Option<Spanned<String>>,
    #[serde(default)]
    ignore: Vec<Spanned<Entry>>,
}

/// Findings to ignore.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: Spanned<String>,
    target: Option<Spanned<String>>,
    partition: Option<Spanned<u32>>,
    reason: Spanned<String>,
}

impl Config {
    /// Reads the file that `arguments` name, or `.straddle.toml` in the current directory if there is one.
    pub(crate) fn of(arguments: &CheckArguments) -> Result<Self> {
        let arguments = arguments.clone();
        let path = match &arguments.config {
            Some(path) => path.clone(),
            None if arguments.no_config => return Ok(Self { arguments, exceptions: Vec::new() }),
            None => PathBuf::from(NAME),
        };
        let name = path.display().to_string();
        let unread = |error: io::Error| UsageError(format!("cannot read {name}: {error}"));
        let text = match &arguments.config {
            Some(path) => input::text(path, MAX_FILE).map_err(unread)?,
            None => match unnamed().map_err(unread)? {
                Some(text) => text,
                None => return Ok(Self { arguments, exceptions: Vec::new() }),
            },
        };
        Source { name: &name, text: &text, is_named: arguments.config.is_some() }.complete(arguments)
    }
}

/// The text of the file that is not named; `None` if there is none.
fn unnamed() -> io::Result<Option<String>> {
    // A pipe is not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::LOOP) => {
            let message = "symbolic links are not followed, because another user may have created this one: \
                give the file with --config";
            return Err(io::Error::other(message));
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    input::text_of(file, MAX_FILE).map(Some)
}

/// The file as text.
struct Source<'a> {
    name: &'a str,
    text: &'a str,
    /// Whether the user has named it.
    is_named: bool,
}

impl Source<'_> {
    fn complete(&self, mut arguments: CheckArguments) -> Result<Config> {
        let file: File = toml::from_str(self.text).map_err(|error| {
            let place = self.place(&error.span().unwrap_or_default());
            UsageError(format!("{place}: {}", error.message()))
        })?;
        let assume = self.value(file.assume.as_ref(), |text| match self.is_named {
            true => target::assume(text),
            false => target::assume_below(Path::new("."), text),
        })?;
        if arguments.measured.is_none() {
            let is_given = arguments.assume.iter().any(|assumed| assumed.of.is_none());
            let of_all = assume.filter(|_| !is_given).map(|assume| target::Assumed { of: None, assume });
            arguments.assume.extend(of_all);
        }
        arguments.page = arguments.page.or(self.value(file.page.as_ref(), check::page_size)?);
        let fail_on = |text: &str| {
            let words = text.split(',').map(|word| FailOn::from_str(word.trim(), false));
            let on: Result<Vec<_>, _> = words.collect();
            on.map_err(|_| {
                "fail-on must be advice, warning or error, optionally with blank: \"warning,blank\""
                    .to_owned()
            })
        };
        if let Some(on) = self.value(file.fail_on.as_ref(), fail_on)?.filter(|_| arguments.fail_on.is_empty())
        {
            arguments.fail_on = on;
        }
        let exceptions = file.ignore.into_iter().map(|entry| self.exception(entry));
        Ok(Config { arguments, exceptions: exceptions.collect::<Result<_>>()? })
    }

    fn exception(&self, entry: Spanned<Entry>) -> Result<TargetException> {
        let source = self.place(&entry.span());
        let Entry { rule, target, partition, reason } = entry.into_inner();
        let line = |error: &ExceptionError| match error {
            ExceptionError::NoReason => reason.span(),
            ExceptionError::Pattern { .. } => target.as_ref().map_or(0..0, Spanned::span),
            ExceptionError::NoPartition => partition.as_ref().map_or(0..0, Spanned::span),
            _ => rule.span(),
        };
        let glob = target.as_ref().map(|target| target.get_ref().as_str());
        let number = partition.as_ref().map(|partition| *partition.get_ref());
        let why = Reason { text: reason.get_ref().trim().to_owned(), source };
        TargetException::new(rule.get_ref(), glob, number, why).map_err(|error| {
            let place = self.place(&line(&error));
            anyhow::Error::from(error).context(place)
        })
    }

    /// Returns a value that is parsed as on the command line.
    fn value<T>(
        &self,
        text: Option<&Spanned<String>>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let Some(text) = text else { return Ok(None) };
        let value = parse(text.get_ref()).map_err(UsageError).with_context(|| self.place(&text.span()))?;
        Ok(Some(value))
    }

    /// Returns `FILE:LINE`.
    fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or_default();
        format!("{}:{}", printable(self.name), before.matches('\n').count() + 1)
    }
}
