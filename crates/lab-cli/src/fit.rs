//! `straddle drive fit`: a drive's numbers, fitted to the published figures.

use std::fmt::Write;

use anyhow::Result;
use straddle_lab::reproduce::experiment::Quantity;
use straddle_lab::reproduce::fit::{Figure, Fit, fit as find};

use straddle_cli::args::{FitArguments, SchemaOf};
use straddle_cli::exit::Exit;
use straddle_cli::output::{paint, plural, printable, style};
use straddle_cli::progress::Bar;
use straddle_cli::view::json::Document;
use straddle_cli::view::text::{self, folded, headed, number, percent, plain_table, right, wrap};
use straddle_cli::{output, output_file};

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
        Document::of(SchemaOf::DriveFit, &fit).print()?;
        return Ok(Exit::Success);
    }
    let in_view = arguments.drive.profile.fit.as_ref();
    let in_view = in_view.map_or_else(String::new, |asked| {
        format!("\n  Published figures used for the fit:\n{}", text::drive::in_view(asked))
    });
    output::print(&(described(&fit) + &in_view))?;
    Ok(Exit::Success)
}

fn described(fit: &Fit) -> String {
    let title = printable(&format!("{}: {}", fit.drive, fit.title));
    let mut text = format!("{}\n{}\n", paint(style::HEADING, &wrap(&title, "")), wrap(&summary(fit), "  "));
    let to = printable(&fit.experiments.join(", "));
    if fit.knobs.is_empty() {
        let line = format!(
            "The profile has no parameters to fit. Errors relative to the figures published by {to}:"
        );
        let _ = writeln!(text, "{}\n", wrap(&line, "  "));
    } else {
        let _ = writeln!(text, "{}\n\n{}", wrap(&format!("fitted to {to}"), "  "), knobs(fit));
    }
    text + &figures(fit)
}

fn knobs(fit: &Fit) -> String {
    let mut table = plain_table(&["PARAMETER", "BEFORE", "FITTED", "ALLOWED"]);
    for knob in &fit.knobs {
        table.add_row(vec![
            printable(&knob.path),
            knob.before.to_string(),
            knob.after.to_string(),
            format!("{} to {}", knob.low, knob.high),
        ]);
    }
    aligned(table, 1..3)
}

fn figures(fit: &Fit) -> String {
    let mut table = plain_table(&["PUBLISHED FIGURE", "PUBLISHED", "BEFORE", "ERROR", "FITTED", "ERROR"]);
    for figure in &fit.figures {
        table.add_row(vec![
            named(figure),
            value(figure, figure.published),
            value(figure, figure.before),
            percent(figure.error_before),
            value(figure, figure.after),
            percent(figure.error_after),
        ]);
    }
    aligned(table, 1..6)
}

fn aligned(mut table: comfy_table::Table, columns: std::ops::Range<usize>) -> String {
    right(&mut table, columns);
    folded(&mut table);
    headed(&table, style::FAINT) + "\n"
}

fn named(figure: &Figure) -> String {
    let what = match figure.quantity {
        Quantity::Figure => "",
        Quantity::Ratio => ", x aligned",
    };
    printable(&format!("{}: {}{what}", figure.step, figure.arm))
}

fn value(figure: &Figure, value: f64) -> String {
    match figure.quantity {
        Quantity::Figure => format!("{} {}", number(value), figure.measure.unit()),
        Quantity::Ratio => number(value),
    }
}

fn summary(fit: &Fit) -> String {
    let tried = plural(fit.evaluations, "set");
    let [before, after, nearby, margin] =
        [fit.worst_before, fit.worst_after, fit.worst_nearby, fit.margin].map(|share| share * 100.0);
    if fit.knobs.is_empty() {
        return format!("The largest error is {after:.1} %.");
    }
    format!(
        "The largest error is {after:.1} % ({before:.1} % before the fit). With each parameter varied by \
         {margin:.0} %, it is at most {nearby:.1} %. {tried} of values tried."
    )
}
