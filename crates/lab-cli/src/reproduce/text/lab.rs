//! Lab steps and their results, as text for people.

use std::fmt::Write;

use anstyle::Style;
use comfy_table::Table;
use straddle_cli::target;
use straddle_lab::reproduce::experiment::{LabStep, Setting, Statistic};
use straddle_lab::reproduce::lab::{Cell, Comparison, Readers, StepOutcome};

use crate::reproduce::text::{band, line, measure, note, origin_word, outside, painted};
use straddle_cli::output::{paint, plural, printable, style};
use straddle_cli::view::text::{duration, number, percent, plain_table, right, trimmed, wrap};

pub(super) fn listed(step: &LabStep) -> String {
    let guests = plural(step.variants().len() * step.arms.len() * step.runs as usize, "guest");
    let listed = format!("{}: {} (in the lab: {guests}) on {}", step.name, step.title, step.drive);
    line(&listed, "  ", Style::new())
}

/// Returns the line for a step that --model-only leaves out.
pub(super) fn not_run(step: &LabStep) -> String {
    line(&format!("not run, because it needs the lab: {}", step.title), "  ", style::FAINT)
}

pub(super) fn outcome(step: &LabStep, outcome: &StepOutcome, limit: Option<f64>, is_verbose: bool) -> String {
    let title = format!("{}: {} on {}", step.name, step.title, target::modelled(&outcome.drive));
    let mut text = line(&title, "  ", style::HEADING);
    if is_verbose {
        let host = host(step);
        let differs = step.deviations.iter().map(|deviation| format!("differs: {deviation}"));
        step.notes.clone().into_iter().chain(host).chain(differs).for_each(|line| text += &note(&line));
    }
    text.push('\n');
    if step.variants.is_empty() {
        text += &arms(step, outcome);
    } else {
        text += &ratios(step, outcome);
    }
    if !outcome.compared.is_empty() {
        text.push('\n');
        text += &comparisons(step, outcome, limit);
    }
    if !outcome.readers.is_empty() {
        text.push('\n');
        text += &readers(step, outcome);
    }
    for failure in failures(step, outcome) {
        let _ = writeln!(text, "{}", paint(style::ERROR, &wrap(&failure, "  ")));
    }
    if is_verbose {
        text.push('\n');
        text += &line(&ran(step, outcome), "  ", style::FAINT);
    }
    text
}

fn right_aligned(mut table: Table, columns: usize) -> String {
    right(&mut table, 1..=columns);
    trimmed(&table) + "\n"
}

pub(crate) fn host(step: &LabStep) -> Option<String> {
    let value = |setting: &Setting| format!("{} = {}", setting.key.name(), setting.value);
    let values: Vec<String> = step.host.settings.iter().map(value).collect();
    let preset = step.host.preset.as_deref().unwrap_or("its own values");
    (!values.is_empty()).then(|| {
        let memory = step.memory >> 20;
        format!("host: {preset}: {}; memory {memory} MiB", values.join(", "))
    })
}

pub(crate) fn whose(readers: &Readers) -> String {
    let whose = readers.whose();
    if whose.is_empty() { "none".to_owned() } else { whose.join(", ") }
}

pub(crate) fn place(step: &LabStep, variant: usize, arm: usize) -> String {
    let variant = step.variants.get(variant).map_or(String::new(), |name| format!("{name} "));
    format!("{variant}{}", step.arms[arm].name)
}

/// Returns who read before a write: the kernel, or the drive.
fn readers(step: &LabStep, outcome: &StepOutcome) -> String {
    let mut table = plain_table(&["    READ BEFORE WRITE", "BY KERNEL", "BY DRIVE", "WRITES", "WHOSE"]);
    for readers in &outcome.readers {
        table.add_row(vec![
            format!("    {}", printable(&place(step, readers.variant, readers.arm))),
            format!("{:.0}", readers.kernel),
            format!("{:.0}", readers.drive),
            format!("{:.0}", readers.writes),
            whose(readers),
        ]);
    }
    right_aligned(table, 3)
}

/// Returns every measure's title, and its figures on each arm, then their ratio.
pub(crate) fn figures<'a>(
    step: &'a LabStep,
    outcome: &'a StepOutcome,
) -> impl Iterator<Item = (&'a str, Vec<Option<String>>)> {
    step.measures.iter().enumerate().map(|(index, measure)| {
        let figures = || (0..step.arms.len()).map(|arm| outcome.figure(index, 0, arm));
        let shown = |seconds| format!("{} {}", number(measure.unit.of_seconds(seconds)), measure.unit.unit());
        let ratio = figures().flatten().find_map(|figure| figure.ratio).map(number);
        let cells = figures().map(|figure| figure.map(|figure| shown(figure.seconds)));
        (measure.title.as_str(), cells.chain([ratio]).collect())
    })
}

fn arms(step: &LabStep, outcome: &StepOutcome) -> String {
    let mut header = vec!["    MODELLED".to_owned()];
    header.extend(step.arms.iter().map(|arm| printable(&arm.name).to_uppercase()));
    header.push("RATIO".to_owned());
    let mut table = plain_table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for (title, cells) in figures(step, outcome) {
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(dash));
        table.add_row([format!("    {}", printable(title))].into_iter().chain(cells));
    }
    right_aligned(table, step.arms.len() + 1)
}

/// Returns the ratios of the misaligned arm to the aligned one: one row per variant, one column per measure.
fn ratios(step: &LabStep, outcome: &StepOutcome) -> String {
    let mut text = String::new();
    for (arm, start) in step.arms.iter().enumerate().filter(|(arm, _)| step.aligned() != Some(*arm)) {
        let mut header = vec![format!("    {} OVER ALIGNED", printable(&start.name).to_uppercase())];
        header.extend(step.measures.iter().map(|measure| printable(&measure.title)));
        let mut table = plain_table(&header.iter().map(String::as_str).collect::<Vec<_>>());
        for (variant, name) in step.variants.iter().enumerate() {
            let ratio = |measure| outcome.figure(measure, variant, arm)?.ratio.map(number);
            let ratios = (0..step.measures.len()).map(|measure| ratio(measure).unwrap_or_else(dash));
            table.add_row([format!("    {}", printable(name))].into_iter().chain(ratios));
        }
        let mean = (0..step.measures.len()).map(|measure| mean(step, outcome, measure, arm));
        let mean = mean.map(|mean| mean.map_or_else(dash, number));
        table.add_row(["    mean".to_owned()].into_iter().chain(mean));
        text += &right_aligned(table, step.measures.len());
    }
    text
}

/// Returns the mean of all variants' ratios, if none is missing.
pub(crate) fn mean(step: &LabStep, outcome: &StepOutcome, measure: usize, arm: usize) -> Option<f64> {
    let variants = 0..step.variants().len();
    let count = u32::try_from(variants.len()).ok()?;
    let ratio = |variant| outcome.figure(measure, variant, arm)?.ratio;
    Some(variants.map(ratio).sum::<Option<f64>>()? / f64::from(count))
}

fn comparisons(step: &LabStep, outcome: &StepOutcome, limit: Option<f64>) -> String {
    let mut table =
        plain_table(&["    COMPARED", "MODELLED", "SAMPLING", "PUBLISHED", "ERROR", "FIRMWARE", "", ""]);
    let mut styles = Vec::new();
    for compared in &outcome.compared {
        let unit = compared.unit.map_or("", |unit| unit.unit());
        let value = |value: f64| format!("{} {unit}", number(value)).trim_end().to_owned();
        let (verdict, style) = match limit {
            None => ("", Style::new()),
            Some(limit) if compared.is_within(limit) => ("", style::GOOD),
            Some(limit) => (outside(compared.is_explained(limit)), style::ERROR),
        };
        styles.push(style);
        table.add_row(vec![
            format!("    {}", named(step, compared)),
            compared.ours.map_or_else(dash, value),
            sampling(compared),
            published(compared),
            compared.error().map_or_else(dash, percent),
            compared.band.as_ref().map_or_else(dash, band),
            origin_word(compared.origin).to_owned(),
            verdict.to_owned(),
        ]);
    }
    right(&mut table, 1..=5);
    painted(&table, styles).collect()
}

pub(crate) fn sampling(compared: &Comparison) -> String {
    compared.sampling.map_or_else(dash, |(low, high)| format!("{}..{}", number(low), number(high)))
}

pub(crate) fn published(compared: &Comparison) -> String {
    let unit = compared.unit.map_or("", |unit| unit.unit());
    let range = compared.range.map(|(low, high)| format!("{} to {}", number(low), number(high)));
    let text = match (compared.of, range) {
        (Statistic::Each, Some(range)) => format!("{range} {unit}"),
        (_, Some(range)) => format!("{} {unit} ({range})", number(compared.published)),
        (_, None) => format!("{} {unit}", number(compared.published)),
    };
    text.trim_end().to_owned()
}

/// Names a figure: `extract, mean of all but reiserfs: time over the aligned arm's`.
pub(crate) fn named(step: &LabStep, compared: &Comparison) -> String {
    let variant = |index: Option<usize>| index.and_then(|index| step.variants.get(index));
    let mut parts = vec![step.measures[compared.measure].title.clone()];
    match (variant(compared.variant), variant(compared.without)) {
        (Some(variant), _) => parts.push(variant.clone()),
        (None, _) if step.variants.is_empty() => (),
        (None, without) => {
            let of = match compared.of {
                Statistic::Mean => "mean",
                Statistic::Least => "least",
                Statistic::Greatest => "greatest",
                Statistic::Each => "each",
            };
            parts.push(without.map_or_else(|| of.to_owned(), |without| format!("{of} without {without}")));
        }
    }
    let what = match compared.unit {
        Some(unit) => format!("{}: {}", step.arms[compared.arm].name, measure(unit)),
        None => "ratio".to_owned(),
    };
    printable(&format!("{}, {what}", parts.join(", ")))
}

pub(crate) fn failures(step: &LabStep, outcome: &StepOutcome) -> Vec<String> {
    let sentence = |cell: &Cell| {
        let failure = cell.failure.as_deref().unwrap_or_default();
        printable(&format!("{}, seed {}: {failure}", place(step, cell.variant, cell.arm), cell.seed))
    };
    outcome.failed().map(sentence).collect()
}

pub(crate) fn ran(step: &LabStep, outcome: &StepOutcome) -> String {
    let seconds: f64 = outcome.cells.iter().map(|cell| cell.ended.virtual_seconds).sum();
    let requests: u64 = outcome.cells.iter().map(|cell| cell.ended.requests).sum();
    let guests = plural(outcome.cells.len(), "guest");
    let mut text = format!("{guests}, {} of virtual time, {requests} requests", duration(seconds));
    if let Some(input) = &outcome.input {
        let _ = write!(text, "; {input}");
    }
    if outcome.scale > 1 && step.measures.iter().any(|measure| measure.scaled) {
        let scaled = step.measures.iter().filter(|measure| measure.scaled);
        let titles: Vec<&str> = scaled.map(|measure| measure.title.as_str()).collect();
        let (titles, scale) = (titles.join(", "), outcome.scale);
        let _ = write!(text, "; {titles}: only 1/{scale} was run, and the time was scaled up");
    }
    if let Some(cell) = outcome.cells.first() {
        let _ = write!(text, "; processor time: {}", cell.ended.charges);
    }
    text
}

fn dash() -> String {
    "-".to_owned()
}
