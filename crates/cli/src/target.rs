//! What a command works on, as given on the command line: a path, or a modelled drive. It is parsed once,
//! here; all other code works with the value.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use straddle_device::Assume;
use straddle_device::shown::with_causes;
use straddle_drive::Profile;
use straddle_drive::profile::ProfileError;
use straddle_reproduce::lab::StepOutcome;

use crate::exit::UsageError;
use crate::output::printable_lines;

/// The prefix that names a modelled drive, everywhere.
const PREFIX: &str = "drive:";

/// A modelled drive, opened.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// The name or file of its profile, with options after commas.
    pub(crate) specification: String,
    /// The drive's profile.
    pub(crate) profile: Arc<Profile>,
}

impl Drive {
    /// Opens the drive of this specification, with or without the prefix `drive:`, so that a target copied
    /// from elsewhere means the same drive.
    pub(crate) fn open(text: &str) -> Result<Self, ProfileError> {
        let specification = text.strip_prefix(PREFIX).unwrap_or(text);
        let profile = Arc::new(Profile::open(specification)?);
        Ok(Self { specification: specification.to_owned(), profile })
    }
}

/// Shows it as a target, with the prefix `drive:`.
impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&modelled(&self.specification))
    }
}

/// A target.
#[derive(Clone, Debug)]
pub(crate) enum TargetSpec {
    /// A file or a device.
    Path(PathBuf),
    /// `drive:NAME`, `drive:NAME,OPTION` or `drive:FILE.toml`.
    Modelled(Drive),
}

impl TargetSpec {
    /// Parses the target at `path`.
    pub(crate) fn parse(path: &Path) -> Result<Self, ProfileError> {
        match path.to_str().filter(|text| text.starts_with(PREFIX)) {
            Some(text) => Drive::open(text).map(Self::Modelled),
            None => Ok(Self::Path(path.to_owned())),
        }
    }

    /// Returns the path if it is one: output must not overwrite it.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Modelled(_) => None,
        }
    }

    /// Whether it is a modelled drive.
    pub(crate) const fn is_modelled(&self) -> bool {
        matches!(self, Self::Modelled(_))
    }

    /// Returns the modelled drive; a usage error for a path, on which `command` does not work.
    pub(crate) fn modelled(&self, command: &str) -> Result<&Drive, UsageError> {
        match self {
            Self::Modelled(drive) => Ok(drive),
            Self::Path(path) => {
                refuse_bare_drive(path)?;
                Err(UsageError(format!(
                    "{self}: {command} works on modelled drives only: {PREFIX}NAME (straddle drive list)"
                )))
            }
        }
    }
}

/// Shows it as given.
impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Modelled(drive) => drive.fmt(f),
        }
    }
}

/// Returns the target that a modelled drive is, from its specification.
pub(crate) fn modelled(specification: &str) -> String {
    format!("{PREFIX}{specification}")
}

/// Returns what a lab step ran on, as a target.
pub(crate) fn of_lab(outcome: &StepOutcome) -> String {
    outcome.device.as_ref().map_or_else(|| modelled(&outcome.drive), |device| device.display().to_string())
}

/// Refuses the name of a shipped drive without the prefix `drive:`, unless a file has that name.
pub(crate) fn refuse_bare_drive(path: &Path) -> Result<(), UsageError> {
    let Some(text) = path.to_str() else { return Ok(()) };
    let name = text.split_once(',').map_or(text, |(name, _)| name);
    if path.exists() || !Profile::names().any(|known| known == name) {
        return Ok(());
    }
    Err(UsageError(format!("{text}: no such file; did you mean {PREFIX}{text}?")))
}

/// Returns a parser for a [`TargetSpec`] that completes to the shipped drives.
pub(crate) fn targets() -> impl TypedValueParser<Value = TargetSpec> {
    Names { prefix: PREFIX }
        .try_map(|text| TargetSpec::parse(Path::new(&text)).map_err(|error| shown(&error)))
}

/// Returns a parser for a [`Drive`] that completes to the shipped drives.
pub(crate) fn drives() -> impl TypedValueParser<Value = Drive> {
    Names { prefix: "" }.try_map(|text| Drive::open(&text).map_err(|error| shown(&error)))
}

/// Returns an error with its causes. Hidden characters from the profile are made printable; lines are kept.
pub(crate) fn shown(error: &ProfileError) -> String {
    printable_lines(&with_causes(error))
}

/// Parses `--assume`: a topology in the form of [`Assume`], or a modelled drive.
pub(crate) fn assume(text: &str) -> Result<Assume, String> {
    let assume = match TargetSpec::parse(Path::new(text)).map_err(|error| shown(&error))? {
        TargetSpec::Modelled(drive) => straddle_examine::assume_drive(&drive.profile),
        TargetSpec::Path(_) => text.parse(),
    };
    assume.map_err(|error| with_causes(&error))
}

/// Parses any text, and completes to `prefix` plus the names of the shipped profiles.
#[derive(Clone, Copy, Debug)]
struct Names {
    /// Empty, or [`PREFIX`].
    prefix: &'static str,
}

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, argument, value)?;
        if text.is_empty() {
            return Err(
                clap::Error::raw(ErrorKind::InvalidValue, "the name of a drive is empty\n").with_cmd(command)
            );
        }
        Ok(text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Profile::names().map(|name| PossibleValue::new(format!("{}{name}", self.prefix)))))
    }
}
