//! `straddle drive`: the modelled drives.

use anyhow::Result;
use straddle_drive::Profile;

use crate::args::{Action, DriveArguments, SchemaOf, ShowArguments};
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::output_file;
use crate::target::Drive;
use crate::view::json::Document;
use crate::view::json::drive::DrivesReport;
use crate::view::{svg, text};

pub(crate) fn run(arguments: &DriveArguments) -> Result<Exit> {
    match &arguments.action {
        Action::List { json } => list(*json),
        Action::Show(show) => self::show(show),
        Action::Fit(_) => super::lab::start(),
    }
}

fn list(json: bool) -> Result<Exit> {
    let profiles: Vec<Profile> = Profile::names().map(Profile::open).collect::<Result<_, _>>()?;
    if json {
        Document::of(SchemaOf::Drive, DrivesReport::of(&profiles, false)).print()?;
        return Ok(Exit::Success);
    }
    output::print(&text::drive::list(&profiles))?;
    Ok(Exit::Success)
}

fn show(arguments: &ShowArguments) -> Result<Exit> {
    let Drive { specification, profile } = &arguments.drive;
    if let Some(path) = &arguments.svg {
        let drawn = svg::drive(profile).ok_or_else(|| {
            UsageError(format!("{specification} has no zones and no arm: there is nothing to draw"))
        })?;
        output_file::write(path, drawn.as_bytes(), &[])?;
    }
    if arguments.json {
        let report = DrivesReport::of(std::slice::from_ref(profile.as_ref()), true);
        Document::of(SchemaOf::Drive, report).print()?;
        return Ok(Exit::Success);
    }
    output::print(&text::drive::show(profile))?;
    Ok(Exit::Success)
}
