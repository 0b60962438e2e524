//! The lab steps in a page: charts like the article's figures, tables, and what happened inside the drives.

use straddle_cli::output::capitalised;
use straddle_cli::target;
use straddle_cli::view::chart::svg::{Bar, Chart, Group};
use straddle_cli::view::escaped;
use straddle_cli::view::html::{Cell, Table, dash, figure, paragraph};
use straddle_lab::reproduce::experiment::{Direction, LabStep};
use straddle_lab::reproduce::lab::{Comparison, StepOutcome};

use crate::reproduce::html::{COMPARED, Row, compared, modelled};
use crate::reproduce::text::lab::{
    self as text, failures, host, mean, named, place, published, ran, sampling, whose,
};
use straddle_cli::view::text::number;

pub(super) fn step(step: &LabStep, outcome: &StepOutcome, limit: Option<f64>) -> String {
    let mut text =
        format!("<h3>{}, on {}</h3>\n", escaped(&step.title), escaped(&target::modelled(&outcome.drive)));
    if let Some(notes) = &step.notes {
        text += &paragraph(notes, "soft");
    }
    if let Some(host) = host(step) {
        text += &paragraph(&host, "soft");
    }
    for deviation in &step.deviations {
        text += &paragraph(&format!("Differs: {deviation}"), "soft");
    }
    if step.variants.is_empty() {
        text += &compared_chart(step, outcome);
        text += &figures(step, outcome);
    } else {
        text += &variants_chart(step, outcome, Direction::Read, "reads");
        text += &variants_chart(step, outcome, Direction::Write, "writes");
        text += &ratios(step, outcome);
    }
    if !outcome.compared.is_empty() {
        text += &comparisons(step, outcome, limit);
    }
    if !outcome.readers.is_empty() {
        text += &readers(step, outcome);
    }
    for failure in failures(step, outcome) {
        text += &paragraph(&failure, "bad");
    }
    text += &counters(step, outcome);
    text + &paragraph(&format!("{}.", ran(step, outcome)), "soft")
}

/// Returns the published ratio of a measure, and what the plausible policies give for ours.
fn published_ratio(outcome: &StepOutcome, measure: usize, variant: Option<usize>) -> Option<&Comparison> {
    let of = |compared: &&Comparison| {
        compared.unit.is_none() && (compared.measure, compared.variant) == (measure, variant)
    };
    outcome.compared.iter().find(of)
}

fn misaligned(step: &LabStep) -> Option<usize> {
    (0..step.arms.len()).find(|arm| step.aligned() != Some(*arm))
}

/// Draws one bar per variant, grouped by measure, like the article's figures.
fn variants_chart(step: &LabStep, outcome: &StepOutcome, direction: Direction, what: &str) -> String {
    let Some(arm) = misaligned(step) else { return String::new() };
    let measures = step.measures.iter().enumerate().filter(|(_, measure)| measure.direction == direction);
    let groups = measures.map(|(index, measure)| {
        let bar = |variant| Bar {
            published: published_ratio(outcome, index, Some(variant)).map(|it| it.published),
            ..Bar::of(outcome.figure(index, variant, arm).and_then(|figure| figure.ratio))
        };
        Group { label: measure.title.clone(), bars: (0..step.variants.len()).map(bar).collect() }
    });
    figure(&Chart {
        title: format!("{}, {what}: time {} relative to aligned", outcome.drive, step.arms[arm].name),
        axis: format!("Time {} / time aligned (1: no loss)", step.arms[arm].name),
        series: step.variants.clone(),
        groups: groups.collect(),
        is_of_ratios: true,
        ..Chart::default()
    })
}

fn compared_chart(step: &LabStep, outcome: &StepOutcome) -> String {
    let Some(arm) = misaligned(step) else { return String::new() };
    let groups = step.measures.iter().enumerate().map(|(index, measure)| {
        let ours = outcome.figure(index, 0, arm).and_then(|figure| figure.ratio);
        let published = published_ratio(outcome, index, None);
        let ours = modelled(ours, published.and_then(|it| it.band.as_ref()));
        Group { label: measure.title.clone(), bars: vec![ours, Bar::of(published.map(|it| it.published))] }
    });
    figure(&Chart {
        title: format!("{}: {} relative to aligned, modelled and published", step.title, step.arms[arm].name),
        axis: format!("{} / aligned (1: no loss)", capitalised(&step.arms[arm].name)),
        ..compared(groups.collect())
    })
}

fn figures(step: &LabStep, outcome: &StepOutcome) -> String {
    let mut headings = vec!["measured"];
    headings.extend(step.arms.iter().map(|arm| arm.name.as_str()));
    headings.push("ratio");
    let mut table = Table::new("Modelled", &headings);
    for (title, cells) in text::figures(step, outcome) {
        table.row(title, cells.into_iter().map(|cell| Cell::plain(cell.unwrap_or_else(dash))).collect());
    }
    table.html()
}

/// Returns tables of the ratios by variant, with the times that they compare.
fn ratios(step: &LabStep, outcome: &StepOutcome) -> String {
    let mut text = String::new();
    let mut headings = vec![""];
    headings.extend(step.measures.iter().map(|measure| measure.title.as_str()));
    for (arm, start) in step.arms.iter().enumerate() {
        let aligned = step.aligned() == Some(arm);
        let caption = if aligned {
            format!("Seconds {} (aligned)", start.name)
        } else {
            format!("Times {} relative to aligned; seconds in brackets", start.name)
        };
        let mut table = Table::new(&caption, &headings);
        for (variant, name) in step.variants.iter().enumerate() {
            let cell = |measure| {
                let Some(figure) = outcome.figure(measure, variant, arm) else { return dash() };
                match figure.ratio {
                    Some(ratio) => format!("{} ({})", number(ratio), number(figure.seconds)),
                    None => number(figure.seconds),
                }
            };
            table.row(name, (0..step.measures.len()).map(cell).map(Cell::plain).collect());
        }
        if !aligned {
            let mean = |measure| mean(step, outcome, measure, arm).map_or_else(dash, number);
            table.row("mean", (0..step.measures.len()).map(mean).map(Cell::plain).collect());
        }
        text += &table.html();
    }
    text
}

fn comparisons(step: &LabStep, outcome: &StepOutcome, limit: Option<f64>) -> String {
    let mut table = Table::new("Modelled and published", &[&COMPARED[..], &["note"]].concat());
    for compared in &outcome.compared {
        let unit = compared.unit.map_or("", |unit| unit.unit());
        let value = |value: f64| format!("{} {unit}", number(value)).trim_end().to_owned();
        let row = Row {
            modelled: compared.ours.map_or_else(dash, value),
            sampling: sampling(compared),
            published: published(compared),
            error: compared.error(),
            limit,
            band: compared.band.as_ref(),
            value: Some(compared.published),
            origin: compared.origin,
        };
        let mut cells = row.cells();
        cells.push(Cell::of_class("text", compared.note.clone().unwrap_or_default()));
        table.row(&named(step, compared), cells);
    }
    table.html()
}

fn readers(step: &LabStep, outcome: &StepOutcome) -> String {
    let headings = ["", "kernel reads", "kernel writes", "sectors read by the drive", "whose"];
    let mut table = Table::new("Read before write", &headings);
    for readers in &outcome.readers {
        let counts = [readers.kernel, readers.writes, readers.drive].map(|count| format!("{count:.0}"));
        let cells = counts.into_iter().chain([whose(readers)]).map(Cell::plain).collect();
        table.row(&place(step, readers.variant, readers.arm), cells);
    }
    table.html()
}

fn counters(step: &LabStep, outcome: &StepOutcome) -> String {
    let headings = [
        "guest",
        "seed",
        "requests",
        "MB read",
        "MB written",
        "flushes",
        "read-modify-writes",
        "seeks",
        "revolutions waited",
        "virtual s",
        "wall s",
    ];
    let mut table = Table::new("Inside the drives", &headings);
    let megabytes = |bytes: u64| (bytes / 1_000_000).to_string();
    for cell in &outcome.cells {
        let variant = step.variants.get(cell.variant).map_or(String::new(), |variant| format!("{variant}, "));
        let ended = &cell.ended;
        let mut row = vec![cell.seed.to_string(), ended.requests.to_string()];
        row.extend(ended.counters.first().into_iter().flat_map(|counters| {
            [
                megabytes(counters.host_read_bytes),
                megabytes(counters.host_write_bytes),
                counters.host_flushes.to_string(),
                counters.rmw_reads.to_string(),
                counters.seeks.to_string(),
                format!("{:.0}", counters.revolutions_waited()),
            ]
        }));
        row.extend([format!("{:.1}", ended.virtual_seconds), format!("{:.1}", ended.wall_seconds)]);
        let heading = format!("{variant}{}", step.arms[cell.arm].name);
        table.row(&heading, row.into_iter().map(Cell::plain).collect());
    }
    format!("<details><summary>Inside the drives, by guest</summary>\n{}</details>\n", table.html())
}
