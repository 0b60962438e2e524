//! `straddle drive`: the modelled drives.

use std::io::Write;

use anyhow::Result;
use straddle_drive::Profile;
use straddle_reproduce::fit::fit as find;

use crate::args::{Action, DriveArguments, FitArguments, ShowArguments};
use crate::exit::{Exit, UsageError};
use crate::keep::{self, Over};
use crate::output::{self, Styles};
use crate::progress::Bar;
use crate::target::Drive;
use crate::view::json::drive::DrivesReport;
use crate::view::json::fit::FitReport;
use crate::view::text;

pub(crate) fn run(arguments: &DriveArguments, styles: Styles) -> Result<Exit> {
    match &arguments.action {
        Action::List { json } => list(*json, styles),
        Action::Show(show) => self::show(show, styles),
        Action::Fit(fit) => self::fit(fit, styles),
    }
}

fn list(json: bool, styles: Styles) -> Result<Exit> {
    let profiles: Vec<Profile> = Profile::names().map(Profile::open).collect::<Result<_, _>>()?;
    if json {
        output::print_json(&DrivesReport::of(&profiles, false))?;
        return Ok(Exit::Success);
    }
    print(&text::drive::list(&profiles, output::width(), styles))
}

fn show(arguments: &ShowArguments, styles: Styles) -> Result<Exit> {
    let Drive { specification, profile } = &arguments.drive;
    if let Some(path) = &arguments.svg {
        let drawn = text::drive::svg(profile).ok_or_else(|| {
            UsageError(format!("{specification} has no zones and no arm: there is nothing to draw"))
        })?;
        keep::write(path, drawn.as_bytes(), &[], Over::DRAWING)?;
    }
    if arguments.json {
        output::print_json(&DrivesReport::of(std::slice::from_ref(profile.as_ref()), true))?;
        return Ok(Exit::Success);
    }
    print(&text::drive::show(profile, output::width(), styles))
}

fn fit(arguments: &FitArguments, styles: Styles) -> Result<Exit> {
    let name = arguments.drive.specification.as_str();
    if let Some(path) = &arguments.write {
        keep::may_replace(path, &[], Over::Nothing)?;
    }
    let mut bar = Bar::new();
    let fit = find(name, &mut bar)?;
    drop(bar);
    if let Some(path) = &arguments.write {
        let stem = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy());
        keep::write(path, fit.profile(&stem).as_bytes(), &[], Over::Nothing)?;
    }
    if arguments.json {
        output::print_json(&FitReport::of(&fit))?;
        return Ok(Exit::Success);
    }
    let in_view = arguments.drive.profile.fit.as_ref();
    let in_view = in_view.map_or_else(String::new, |asked| {
        format!("\n  In view:\n{}", text::drive::in_view(asked, output::width()))
    });
    print(&(text::fit::fit(&fit, output::width(), styles) + &in_view))
}

fn print(text: &str) -> Result<Exit> {
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Success)
}
