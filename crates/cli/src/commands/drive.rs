//! `straddle drive`: the modelled drives.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use straddle_drive::Profile;

use crate::exit::Exit;
use crate::output;
use crate::shared::{Shared, SharedFile};
use crate::target::{Drive, drives};
use crate::view::json::{Document, SchemaOf};
use crate::view::text;
use straddle_drive::form::DrivesReport;

const EXAMPLES: &str = "\
Examples:
  straddle drive list                     # the modelled drives
  straddle drive show wd10ears            # its reported and actual properties
  straddle drive show wd10ears,jumper=on  # with an option
  straddle drive show wd10ears,rmw=immediate-merged
  straddle drive show ./my-drive.toml     # your own profile
  straddle drive fit wd10ears             # recompute its fitted numbers
  straddle drive fit ./my-drive.toml --write fitted.toml
  straddle drive compare sdb.json         # compare the result with all models";

const LIST_EXAMPLES: &str = "\
Examples:
  straddle drive list
  straddle drive list --json | jq -r '.drives[].name'";

const SHOW_EXAMPLES: &str = "\
Examples:
  straddle drive show wd10ears
  straddle drive show wd10ears,jumper=on --json
  straddle drive show ./my-drive.toml";

const FIT_EXAMPLES: &str = "\
Examples:
  straddle drive fit wd10ears
  straddle drive fit ./my-drive.toml --write fitted.toml";

const COMPARE_EXAMPLES: &str = "\
Examples:
  straddle probe /dev/sdb --share sdb.json
  straddle drive compare sdb.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct DriveArguments {
    /// The action to perform.
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the modelled drives.
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Print JSON (see `straddle schema drive`).
        #[arg(long)]
        json: bool,
    },
    /// Show the reported and actual properties of a drive, with the source of each value.
    Show(ShowArguments),
    /// Recompute the fitted numbers of a drive from the published figures.
    Fit(FitArguments),
    /// Rank the modelled drives by similarity to a result of 'straddle probe --share'.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare {
        /// File written by 'straddle probe --share'.
        #[arg(value_name = "FILE", value_parser = crate::shared::load, value_hint = clap::ValueHint::FilePath)]
        file: SharedFile,
    },
}

/// Arguments of `drive show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArguments {
    /// Modelled drive (NAME or NAME,OPTION), or the path of a profile.
    #[arg(value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub(crate) drive: Drive,

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

    /// Write a copy of the profile, with the fitted values, to this new file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub write: Option<PathBuf>,

    /// Print JSON (see `straddle schema drive-fit`).
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(arguments: &DriveArguments) -> Result<Exit> {
    match &arguments.action {
        Action::List { json } => list(*json),
        Action::Show(show) => self::show(show),
        Action::Fit(_) => super::lab::start(),
        Action::Compare { file } => compare(file),
    }
}

fn list(json: bool) -> Result<Exit> {
    let profiles: Vec<Profile> = Profile::names().map(Profile::open).collect::<Result<_, _>>()?;
    if json {
        return Document::of(SchemaOf::Drive, DrivesReport::of(&profiles, false)).print();
    }
    output::print(&text::drive::list(&profiles))
}

fn show(arguments: &ShowArguments) -> Result<Exit> {
    let profile = &arguments.drive.profile;
    if arguments.json {
        let report = DrivesReport::of(std::slice::from_ref(profile.as_ref()), true);
        return Document::of(SchemaOf::Drive, report).print();
    }
    output::print(&text::drive::show(profile))
}

fn compare(file: &SharedFile) -> Result<Exit> {
    let mut drives = Vec::new();
    for name in Profile::names() {
        let modelled = Shared::of(name, &Profile::open(name)?)?;
        drives.push((name, file.shared.apart(&modelled), modelled));
    }
    drives.sort_by(|one, other| one.1.total_cmp(&other.1));
    output::print(&text::drive::compared(file, &drives))?;
    Ok(Exit::Success)
}
