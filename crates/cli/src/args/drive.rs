//! The command line of `drive`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::target::{Drive, drives};

/// Examples for `drive --help`.
const EXAMPLES: &str = "\
Examples:
  straddle drive list                     # the modelled drives
  straddle drive show wd10ears            # what it claims, and what it is
  straddle drive show wd10ears,jumper=on  # with an option
  straddle drive show wd10ears,rmw=immediate-merged
  straddle drive show ./my-drive.toml     # a profile of your own
  straddle drive show wd10ears --svg wd10ears.svg
  straddle drive fit wd10ears             # where its fitted numbers come from
  straddle drive fit ./my-drive.toml --write fitted.toml";

/// Examples for `drive list --help`.
const LIST_EXAMPLES: &str = "\
Examples:
  straddle drive list
  straddle drive list --json | jq -r '.drives[].name'";

/// Examples for `drive show --help`.
const SHOW_EXAMPLES: &str = "\
Examples:
  straddle drive show wd10ears
  straddle drive show wd10ears,jumper=on --json
  straddle drive show ./my-drive.toml --svg my-drive.svg";

/// Examples for `drive fit --help`.
const FIT_EXAMPLES: &str = "\
Examples:
  straddle drive fit wd10ears
  straddle drive fit ./my-drive.toml --write fitted.toml";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct DriveArguments {
    /// The action to perform.
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the drives that can be modelled.
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Print JSON (see `straddle schema drive`).
        #[arg(long)]
        json: bool,
    },
    /// Show what a drive claims and what it really is, with the source of each number.
    Show(ShowArguments),
    /// Recompute a drive's fitted numbers from the published figures.
    Fit(FitArguments),
}

/// Arguments of `drive show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArguments {
    /// Modelled drive (NAME or NAME,OPTION), or the path of a profile.
    #[arg(value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub(crate) drive: Drive,

    /// Also draw the zones and the seek curve to this file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, value_parser = super::svg_file)]
    pub(crate) svg: Option<PathBuf>,

    /// Print JSON (see `straddle schema drive`).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `drive fit`.
#[derive(Debug, Args)]
#[command(after_help = FIT_EXAMPLES)]
pub struct FitArguments {
    /// Modelled drive, or the path of a profile.
    #[arg(value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub drive: Drive,

    /// Write a profile with the fitted values, based on this one, to this new file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub write: Option<PathBuf>,

    /// Print JSON (see `straddle schema drive-fit`).
    #[arg(long)]
    pub json: bool,
}
