//! `.straddle.toml`: what `check` ignores and why, and defaults of its options.
//!
//! Invariants: a file that is not understood in full is an error, with its line. A file that is read without being
//! named, in a folder that others may have made, leads to no file outside of it.

use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::fs::OFlags;
use serde::Deserialize;
use straddle_audit::Reason;
use straddle_audit::examine::{ExceptionError, TargetException};
use toml::Spanned;

use crate::commands::check::{self, CheckArguments, FAIL_ON};
use crate::exit::UsageError;
use crate::output::printable;
use crate::{input, target};

const NAME: &str = ".straddle.toml";

const MAX_FILE: u64 = 1 << 20;

type Config = (CheckArguments, Vec<TargetException>);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    assume: Option<Spanned<String>>,
    page: Option<Spanned<String>>,
    fail_on: Option<Spanned<String>>,
    #[serde(default)]
    ignore: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: Spanned<String>,
    target: Option<Spanned<String>>,
    partition: Option<Spanned<u32>>,
    reason: Spanned<String>,
}

/// Reads the file that `arguments` name, or `.straddle.toml` in the current directory if there is one.
pub(crate) fn completed(arguments: &CheckArguments) -> Result<Config> {
    let arguments = arguments.clone();
    let (name, text) = match &arguments.config {
        Some(path) => (path.display().to_string(), input::text(path, MAX_FILE).map(Some)),
        None if arguments.no_config => (NAME.to_owned(), Ok(None)),
        None => (NAME.to_owned(), unnamed()),
    };
    match text.map_err(|error| UsageError(format!("cannot read {name}: {error}")))? {
        Some(text) => {
            let is_named = arguments.config.is_some();
            Source { name: &name, text: &text, is_named }.complete(arguments)
        }
        None => Ok((arguments, Vec::new())),
    }
}

fn unnamed() -> io::Result<Option<String>> {
    // A pipe is not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::LOOP) => {
            let message = "the file is a symbolic link, which another user may have created, so it was not \
                           read; to read it, name it with --config";
            return Err(io::Error::other(message));
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    input::text_of(file, MAX_FILE).map(Some)
}

struct Source<'a> {
    name: &'a str,
    text: &'a str,
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
            let known =
                |word: &str| FAIL_ON.iter().find(|(name, ..)| *name == word.trim()).map(|(.., on)| *on);
            let message = "fail-on must be \"advice\", \"warning\" or \"error\", optionally with blank, such \
                           as \"warning,blank\"";
            text.split(',').map(known).collect::<Option<Vec<_>>>().ok_or_else(|| message.to_owned())
        };
        let on = self.value(file.fail_on.as_ref(), fail_on)?;
        if arguments.fail_on.is_empty() {
            arguments.fail_on = on.unwrap_or_default();
        }
        let exceptions = file.ignore.into_iter().map(|entry| self.exception(entry));
        Ok((arguments, exceptions.collect::<Result<_>>()?))
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

    fn value<T>(
        &self,
        text: Option<&Spanned<String>>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let Some(text) = text else { return Ok(None) };
        let value = parse(text.get_ref()).map_err(UsageError).with_context(|| self.place(&text.span()))?;
        Ok(Some(value))
    }

    fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or_default();
        format!("{}:{}", printable(self.name), before.matches('\n').count() + 1)
    }
}
