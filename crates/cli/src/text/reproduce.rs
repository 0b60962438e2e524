//! Published experiments and ours beside them, as text for people.

use std::fmt::Write;

use comfy_table::CellAlignment;
use straddle_bench::experiment::{
    Arm, Compared, Experiment, Judged, Measure, Outcome, Quantity, Source, StepOutcome,
};

use crate::output::{Styles, paint, plural, printable};
use crate::report::reproduce::{Reproduced, fitted};
use crate::text::{plain_table, trimmed, wrap};

/// The headings of the table; the first four and the rest are about the figure and about the ratio.
const HEADINGS: [&str; 8] =
    ["    ARM", "MODELLED", "PUBLISHED", "ERROR", "x ALIGNED", "PUBLISHED", "ERROR", ""];

/// The experiments there are.
pub(crate) fn list(experiments: &[Experiment], width: usize, styles: Styles) -> String {
    let mut text = String::new();
    for experiment in experiments {
        text += &heading(experiment, width, styles);
        for step in &experiment.steps {
            let arms = plural(step.arms.len(), "arm");
            let line = format!("{}: {} ({arms}) on {}", step.name, step.title, step.drive);
            let _ = writeln!(text, "{}", wrap(&printable(&line), width, "  "));
        }
        text.push('\n');
    }
    text + "'straddle reproduce NAME' runs one, 'straddle reproduce' all of them.\n"
}

/// Each experiment with its figures, and what all of it comes to.
pub(crate) fn outcomes(reproduced: &Reproduced<'_>, width: usize, styles: Styles) -> String {
    let mut text = String::new();
    for (experiment, outcome) in &reproduced.experiments {
        text += &heading(experiment, width, styles);
        if let Some(notes) = &experiment.notes {
            let notes = notes.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "{}", paint(styles.faint, &wrap(&printable(&notes), width, "  ")));
        }
        drives(outcome).iter().for_each(|line| {
            let _ = writeln!(text, "{}", wrap(line, width, "  "));
        });
        text.push('\n');
        let limit = (!reproduced.other_drive).then_some(experiment.limit);
        text += &table(experiment, outcome, limit, styles);
        let _ = write!(text, "{}\n\n", wrap(&verdict(experiment, outcome, limit), width, "  "));
    }
    text + &summary(reproduced)
}

fn heading(experiment: &Experiment, width: usize, styles: Styles) -> String {
    let title = format!("{}: {}", printable(&experiment.name), printable(&experiment.title));
    let mut text = format!("{}\n", paint(styles.heading, &title));
    for Source { author, year, title, address } in &experiment.sources {
        let author = author.as_deref().map_or(String::new(), |author| format!("{author}, "));
        let address = address.as_deref().map_or(String::new(), |address| format!(", {address}"));
        let line = printable(&format!("published: {author}{year}: {title}{address}"));
        let _ = writeln!(text, "{}", wrap(&line, width, "  "));
    }
    text
}

/// What was modelled, and which of its numbers were fitted to what: a line a drive.
fn drives(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for StepOutcome { drive, profile, .. } in &outcome.steps {
        let fitted: Vec<String> =
            fitted(profile).map(|(path, value, source)| format!("{path} = {value} ({source})")).collect();
        let fitted = if fitted.is_empty() { "no number fitted".to_owned() } else { fitted.join(", ") };
        let line = printable(&format!("modelled: drive:{drive}, {}; {fitted}", profile.title));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Each step's title over its arms, in columns that are the same for all steps.
fn table(experiment: &Experiment, outcome: &Outcome, limit: Option<f64>, styles: Styles) -> String {
    let mut table = plain_table(&HEADINGS);
    let mut kinds = Vec::new();
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            for (index, figure) in outcome.figures.iter().enumerate() {
                let outside = limit.is_some_and(|limit| is_outside(figure, limit));
                table.add_row(row(arm, figure, index == 0, limit.filter(|_| outside)));
                kinds.push(match (outside, figure.published.is_some() && limit.is_some()) {
                    (true, _) => styles.error,
                    (false, true) => styles.good,
                    (false, false) => anstyle::Style::new(),
                });
            }
        }
    }
    for column in table.column_iter_mut().skip(1).take(HEADINGS.len() - 2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let table = trimmed(&table);
    let mut lines = table.lines();
    let mut text = lines.next().map(|line| format!("{}\n", paint(styles.faint, line))).unwrap_or_default();
    let mut rows = lines.zip(kinds);
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        let _ = writeln!(text, "  {}", printable(&step.title));
        let count = outcome.arms.iter().map(|arm| arm.figures.len()).sum();
        for (line, style) in rows.by_ref().take(count) {
            let _ = writeln!(text, "{}", paint(style, line));
        }
    }
    text
}

fn row(arm: &Arm, figure: &Compared, first: bool, outside: Option<f64>) -> Vec<String> {
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
        ratio.unwrap_or_default(),
        published_ratio.unwrap_or_default(),
        figure.ratio_error().map(percent).unwrap_or_default(),
        outside.map(|limit| format!("OUTSIDE {} %", number(limit * 100.0))).unwrap_or_default(),
    ]
}

fn is_outside(figure: &Compared, limit: f64) -> bool {
    [figure.error(), figure.ratio_error()].into_iter().flatten().any(|error| error.abs() > limit)
}

/// What an experiment comes to, in a sentence.
fn verdict(experiment: &Experiment, outcome: &Outcome, limit: Option<f64>) -> String {
    let judged = outcome.judged();
    let Some(limit) = limit else {
        return "Not judged: the published figures are of another drive.".to_owned();
    };
    let worst = judged.iter().max_by(|one, other| one.error().abs().total_cmp(&other.error().abs()));
    let Some(worst) = worst else { return "Not judged: no figures to compare with.".to_owned() };
    let within = judged.iter().filter(|judged| judged.error().abs() <= limit).count();
    format!(
        "{} of {} published figures and ratios are within {} %; the worst is off by {} ({}).",
        within,
        judged.len(),
        number(limit * 100.0),
        percent(worst.error()),
        named(experiment, worst)
    )
}

/// Which figure: `4k, offset 1: ratio of elapsed`.
fn named(experiment: &Experiment, judged: &Judged) -> String {
    let step = &experiment.steps[judged.step];
    let what = match judged.quantity {
        Quantity::Figure => measure(judged.measure).to_owned(),
        Quantity::Ratio => format!("{} over the aligned arm's", measure(judged.measure)),
    };
    printable(&format!("{}, {}: {what}", step.name, step.arms[judged.arm].name))
}

const fn measure(measure: Measure) -> &'static str {
    match measure {
        Measure::Elapsed => "time",
        Measure::Iops => "requests a second",
        Measure::SyncLatency => "time of a sync",
    }
}

/// A sentence for each figure that is outside its experiment's limit.
pub(crate) fn misses(reproduced: &Reproduced<'_>) -> Vec<String> {
    if reproduced.other_drive {
        return Vec::new();
    }
    let mut misses = Vec::new();
    for (experiment, outcome) in &reproduced.experiments {
        for judged in outcome.judged().iter().filter(|judged| judged.error().abs() > experiment.limit) {
            let unit = if judged.quantity == Quantity::Figure { judged.measure.unit() } else { "times" };
            misses.push(format!(
                "{}: {}: modelled {} {unit}, published {} {unit}: off by {}, the limit is {} %",
                printable(&experiment.name),
                named(experiment, judged),
                number(judged.modelled),
                number(judged.published),
                percent(judged.error()),
                number(experiment.limit * 100.0)
            ));
        }
    }
    misses
}

fn summary(reproduced: &Reproduced<'_>) -> String {
    let experiments = plural(reproduced.experiments.len(), "experiment");
    let (judged, within) = reproduced.verdict();
    let verdict = match (reproduced.other_drive, judged) {
        (true, _) => "none judged, on another drive".to_owned(),
        (false, 0) => "no figures to compare with".to_owned(),
        (false, _) => format!("{within} of {judged} published figures and ratios within their limits"),
    };
    let tally = reproduced.tally();
    format!(
        "{experiments}: {verdict}; {} requests, {} of virtual time in {:.1} s\n",
        tally.requests,
        duration(tally.seconds),
        reproduced.wall.as_secs_f64()
    )
}

/// Seconds as `1 h 14 min`, `2 min 5 s` or `7.5 s`.
fn duration(seconds: f64) -> String {
    let parts = |unit: f64| ((seconds / unit).floor(), seconds % unit);
    match seconds {
        _ if seconds >= 3600.0 => {
            format!("{:.0} h {:.0} min", parts(3600.0).0, (parts(3600.0).1 / 60.0).floor())
        }
        _ if seconds >= 60.0 => format!("{:.0} min {:.0} s", parts(60.0).0, parts(60.0).1.floor()),
        _ => format!("{seconds:.1} s"),
    }
}

/// With four figures, or whole.
pub(crate) fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 1000.0 => return format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share as `+3.4 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
