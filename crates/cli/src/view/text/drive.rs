//! Modelled drives as text for people.

use std::fmt::Write;

use straddle_drive::Profile;
use straddle_drive::disk::RmwPolicy;
use straddle_drive::profile::Fit;
use straddle_units::ByteCount;

use crate::output::{self, paint, printable, style};
use crate::shared::{Shared, SharedFile};
use crate::view::text::{headed, plain_table, right, trimmed, wrap, wrap_to};
use straddle_drive::form::kind;

const LEAST_COLUMN: usize = 30;

pub(crate) fn list(profiles: &[Profile]) -> String {
    let mut table = plain_table(&["NAME", "KIND", "CLAIMS", "TRUTH", "HONEST", "OPTIONS", "TITLE"]);
    for profile in profiles {
        let options: Vec<&str> =
            profile.variants.iter().map(|option| option.trim_end_matches("=on")).collect();
        let options = if options.is_empty() { "-".to_owned() } else { options.join(" ") };
        table.add_row(vec![
            printable(&profile.name),
            kind(profile).to_owned(),
            sectors(profile.claims.logical_sector, profile.claimed_unit(), profile.claims.alignment_offset),
            sectors(profile.claims.logical_sector, profile.sectors.physical, profile.first_boundary()),
            if profile.misreports() { "no" } else { "yes" }.to_owned(),
            printable(&options),
            printable(&profile.title),
        ]);
    }
    let legend = "CLAIMS and TRUTH: sizes of the logical and physical sectors in bytes. For an SSD, the \
                  second size in CLAIMS is the preferred write size, and in TRUTH the indirection unit. A \
                  number after \"+\" is the byte of the first physical sector boundary, if it is not 0. \
                  OPTIONS can be added to the name, as in wd10ears,jumper. See 'straddle drive show NAME'.";
    format!("{}\n\n{}\n", folded_table(&trimmed(&table), "TITLE"), wrap(legend, ""))
}

fn sectors(logical: u64, physical: u64, first: u64) -> String {
    if first == 0 { format!("{logical}/{physical}") } else { format!("{logical}/{physical}+{first}") }
}

pub(crate) fn compared(file: &SharedFile, drives: &[(&str, f64, Shared)]) -> String {
    let row = |name: &str, apart: String, shared: &Shared| {
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let unit = shared.unit().map(|unit| match unit.phase_bytes {
            0 => unit.size_bytes.to_string(),
            phase => format!("{}+{phase}", unit.size_bytes),
        });
        [
            printable(name),
            apart,
            or_unknown(unit),
            or_unknown(shared.rpm().map(|rpm| format!("{rpm:.0}"))),
            or_unknown(shared.cost_ratio.map(|ratio| format!("{ratio:.2}"))),
            or_unknown(shared.rmw().map(printable)),
            or_unknown(shared.misreports.map(|is| if is { "yes" } else { "no" }.to_owned())),
            ByteCount::new(shared.capacity_bytes).to_string(),
        ]
    };
    let mut table = plain_table(&["DRIVE", "APART", "UNIT", "RPM", "COST", "RMW", "MISREPORTS", "SIZE"]);
    table.add_row(row(&file.name, "-".to_owned(), &file.shared));
    table.add_rows(drives.iter().map(|(name, apart, shared)| row(name, format!("{apart:.2}"), shared)));
    right(&mut table, 1..5);
    let least = drives.first().map_or(1.0, |drive| drive.1);
    let nearest: Vec<&str> =
        drives.iter().take_while(|drive| drive.1 <= least).map(|drive| drive.0).collect();
    let model =
        file.shared.model.as_ref().map_or_else(String::new, |model| format!(" ({})", printable(model)));
    let verdict = format!(
        "{}{model}: most similar to the modelled {} (APART {least:.2}).",
        printable(&file.name),
        nearest.join(" and ")
    );
    let legend = "APART: how different the drives are; 1.00 means identical. It is the product of the ratios \
                  of UNIT, RPM, COST and SIZE, and of a factor of 2 for each missing value, each different \
                  first boundary (after the +) and each different RMW. COST: time of a misaligned write \
                  relative to an aligned write. All values, including those of the models, were measured by \
                  probes.";
    format!("{}\n\n{}\n\n{}\n", wrap(&verdict, ""), headed(&table, style::HEADING), wrap(legend, ""))
}

pub(crate) fn show(profile: &Profile) -> String {
    let title = format!("{}: {}", printable(&profile.name), printable(&profile.title));
    let mut text = format!("{}\n", paint(style::HEADING, &wrap(&title, "")));
    if let Some(notes) = &profile.notes {
        // The line breaks of the profile's file do not matter here.
        let notes: Vec<&str> = notes.split_whitespace().collect();
        let _ = writeln!(text, "{}", wrap(&printable(&notes.join(" ")), "  "));
    }
    if !profile.variants.is_empty() {
        let _ = writeln!(text, "  options: {}", printable(&profile.variants.join(", ")));
    }
    let policies: Vec<&str> = profile.plausible_policies().into_iter().map(RmwPolicy::name).collect();
    if !policies.is_empty() {
        let line = format!("plausible policies, as in rmw={}: {}", policies[0], policies.join(", "));
        let _ = writeln!(text, "{}", wrap(&line, "  "));
    }
    let _ = write!(text, "\n{}\n", claims(profile));
    if let Some(fit) = &profile.fit {
        let _ = write!(
            text,
            "\n{}\n{}",
            paint(style::HEADING, "Published figures used for the fit"),
            in_view(fit)
        );
    }
    let _ = write!(text, "\n{}\n", figures(profile));
    text
}

/// Returns which published figures the profile was fitted to.
pub fn in_view(fit: &Fit) -> String {
    let line = |text: &str| wrap(&printable(text), "  ") + "\n";
    if fit.experiments.is_empty() {
        return match &*fit.chosen {
            [] => line("none; nothing is fitted"),
            chosen => line(&format!("none; values were chosen by hand to match {}", chosen.join(", "))),
        };
    }
    let names = fit.experiments.join(", ");
    let knobs: Vec<&str> = fit.knobs.iter().map(|knob| knob.path.as_str()).collect();
    let knobs = if knobs.is_empty() { "none".to_owned() } else { knobs.join(", ") };
    line(&format!("only the raw figures of {names} for this drive; fitted parameters: {knobs}"))
}

fn claims(profile: &Profile) -> String {
    let claims = &profile.claims;
    let optional = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), size);
    // An SSD tells the unit in which it maps as the least size to write, if at all.
    let is_of_minimum = kind(profile) == "ssd" && claims.minimum_io.is_some();
    let in_row = |of_minimum: bool, truth: &str| {
        if of_minimum == is_of_minimum { truth.to_owned() } else { String::new() }
    };
    let truth = [size(profile.sectors.physical), format!("byte {}", profile.first_boundary())];
    let claimed = [size(claims.physical_sector), format!("byte {}", claims.alignment_offset)];
    let rows = [
        ("model", claims.model.clone(), String::new()),
        ("capacity", size(claims.capacity), String::new()),
        ("logical sector", size(claims.logical_sector), String::new()),
        ("physical sector", claimed[0].clone(), in_row(false, &truth[0])),
        ("first boundary", claimed[1].clone(), truth[1].clone()),
        ("minimum I/O", optional(claims.minimum_io), in_row(true, &truth[0])),
        ("optimal I/O", optional(claims.optimal_io), String::new()),
        ("rotational", if claims.rotational { "yes" } else { "no" }.to_owned(), String::new()),
        ("discard granularity", optional(claims.discard_granularity), String::new()),
    ];
    let mut table = plain_table(&["", "CLAIMS", "TRUTH"]);
    let mut wrong = Vec::new();
    for (name, claim, truth) in rows {
        wrong.push(!truth.is_empty() && claim != truth);
        table.add_row(vec![name.to_owned(), printable(&claim), truth]);
    }
    let table = headed(&table, style::HEADING);
    let (heading, rows) = table.split_once('\n').unwrap_or((&table, ""));
    let mut text = heading.to_owned();
    for (row, is_wrong) in rows.lines().zip(wrong) {
        let wrong = || paint(style::ERROR, &format!("{row}  <-- misreported"));
        text += &("\n".to_owned() + &if is_wrong { wrong() } else { row.to_owned() });
    }
    text
}

/// Formats `4096` bytes as `4 KiB (4096)`.
fn size(bytes: u64) -> String {
    format!("{} ({bytes})", ByteCount::new(bytes))
}

fn figures(profile: &Profile) -> String {
    let mut table = plain_table(&["NUMBER", "VALUE", "SOURCE"]);
    for figure in &profile.figures {
        let source = figure.source.as_deref().unwrap_or("(not stated)");
        table.add_row(vec![printable(&figure.path), printable(&figure.value), printable(source)]);
    }
    folded_table(&trimmed(&table), "SOURCE")
}

/// Wraps the last column of a table, headed `last`, within itself.
fn folded_table(table: &str, last: &str) -> String {
    let mut lines = table.lines();
    let heading = lines.next().unwrap_or_default();
    let at = heading.find(last).unwrap_or(0);
    let rows = lines.map(|line| folded(line, at));
    rows.fold(paint(style::HEADING, &folded(heading, at)), |text, row| text + "\n" + &row)
}

/// Wraps the last column of a row, from `at` on, within itself, or below the row if it would be too narrow.
fn folded(row: &str, at: usize) -> String {
    let width = output::width();
    let before: String = row.chars().take(at).collect();
    let last: String = row.chars().skip(at).collect();
    if width < at + LEAST_COLUMN {
        return format!("{}\n{}", before.trim_end(), wrap(last.trim_end(), "     "));
    }
    let lines = wrap_to(width - at, last.trim_end(), "", "");
    lines.replace('\n', &format!("\n{}", " ".repeat(at))).replacen("", &before, 1)
}
