//! Published experiments with ours beside them, as text for people.

pub(crate) mod lab;

use std::fmt::Write;

use straddle_drive::disk::RmwPolicy;
use straddle_lab::reproduce::experiment::{
    Arm, Compared, Experiment, Judged, Measure, Outcome, Quantity, Source, StepOutcome,
};

use straddle_lab::reproduce::lab::Comparison;
use straddle_lab::reproduce::policy::{Band, Choice};

use crate::output::{paint, plural, printable, style};
use crate::view::json::reproduce::{Reproduced, ReproducedExperiment, fitted};
use crate::view::text::{duration, number, percent, plain_table, right, trimmed, wrap};

/// The headings of the table. The first are about the figure, the others about the ratio.
const HEADINGS: [&str; 10] =
    ["    ARM", "MODELLED", "PUBLISHED", "ERROR", "BAND", "x ALIGNED", "PUBLISHED", "ERROR", "BAND", ""];

pub(crate) fn list(experiments: &[Experiment]) -> String {
    let mut text = String::new();
    for experiment in experiments {
        text += &heading(experiment);
        for step in &experiment.steps {
            let arms = plural(step.arms.len(), "arm");
            let line = format!("{}: {} ({arms}) on {}", step.name, step.title, step.drive);
            let _ = writeln!(text, "{}", wrap(&printable(&line), "  "));
        }
        experiment.lab.iter().for_each(|step| text += &lab::listed(step));
        text.push('\n');
    }
    text + "'straddle reproduce NAME' runs one, 'straddle reproduce' all of them.\n"
}

/// Returns each experiment with its figures, and a summary.
pub(crate) fn outcomes(reproduced: &Reproduced) -> String {
    let mut text = String::new();
    for experiment in &reproduced.experiments {
        text += &outcome(experiment);
    }
    text += &lab::longest(reproduced);
    text + &wrap(summary(reproduced).trim_end(), "") + "\n"
}

fn outcome(reproduced: &ReproducedExperiment) -> String {
    let ReproducedExperiment { experiment, outcome, lab, .. } = reproduced;
    let mut text = heading(experiment);
    if let Some(notes) = &experiment.notes {
        text += &note(notes);
    }
    let limit = reproduced.limit();
    if let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.steps.is_empty()) {
        drives(outcome).iter().for_each(|line| {
            let _ = writeln!(text, "{}", wrap(line, "  "));
        });
        text.push('\n');
        text += &table(experiment, outcome, limit);
    }
    for (step, outcome) in reproduced.lab_steps() {
        text.push('\n');
        text += &lab::outcome(step, outcome, limit);
    }
    if lab.is_none() {
        experiment.lab.iter().for_each(|step| text += &lab::not_run(step));
    }
    let _ = write!(text, "{}\n\n", wrap(&verdict(reproduced), "  "));
    text
}

fn note(notes: &str) -> String {
    let notes = notes.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}\n", paint(style::FAINT, &wrap(&printable(&notes), "  ")))
}

fn heading(experiment: &Experiment) -> String {
    let title = format!("{}: {}", printable(&experiment.name), printable(&experiment.title));
    let mut text = format!("{}\n", paint(style::HEADING, &title));
    for Source { author, year, title, address } in &experiment.sources {
        let author = author.as_deref().map_or(String::new(), |author| format!("{author}, "));
        let address = address.as_deref().map_or(String::new(), |address| format!(", {address}"));
        let line = printable(&format!("published: {author}{year}: {title}{address}"));
        let _ = writeln!(text, "{}", wrap(&line, "  "));
    }
    text
}

/// Describes the modelled drives and their fitted numbers, one line per drive.
fn drives(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for StepOutcome { drive, profile, .. } in &outcome.steps {
        let fitted: Vec<String> = fitted(profile).map(|fitted| fitted.to_string()).collect();
        let fitted = if fitted.is_empty() { "no number fitted".to_owned() } else { fitted.join(", ") };
        let line = printable(&format!("modelled: drive:{drive}, {}; {fitted}", profile.title));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Returns each step's title over its arms, with the same columns for all steps.
fn table(experiment: &Experiment, outcome: &Outcome, limit: Option<f64>) -> String {
    let mut table = plain_table(&HEADINGS);
    let mut kinds = Vec::new();
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            for (index, figure) in outcome.figures.iter().enumerate() {
                let outside = limit.is_some_and(|limit| is_outside(figure, limit));
                table.add_row(row(arm, figure, index == 0, limit));
                kinds.push(match (outside, figure.published.is_some() && limit.is_some()) {
                    (true, _) => style::ERROR,
                    (false, true) => style::GOOD,
                    (false, false) => anstyle::Style::new(),
                });
            }
        }
    }
    right(&mut table, 1..HEADINGS.len() - 1);
    let table = trimmed(&table);
    let mut lines = table.lines();
    let mut text = lines.next().map(|line| format!("{}\n", paint(style::FAINT, line))).unwrap_or_default();
    let mut rows = lines.zip(kinds);
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        let _ = writeln!(text, "  {}", printable(&step.title));
        for deviation in &step.deviations {
            let line = wrap(&printable(&format!("differs: {deviation}")), "    ");
            let _ = writeln!(text, "{}", paint(style::FAINT, &line));
        }
        let count = outcome.arms.iter().map(|arm| arm.figures.len()).sum();
        for (line, style) in rows.by_ref().take(count) {
            let _ = writeln!(text, "{}", paint(style, line));
        }
    }
    text
}

fn row(arm: &Arm, figure: &Compared, first: bool, limit: Option<f64>) -> Vec<String> {
    let dash = || "-".to_owned();
    let unit = figure.measure.unit();
    let (lowest, highest) = (number(figure.lowest), number(figure.highest));
    let range = if lowest == highest { String::new() } else { format!(" ({lowest} to {highest})") };
    let modelled = format!("{} {unit}{range}", number(figure.modelled));
    let published = figure.published.as_ref().map(|published| match (published.low, published.high) {
        (Some(low), Some(high)) => {
            format!("{} {unit} ({} to {})", number(published.value), number(low), number(high))
        }
        _ => format!("{} {unit}", number(published.value)),
    });
    let ratio = figure.ratio.map(|(ours, _)| number(ours));
    let published_ratio = figure.ratio.and_then(|(_, published)| published).map(number);
    vec![
        if first { format!("    {}", printable(&arm.name)) } else { String::new() },
        modelled,
        published.unwrap_or_else(dash),
        figure.error().map_or_else(dash, percent),
        figure.band.as_ref().map_or_else(String::new, band),
        ratio.unwrap_or_default(),
        published_ratio.unwrap_or_default(),
        figure.ratio_error().map(percent).unwrap_or_default(),
        figure.ratio_band.as_ref().map_or_else(String::new, band),
        match limit {
            Some(limit) if is_outside(figure, limit) => format!("OUTSIDE {} %", number(limit * 100.0)),
            Some(limit) if is_off(figure, limit) => "explained".to_owned(),
            _ => String::new(),
        },
    ]
}

pub(crate) fn band(band: &Band) -> String {
    if band.is_point() {
        number(band.lowest())
    } else {
        format!("{}..{}", number(band.lowest()), number(band.highest()))
    }
}

/// Returns the policy chosen for each drive, with the worst error of each policy.
pub(crate) fn policies(choices: &[Choice]) -> String {
    if choices.is_empty() {
        return "no published figure depends on the policy\n".to_owned();
    }
    let mut columns = RmwPolicy::PLAUSIBLE.to_vec();
    for (policy, _) in choices.iter().flat_map(|choice| &choice.worst) {
        if !columns.contains(policy) {
            columns.push(*policy);
        }
    }
    let mut header = vec!["DRIVE", "FIGURES"];
    header.extend(columns.iter().map(|policy| policy.name()));
    header.extend(["PROFILE", "CHOSEN"]);
    let mut table = plain_table(&header);
    for choice in choices {
        let mut row = vec![
            printable(&choice.drive),
            format!("{}{}", choice.figures, if choice.raw { "" } else { " (page cache)" }),
        ];
        row.extend(columns.iter().map(|column| {
            let error = choice.worst.iter().find(|(policy, _)| policy == column);
            error.map_or_else(|| "-".to_owned(), |(_, error)| format!("{} %", number(error * 100.0)))
        }));
        row.push(choice.own.name().to_owned());
        row.push(choice.chosen.map_or_else(|| "-".to_owned(), |chosen| chosen.name().to_owned()));
        table.add_row(row);
    }
    right(&mut table, 1..=columns.len() + 1);
    let table = trimmed(&table);
    let rule = "The worst error of each policy of read-modify-write over the drive's published raw figures and their \
                ratios. Chosen is the least; '-' where no figure tells them apart. If a program reached the drive \
                directly, only such figures decide. The numbers fitted to a drive were fitted with its profile's policy.";
    format!("{table}\n\n{}\n", paint(style::FAINT, &wrap(rule, "")))
}

fn is_beyond(error: Option<f64>, limit: f64) -> bool {
    error.is_some_and(|error| error.abs() > limit)
}

/// Whether a figure or its ratio is not within the limit.
fn is_off(figure: &Compared, limit: f64) -> bool {
    [figure.error(), figure.ratio_error()].into_iter().any(|error| is_beyond(error, limit))
}

/// Whether a figure or its ratio is neither within the limit nor explained by a policy.
fn is_outside(figure: &Compared, limit: f64) -> bool {
    let is_missed = |error, explained: Option<bool>| is_beyond(error, limit) && explained != Some(true);
    is_missed(figure.error(), figure.is_explained(limit))
        || is_missed(figure.ratio_error(), figure.is_ratio_explained(limit))
}

/// Returns the verdict on an experiment, in a sentence.
fn verdict(reproduced: &ReproducedExperiment) -> String {
    let Some(limit) = reproduced.limit() else {
        return "Not judged: the published figures are of another drive.".to_owned();
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
    let Some((error, what)) = worst else { return "Not judged: no figures to compare with.".to_owned() };
    format!(
        "{within} of {judged} published figures and ratios are within {} %; the worst is off by {} ({what}).",
        number(limit * 100.0),
        percent(error),
    )
}

/// Names a figure: `4k, offset 1: time over the aligned arm's`.
fn named(experiment: &Experiment, judged: &Judged) -> String {
    let step = &experiment.steps[judged.step];
    let what = match judged.quantity {
        Quantity::Figure => measure(judged.measure).to_owned(),
        Quantity::Ratio => format!("{} over the aligned arm's", measure(judged.measure)),
    };
    printable(&format!("{}, {}: {what}", step.name, step.arms[judged.arm].name))
}

pub(crate) const fn measure(measure: Measure) -> &'static str {
    match measure {
        Measure::Elapsed => "time",
        Measure::Iops => "requests a second",
        Measure::SyncLatency => "time of a sync",
    }
}

/// Returns a sentence for each figure outside its experiment's limit, and for each guest that failed.
pub(crate) fn misses(reproduced: &Reproduced) -> Vec<String> {
    let mut misses = Vec::new();
    for reproduced in &reproduced.experiments {
        let experiment = &reproduced.experiment;
        let name = printable(&experiment.name);
        for (step, outcome) in reproduced.lab_steps() {
            let failures = lab::failures(step, outcome);
            misses.extend(
                failures.into_iter().map(|failure| format!("{name}: {}: {failure}", printable(&step.name))),
            );
        }
        let Some(limit) = reproduced.limit() else { continue };
        let miss = |what: &str, ours: f64, published: f64, unit: &str, error: f64| {
            format!(
                "{name}: {what}: modelled {} {unit}, published {} {unit}: off by {}, the limit is {} %",
                number(ours),
                number(published),
                percent(error),
                number(limit * 100.0)
            )
        };
        let models = reproduced.outcome.iter().flat_map(Outcome::judged);
        for judged in models.filter(|judged| judged.error().abs() > limit && !judged.is_explained(limit)) {
            let unit = if judged.quantity == Quantity::Figure { judged.measure.unit() } else { "times" };
            let what = named(experiment, &judged);
            misses.push(miss(&what, judged.modelled, judged.published, unit, judged.error()));
        }
        for (step, outcome) in reproduced.lab_steps() {
            let missed = |compared: &&Comparison| !compared.is_within(limit) && !compared.is_explained(limit);
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
    let experiments = plural(reproduced.experiments.len(), "experiment");
    let (judged, within) = reproduced.verdict();
    let verdict = match (reproduced.experiments.iter().any(|experiment| experiment.judged), judged) {
        (false, _) => "none judged, on another drive".to_owned(),
        (true, 0) => "no figures to compare with".to_owned(),
        (true, _) => format!("{within} of {judged} published figures and ratios within their limits"),
    };
    let tally = reproduced.tally();
    let wall = reproduced.wall.as_secs_f64();
    let (virtual_time, wall) = (duration(tally.seconds), duration(wall));
    format!(
        "{experiments}: {verdict}; {} requests, {virtual_time} of virtual time in {wall}\n",
        tally.requests
    )
}
