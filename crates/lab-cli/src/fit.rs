//! `straddle drive fit`: a drive's numbers, fitted to the published figures.

use anyhow::Result;
use straddle_lab::reproduce::fit::fit as find;

use crate::args::{FitArguments, SchemaOf};
use crate::exit::Exit;
use crate::output;
use crate::output_file;
use crate::progress::Bar;
use crate::view::json::Document;
use crate::view::json::fit::FitReport;
use crate::view::text;

pub(crate) fn run(arguments: &FitArguments) -> Result<Exit> {
    let name = arguments.drive.specification.as_str();
    if let Some(path) = &arguments.write {
        output_file::check(path, &[])?;
    }
    let mut bar = Bar::new();
    let fit = find(name, &mut bar)?;
    drop(bar);
    if let Some(path) = &arguments.write {
        let stem = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy());
        output_file::write(path, fit.profile(&stem).as_bytes(), &[])?;
    }
    if arguments.json {
        Document::of(SchemaOf::DriveFit, FitReport::of(&fit)).print()?;
        return Ok(Exit::Success);
    }
    let in_view = arguments.drive.profile.fit.as_ref();
    let in_view = in_view.map_or_else(String::new, |asked| {
        format!("\n  In view:\n{}", straddle_cli::view::text::drive::in_view(asked))
    });
    output::print(&(text::fit::fit(&fit) + &in_view))?;
    Ok(Exit::Success)
}
