//! Published experiments with ours beside them, as text for people.

pub(crate) mod joint;
pub(crate) mod lab;

use std::fmt::Write;

use anstyle::Style;
use comfy_table::Table;
use straddle_lab::reproduce::experiment::{
    Arm, Compared, Experiment, Judged, Measure, Outcome, Pair, Quantity, Source, StepOutcome,
};
use straddle_lab::reproduce::joint::{Origin, origin as origin_of};
use straddle_lab::reproduce::lab::Comparison;
use straddle_lab::reproduce::policy::Band;

use crate::reproduce::json::{Fitted, Reproduced, ReproducedExperiment, fitted};
use straddle_cli::output::{paint, plural, printable, style};
use straddle_cli::view::text::{duration, number, percent, plain_table, right, trimmed, wrap};

/// The headings of the table. The first are about the figure, the others about the ratio.
const HEADINGS: [&str; 8] = ["  OFFSET", "MODELLED", "PUBLISHED", "ERROR", "RATIO", "PUBLISHED", "ERROR", ""];

pub(crate) fn list(experiments: &[Experiment]) -> String {
    let mut text = String::new();
    for experiment in experiments {
        text += &title(experiment);
        text += &sources(experiment);
        if experiment.steps.is_empty() {
            text += &line("in the lab only (--model-only runs none of it)", "  ", Style::new());
        }
        for step in &experiment.steps {
            let arms = plural(step.arms.len(), "arm");
            let listed = format!("{}: {} ({arms}) on {}", step.name, step.title, step.drive);
            text += &line(&listed, "  ", Style::new());
        }
        experiment.lab.iter().for_each(|step| text += &lab::listed(step));
        text.push('\n');
    }
    text + "'straddle reproduce NAME' runs one, 'straddle reproduce' all of them.\n"
}

/// The score, and each experiment with its figures; if `is_verbose`, also its sources, notes and drives.
pub(crate) fn outcomes(reproduced: &Reproduced, is_verbose: bool) -> String {
    let mut text = summary(reproduced);
    for experiment in &reproduced.experiments {
        text.push('\n');
        text += &title(&experiment.experiment);
        if let (Some(found), 2..) = (found(experiment), reproduced.experiments.len()) {
            let _ = writeln!(text, "{}", wrap(&found, "  "));
        }
        text += &outcome(experiment, is_verbose);
    }
    text
}

fn outcome(reproduced: &ReproducedExperiment, is_verbose: bool) -> String {
    let ReproducedExperiment { experiment, outcome, lab, .. } = reproduced;
    let mut text = String::new();
    let _ = writeln!(text, "{}", wrap(&verdict(reproduced), "  "));
    if is_verbose {
        text += &sources(experiment);
        text += &experiment.notes.as_deref().map_or_else(String::new, note);
    }
    let limit = reproduced.limit();
    if let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.steps.is_empty()) {
        if is_verbose {
            text += &drives(outcome);
        }
        text.push('\n');
        text += &table(experiment, outcome, limit, is_verbose);
    }
    for (step, outcome) in reproduced.lab_steps() {
        text.push('\n');
        text += &lab::outcome(step, outcome, limit, is_verbose);
    }
    match experiment.lab.len() {
        0 => {}
        _ if lab.is_some() => {}
        _ if is_verbose => experiment.lab.iter().for_each(|step| text += &lab::not_run(step)),
        parts => {
            let _ = writeln!(text, "  {} not run (--model-only)", plural(parts, "lab part"));
        }
    }
    text
}

fn line(text: &str, indent: &str, style: Style) -> String {
    format!("{}\n", paint(style, &wrap(&printable(text), indent)))
}

fn note(notes: &str) -> String {
    line(&notes.split_whitespace().collect::<Vec<_>>().join(" "), "  ", style::FAINT)
}

fn title(experiment: &Experiment) -> String {
    line(&format!("{}: {}", experiment.name, experiment.title), "", style::HEADING)
}

fn sources(experiment: &Experiment) -> String {
    let mut text = String::new();
    for Source { author, year, title, address } in &experiment.sources {
        let author = author.as_deref().map_or(String::new(), |author| format!("{author}, "));
        let address = address.as_deref().map_or(String::new(), |address| format!(", {address}"));
        text += &line(&format!("published: {author}{year}: {title}{address}"), "  ", Style::new());
    }
    text
}

fn drives(outcome: &Outcome) -> String {
    let mut lines: Vec<String> = Vec::new();
    for StepOutcome { drive, profile, .. } in &outcome.steps {
        let described = |it: Fitted<'_>| format!("{} = {} ({})", it.path, it.value, it.source);
        let fitted: Vec<String> = fitted(profile).map(described).collect();
        let fitted = if fitted.is_empty() { "no number fitted".to_owned() } else { fitted.join(", ") };
        let described =
            line(&format!("modelled: drive:{drive}, {}; {fitted}", profile.title), "  ", Style::new());
        if !lines.contains(&described) {
            lines.push(described);
        }
    }
    lines.concat()
}

/// Returns each step's title over its arms, with the same columns for all steps.
fn table(experiment: &Experiment, outcome: &Outcome, limit: Option<f64>, is_verbose: bool) -> String {
    let mut table = plain_table(&HEADINGS);
    let mut styles = Vec::new();
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            for (index, figure) in outcome.figures.iter().enumerate() {
                let outside = limit.is_some_and(|limit| figure.is_outside(limit));
                table.add_row(row(arm, figure, index == 0, limit, is_verbose));
                styles.push(match (outside, figure.published.is_some() && limit.is_some()) {
                    (true, _) => style::ERROR,
                    (false, true) => style::GOOD,
                    (false, false) => Style::new(),
                });
            }
        }
    }
    right(&mut table, 1..HEADINGS.len() - 1);
    let mut rows = painted(&table, styles);
    let mut text = rows.next().unwrap_or_default();
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        let origin = limit.map(|_| origin_of(&outcome.profile, experiment));
        let origin = origin.filter(|_| step.published().next().is_some());
        let origin = origin.map_or_else(String::new, |known| format!(" ({})", origin_word(Some(known))));
        text += &line(&format!("{}{origin}", step.title), "  ", Style::new());
        // They say why an arm is not compared.
        let is_partial = step.arms.iter().any(|arm| arm.published.is_empty());
        for deviation in step.deviations.iter().filter(|_| is_verbose || is_partial) {
            text += &line(&format!("differs: {deviation}"), "    ", style::FAINT);
        }
        let count = outcome.arms.iter().map(|arm| arm.figures.len()).sum();
        text.extend(rows.by_ref().take(count));
    }
    text
}

fn painted(table: &Table, styles: Vec<Style>) -> impl Iterator<Item = String> {
    let styles = std::iter::once(style::FAINT).chain(styles);
    let lines = trimmed(table);
    let lines = lines.lines().zip(styles).map(|(line, style)| format!("{}\n", paint(style, line)));
    lines.collect::<Vec<_>>().into_iter()
}

/// Returns the row of a figure; if `is_verbose`, with the ranges of both.
fn row(arm: &Arm, figure: &Compared, first: bool, limit: Option<f64>, is_verbose: bool) -> Vec<String> {
    let dash = || "-".to_owned();
    let unit = figure.measure.unit();
    let (lowest, highest) = (number(figure.lowest), number(figure.highest));
    let is_range = is_verbose && lowest != highest;
    let range = if is_range { format!(" ({lowest} to {highest})") } else { String::new() };
    let modelled = format!("{} {unit}{range}", number(figure.figure.modelled));
    let published = figure.published.as_ref().map(|published| match (published.low, published.high) {
        (Some(low), Some(high)) if is_verbose => {
            format!("{} {unit} ({} to {})", number(published.value), number(low), number(high))
        }
        _ => format!("{} {unit}", number(published.value)),
    });
    let ratio = figure.ratio.as_ref();
    vec![
        if first { format!("   {}", printable(&arm.name)) } else { String::new() },
        modelled,
        published.unwrap_or_else(dash),
        figure.figure.error().map_or_else(dash, percent),
        ratio.map(|ratio| number(ratio.modelled)).unwrap_or_default(),
        ratio.and_then(|ratio| ratio.published).map(number).unwrap_or_default(),
        ratio.and_then(Pair::error).map(percent).unwrap_or_default(),
        match limit {
            Some(limit) if figure.is_outside(limit) => outside(figure.is_explained(limit)),
            _ => "",
        }
        .to_owned(),
    ]
}

pub(crate) fn band(band: &Band) -> String {
    if band.is_point() {
        number(band.lowest())
    } else {
        format!("{}..{}", number(band.lowest()), number(band.highest()))
    }
}

pub(crate) fn outside(is_explained: bool) -> &'static str {
    if is_explained { "OUTSIDE, explained" } else { "OUTSIDE" }
}

pub(crate) fn origin_word(origin: Option<Origin>) -> &'static str {
    match origin {
        Some(Origin::Fitted) => "fitted",
        Some(Origin::Predicted) => "predicted",
        None => "",
    }
}

pub(crate) fn is_lab_left_out(reproduced: &ReproducedExperiment) -> bool {
    reproduced.lab.is_none() && !reproduced.experiment.lab.is_empty()
}

pub(crate) fn nothing_compared(is_lab_left_out: bool) -> String {
    match is_lab_left_out {
        true => {
            "Not compared: all published figures are for the lab, which --model-only leaves out.".to_owned()
        }
        false => "Not compared: no figures were published.".to_owned(),
    }
}

/// Returns what misalignment costs, modelled and published.
pub(crate) fn found(reproduced: &ReproducedExperiment) -> Option<String> {
    let arms = reproduced.outcome.iter().flat_map(|outcome| &outcome.steps).flat_map(|step| &step.arms);
    let models = arms.flat_map(|arm| &arm.figures).filter_map(|compared| compared.ratio.as_ref());
    let models = models.map(|ratio| (Some(ratio.modelled), ratio.published));
    let labs = reproduced.lab_steps().flat_map(|(_, outcome)| &outcome.compared);
    let labs = labs.filter(|compared| compared.unit.is_none());
    let ratios: Vec<(Option<f64>, Option<f64>)> =
        models.chain(labs.map(|compared| (compared.ours, Some(compared.published)))).collect();
    let modelled = range(ratios.iter().filter_map(|ratio| ratio.0))?;
    let published = range(ratios.iter().filter_map(|ratio| ratio.1)).filter(|_| reproduced.judged);
    let published = published.map_or_else(String::new, |range| format!(" (published: {range})"));
    Some(format!("Misaligned accesses take {modelled} times as long as aligned ones{published}."))
}

/// Returns the range of these values, with three digits.
fn range(values: impl Iterator<Item = f64> + Clone) -> Option<String> {
    let lowest = number(values.clone().min_by(f64::total_cmp)?);
    let highest = number(values.max_by(f64::total_cmp)?);
    Some(if lowest == highest { lowest } else { format!("{lowest} to {highest}") })
}

fn verdict(reproduced: &ReproducedExperiment) -> String {
    let Some(limit) = reproduced.limit() else {
        return "Not compared: the published figures are for another drive.".to_owned();
    };
    let (judged, within) = reproduced.verdict();
    let models = reproduced.outcome.iter().flat_map(|outcome| {
        outcome.judged().into_iter().map(|judged| (judged.error(), named(&reproduced.experiment, &judged)))
    });
    let labs = reproduced.lab_steps().flat_map(|(step, outcome)| {
        let name = |compared| format!("{}, {}", printable(&step.name), lab::named(step, compared));
        outcome.compared.iter().filter_map(move |compared| Some((compared.error()?, name(compared))))
    });
    let worst = models.chain(labs).max_by(|one, other| one.0.abs().total_cmp(&other.0.abs()));
    let Some((error, what)) = worst else { return nothing_compared(is_lab_left_out(reproduced)) };
    format!(
        "{within} of {judged} published figures and ratios are within {} %. The largest error is {} ({what}).",
        number(limit * 100.0),
        percent(error),
    )
}

/// Names a figure: `4k, offset 1: time over the aligned arm's`.
fn named(experiment: &Experiment, judged: &Judged) -> String {
    let step = &experiment.steps[judged.step];
    let what = match judged.quantity {
        Quantity::Figure => measure(judged.measure).to_owned(),
        Quantity::Ratio => format!("{} relative to aligned", measure(judged.measure)),
    };
    printable(&format!("{}, {}: {what}", step.name, step.arms[judged.arm].name))
}

pub(crate) const fn measure(measure: Measure) -> &'static str {
    match measure {
        Measure::Elapsed => "time",
        Measure::Iops => "requests per second",
        Measure::SyncLatency => "time per sync",
    }
}

/// Returns a sentence for each figure outside its experiment's limit, and for each guest that failed.
pub(crate) fn misses(reproduced: &Reproduced) -> Vec<String> {
    let mut misses = Vec::new();
    for reproduced in &reproduced.experiments {
        let experiment = &reproduced.experiment;
        let name = printable(&experiment.name);
        for (step, outcome) in reproduced.lab_steps() {
            let failures = lab::failures(step, outcome).into_iter();
            misses.extend(failures.map(|failure| format!("{name}: {}: {failure}", printable(&step.name))));
        }
        let Some(limit) = reproduced.limit() else { continue };
        let miss = |what: &str, ours: f64, published: f64, unit: &str, error: f64| {
            format!(
                "{name}: {what}: modelled {} {unit}, published {} {unit}; the error is {}, and the limit is \
                 {} %",
                number(ours),
                number(published),
                percent(error),
                number(limit * 100.0)
            )
        };
        let models = reproduced.outcome.iter().flat_map(Outcome::judged);
        for judged in models.filter(|judged| judged.error().abs() > limit) {
            let unit = if judged.quantity == Quantity::Figure { judged.measure.unit() } else { "times" };
            let what = named(experiment, &judged);
            misses.push(miss(&what, judged.modelled, judged.published, unit, judged.error()));
        }
        for (step, outcome) in reproduced.lab_steps() {
            let missed = |compared: &&Comparison| !compared.is_within(limit);
            for compared in outcome.compared.iter().filter(missed) {
                let (Some(ours), Some(error)) = (compared.ours, compared.error()) else { continue };
                let what = format!("{}, {}", printable(&step.name), lab::named(step, compared));
                let unit = compared.unit.map_or("times", Measure::unit);
                misses.push(miss(&what, ours, compared.published, unit, error));
            }
        }
    }
    misses
}

fn summary(reproduced: &Reproduced) -> String {
    let (judged, within) = reproduced.verdict();
    let verdict = match (reproduced.experiments.iter().any(|experiment| experiment.judged), judged) {
        (false, _) => "Not compared: the published figures are for other drives.".to_owned(),
        (true, 0) => nothing_compared(reproduced.experiments.iter().any(is_lab_left_out)),
        (true, _) => format!("{within} of {judged} published figures and ratios are within their limits."),
    };
    let tally = reproduced.tally();
    let ran = format!(
        "{}, {} requests, {} of virtual time in {}.",
        plural(reproduced.experiments.len(), "experiment"),
        tally.requests,
        duration(tally.seconds),
        duration(reproduced.wall.as_secs_f64())
    );
    let found = match &reproduced.experiments[..] {
        [one] => found(one),
        _ => None,
    };
    // What one experiment has within its limit is said where its figures are.
    let verdict = Some(verdict).filter(|_| found.is_none());
    let mut lines = found.into_iter().chain(verdict);
    let heading = lines.next().unwrap_or_default();
    let mut text = format!("{}\n", paint(style::HEADING, &wrap(&heading, "")));
    for line in lines.chain(joint::about(&reproduced.judged)).chain([ran]) {
        let _ = writeln!(text, "{}", wrap(&line, ""));
    }
    text
}
