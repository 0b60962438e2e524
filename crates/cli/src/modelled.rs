//! Modelled drives on the command line: what names one, and their names for help and completion.

use anyhow::Result;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use straddle_drive::Profile;

use crate::exit::UsageError;

/// What a modelled drive is called by, everywhere.
pub(crate) const PREFIX: &str = "drive:";

/// The drive that `target` names; a usage error where it is something else, which `command` cannot work on.
pub(crate) fn profile_of_target(target: &str, command: &str) -> Result<Profile> {
    let Some(specification) = target.strip_prefix(PREFIX) else {
        let message = format!(
            "{target}: {command} on real disks is not there yet; use {PREFIX}NAME (straddle drive list)"
        );
        return Err(UsageError(message).into());
    };
    profile(specification)
}

/// The drive of what stands behind `drive:`; a usage error where there is none.
pub(crate) fn profile(specification: &str) -> Result<Profile> {
    Profile::open(specification)
        .map_err(|error| UsageError(format!("{:#}", anyhow::Error::from(error))).into())
}

/// Takes any text, and completes to the names of the shipped profiles behind `prefix`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// Nothing, or [`PREFIX`].
    pub(crate) prefix: &'static str,
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
