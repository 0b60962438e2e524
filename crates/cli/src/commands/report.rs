//! `straddle report`: merges the audits of many hosts.

use std::path::Path;

use anyhow::{Result, bail};

use crate::args::{ReportArguments, SchemaOf};
use crate::exit::Exit;
use crate::fleet::{self, Fleet, Input, Skipped};
use crate::output::{self, plural};
use crate::output_file;
use crate::view::html;
use crate::view::json::Document;
use crate::view::text;

/// The replaced audits that are named.
const NAMED: usize = 10;

pub(crate) fn run(arguments: &ReportArguments) -> Result<Exit> {
    let (inputs, skipped) = fleet::inputs(&arguments.files);
    if let Some(path) = &arguments.html {
        output_file::check(path, &files(&inputs))?;
    }
    let fleet = merged(&inputs, skipped);
    for Skipped { name, why } in &fleet.skipped {
        output::complain(&format!("{}: {}", output::printable(name), output::printable(why)));
    }
    if fleet.is_empty() {
        bail!("no audit was read: nothing is reported");
    }
    let digest = fleet.digest();
    if let Some(path) = &arguments.html {
        output_file::write(path, html::fleet::page(&digest).as_bytes(), &files(&inputs))?;
    }
    if arguments.json {
        Document::of(SchemaOf::Report, &digest).print()?;
    } else {
        output::print(&text::fleet::digest(&digest))?;
    }
    let has_findings = digest.tally.misaligned() + digest.tally.others > 0;
    let is_complete = fleet.skipped.is_empty() && digest.tally.failed == 0;
    Ok(match (is_complete, has_findings) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Findings,
        (true, false) => Exit::Success,
    })
}

fn files(inputs: &[Input]) -> Vec<&Path> {
    inputs.iter().filter_map(Input::path).collect()
}

fn merged(inputs: &[Input], skipped: Vec<Skipped>) -> Fleet {
    let mut fleet = Fleet::default();
    fleet.skipped = skipped;
    for input in inputs {
        let (name, host) = (input.name(), input.host());
        let read = fleet::read(input, |audit| {
            let Some((host, former)) = fleet.add(audit, &name, &host) else { return };
            if fleet.replaced <= NAMED {
                let message = format!("{host}: the audit in {name} replaces the one in {former}");
                output::complain(&output::printable(&message));
            }
        });
        if let Err(why) = read {
            fleet.skipped.push(Skipped { name, why });
        }
    }
    if fleet.replaced > NAMED {
        let more = plural(fleet.replaced - NAMED, "more audit");
        output::complain(&format!("{more}: replaced by a later one of the same host"));
    }
    fleet
}
