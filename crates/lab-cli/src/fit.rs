//! `straddle drive fit`: a drive's numbers, fitted to the published figures.

use std::fmt::Write;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_lab::reproduce::experiment::Quantity;
use straddle_lab::reproduce::fit::{Figure, Fit, Fitted, MARGIN, fit as find};

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
        Document::of(SchemaOf::DriveFit, FitReport::of(&fit)).print()?;
        return Ok(Exit::Success);
    }
    let in_view = arguments.drive.profile.fit.as_ref();
    let in_view = in_view.map_or_else(String::new, |asked| {
        format!("\n  Published figures used for the fit:\n{}", text::drive::in_view(asked))
    });
    output::print(&(described(&fit) + &in_view))?;
    Ok(Exit::Success)
}

/// What `straddle drive fit --json` prints. Errors are fractions of the published figure.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FitReport<'a> {
    /// The drive as named on the command line.
    drive: &'a str,
    /// Manufacturer, model and size.
    title: &'a str,
    /// The experiments with the published figures that the drive was fitted to.
    experiments: &'a [String],
    /// The fitted parameters; empty if the profile lists none.
    knobs: &'a [Fitted],
    /// The published figures beside those of the model.
    figures: Vec<FigureReport<'a>>,
    /// The largest error with the values of the profile.
    worst_before: f64,
    /// The largest error with the fitted values.
    worst_after: f64,
    /// The largest error with the fitted values as they are, or with each in turn lowered or raised by
    /// `margin`; rounded up to half a percent.
    worst_nearby: f64,
    /// How far each value was varied, as a fraction of it.
    margin: f64,
    /// The number of sets of values that were tried.
    evaluations: usize,
}

/// A published figure beside the model's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Figure")]
struct FigureReport<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    /// The error with the values of the profile.
    error_before: f64,
    /// The error with the fitted values.
    error_after: f64,
}

impl<'a> FitReport<'a> {
    pub(crate) fn of(fit: &'a Fit) -> Self {
        let figure = |figure: &'a Figure| FigureReport {
            figure,
            error_before: figure.error(figure.before),
            error_after: figure.error(figure.after),
        };
        Self {
            drive: &fit.drive,
            title: &fit.title,
            experiments: &fit.experiments,
            knobs: &fit.knobs,
            figures: fit.figures.iter().map(figure).collect(),
            worst_before: fit.worst_before(),
            worst_after: fit.worst_after(),
            worst_nearby: fit.worst_nearby,
            margin: MARGIN,
            evaluations: fit.evaluations,
        }
    }
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
            percent(figure.error(figure.before)),
            value(figure, figure.after),
            percent(figure.error(figure.after)),
        ]);
    }
    aligned(table, 1..6)
}

/// Aligns these columns of the table to the right, and paints its heading.
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
        [fit.worst_before(), fit.worst_after(), fit.worst_nearby, MARGIN].map(|share| share * 100.0);
    if fit.knobs.is_empty() {
        return format!("The largest error is {after:.1} %.");
    }
    format!(
        "The largest error is {after:.1} % ({before:.1} % before the fit). With each parameter varied by \
         {margin:.0} %, it is at most {nearby:.1} %. {tried} of values tried."
    )
}
