//! The arguments of a command whose options are defined later than what the list of commands says of it.

use std::ops::Deref;

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// Arguments that leave a command what the list says of it: doc comments of the structs would replace that when they
/// define the options.
#[derive(Debug)]
pub(crate) struct Listed<T>(Box<T>);

impl<T> Deref for Listed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Listed<T> {
    fn augment_args(command: Command) -> Command {
        let (about, long) = (command.get_about().cloned(), command.get_long_about().cloned());
        T::augment_args(command).about(Resettable::from(about)).long_about(Resettable::from(long))
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Listed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|arguments| Self(Box::new(arguments)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|arguments| Self(Box::new(arguments)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
