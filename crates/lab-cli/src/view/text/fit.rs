//! A fit as text for people.

use std::fmt::Write;

use straddle_lab::reproduce::experiment::Quantity;
use straddle_lab::reproduce::fit::{Figure, Fit, MARGIN};

use crate::output::{paint, plural, printable, style};
use crate::view::text::{folded, headed, number, percent, plain_table, right, wrap};

/// Returns the knobs before and after, and the error of every figure.
pub(crate) fn fit(fit: &Fit) -> String {
    let title = printable(&format!("{}: {}", fit.drive, fit.title));
    let mut text = format!("{}\n{}\n", paint(style::HEADING, &wrap(&title, "")), wrap(&summary(fit), "  "));
    let to = printable(&fit.experiments.join(", "));
    if fit.knobs.is_empty() {
        let line =
            format!("The profile has no parameters to fit. Errors against the figures published by {to}:");
        let _ = writeln!(text, "{}\n", wrap(&line, "  "));
    } else {
        let _ = writeln!(text, "{}\n\n{}", wrap(&format!("fitted to {to}"), "  "), knobs(fit));
    }
    text + &figures(fit)
}

fn knobs(fit: &Fit) -> String {
    let mut table = plain_table(&["KNOB", "BEFORE", "FITTED", "ALLOWED"]);
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
    let (before, after) = (fit.worst_before() * 100.0, fit.worst_after() * 100.0);
    if fit.knobs.is_empty() {
        return format!("The largest error is {after:.1} %.");
    }
    format!(
        "The largest error is {after:.1} % ({before:.1} % before the fit). With each knob {:.0} % to either side, it is \
         at most {:.1} %. {tried} of values tried.",
        MARGIN * 100.0,
        fit.worst_nearby * 100.0
    )
}
