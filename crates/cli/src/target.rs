//! What a command works on, as it is named on the command line: a path, or a modelled drive. Parsed here, once; below,
//! a target is a value.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use straddle_device::shown::with_causes;
use straddle_drive::Profile;
use straddle_drive::profile::ProfileError;

use crate::exit::UsageError;
use crate::output::printable_lines;

/// What a modelled drive is called by, everywhere.
const PREFIX: &str = "drive:";

/// A modelled drive, opened.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// The name or the file of its profile, with options behind commas.
    pub(crate) specification: String,
    /// What it is.
    pub(crate) profile: Arc<Profile>,
}

impl Drive {
    /// The drive of this specification, with or without `drive:` before it: as a target it has the prefix, and
    /// copied from there it means the same drive.
    pub(crate) fn open(text: &str) -> Result<Self, ProfileError> {
        let specification = text.strip_prefix(PREFIX).unwrap_or(text);
        let profile = Arc::new(Profile::open(specification)?);
        Ok(Self { specification: specification.to_owned(), profile })
    }
}

/// As a target: with `drive:` before it.
impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.specification)
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
    /// The target that `path` names.
    pub(crate) fn parse(path: &Path) -> Result<Self, ProfileError> {
        match path.to_str().filter(|text| text.starts_with(PREFIX)) {
            Some(text) => Drive::open(text).map(Self::Modelled),
            None => Ok(Self::Path(path.to_owned())),
        }
    }

    /// The path, where it is one: what nothing else may be written to.
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

    /// The modelled drive; a usage error where it is something else, on which `command` does not work.
    pub(crate) fn modelled(&self, command: &str) -> Result<&Drive, UsageError> {
        match self {
            Self::Modelled(drive) => Ok(drive),
            Self::Path(_) => Err(UsageError(format!(
                "{self}: {command} on real disks is not there yet; use {PREFIX}NAME (straddle drive list)"
            ))),
        }
    }
}

/// As it was named.
impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Modelled(drive) => drive.fmt(f),
        }
    }
}

/// Takes a [`TargetSpec`], and completes to the shipped drives.
pub(crate) fn targets() -> impl TypedValueParser<Value = TargetSpec> {
    Names { prefix: PREFIX }
        .try_map(|text| TargetSpec::parse(Path::new(&text)).map_err(|error| shown(&error)))
}

/// Takes a [`Drive`], and completes to the shipped ones.
pub(crate) fn drives() -> impl TypedValueParser<Value = Drive> {
    Names { prefix: "" }.try_map(|text| Drive::open(&text).map_err(|error| shown(&error)))
}

/// An error with its causes. Of a profile's own words nothing hidden gets out; its lines stay lines.
pub(crate) fn shown(error: &ProfileError) -> String {
    printable_lines(&with_causes(error))
}

/// Takes any text, and completes to the names of the shipped profiles behind `prefix`.
#[derive(Clone, Copy, Debug)]
struct Names {
    /// Nothing, or [`PREFIX`].
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
