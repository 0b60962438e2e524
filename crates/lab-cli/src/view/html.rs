//! The page of `reproduce --html`.

mod lab;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use straddle_cli::view::chart::groups::{Bar, Chart, Group};
use straddle_cli::view::html::{Cell, Table, dash, document, figure, paragraph};
use straddle_cli::view::markup::escaped;
use straddle_lab::reproduce::experiment::{Experiment, Outcome, Source, StepOutcome};
use straddle_lab::reproduce::policy::Band;

use crate::output::plural;
use crate::target;
use crate::view::json::reproduce::{Reproduced, ReproducedExperiment, fitted};
use crate::view::text::reproduce::{band, measure, misses};
use crate::view::text::{duration, number};

pub(crate) fn page(reproduced: &Reproduced) -> String {
    let names: Vec<&str> =
        reproduced.experiments.iter().map(|reproduced| reproduced.experiment.name.as_str()).collect();
    let mut text = summary(reproduced);
    for experiment in &reproduced.experiments {
        text += &section(experiment);
    }
    document(&format!("Reproduced: {}", names.join(", ")), "", &(text + &again(reproduced)))
}

fn summary(reproduced: &Reproduced) -> String {
    let (judged, within) = reproduced.verdict();
    let tally = reproduced.tally();
    let verdict = match judged {
        0 => "There are no published figures to compare with.".to_owned(),
        _ => format!(
            "{within} of {judged} published figures and ratios are within the limits of their experiments."
        ),
    };
    let text = format!(
        "{verdict} {} requests, {} of virtual time on modelled drives, took {} here.",
        tally.requests,
        duration(tally.seconds),
        duration(reproduced.wall.as_secs_f64())
    );
    paragraph(&text, "")
}

fn section(reproduced: &ReproducedExperiment) -> String {
    let experiment = &reproduced.experiment;
    let (name, title) = (escaped(&experiment.name), escaped(&experiment.title));
    let mut text = format!("<section>\n<h2 id=\"{name}\">{title} <code>{name}</code></h2>\n");
    for source in &experiment.sources {
        text += &published(source);
    }
    if let Some(notes) = &experiment.notes {
        text += &paragraph(notes, "");
    }
    if !reproduced.judged {
        text += &paragraph(
            "Run on another drive than those that were published of, so nothing is judged.",
            "soft",
        );
    }
    if let Some(outcome) = reproduced.outcome.as_ref().filter(|outcome| !outcome.steps.is_empty()) {
        text += "<h3>On the modelled drive alone</h3>\n";
        text += &model_chart(experiment, outcome);
        text += &model_table(experiment, outcome, reproduced.limit());
        text += &model_drives(outcome);
    }
    for (step, outcome) in reproduced.lab_steps() {
        text += &lab::step(step, outcome, reproduced.limit());
    }
    text + "</section>\n"
}

fn published(source: &Source) -> String {
    let Source { author, year, title, address } = source;
    let author = author.as_deref().map_or(String::new(), |author| format!("{author}, "));
    let title = escaped(title);
    // Only an `https://` address becomes a link.
    let title = match address.as_deref().filter(|address| address.starts_with("https://")) {
        Some(address) => format!("<a href=\"{}\">{title}</a>", escaped(address)),
        None => title,
    };
    format!("<p class=\"soft\">Published: {}{year}: {title}</p>\n", escaped(&author))
}

/// Draws the ratios of the arms, ours and the published ones.
fn model_chart(experiment: &Experiment, outcome: &Outcome) -> String {
    let mut groups = Vec::new();
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            let first = outcome.figures.first().and_then(|figure| figure.ratio);
            if let Some((ours, published)) = first {
                let bars = [Some(ours), published].map(|value| Bar { value, published: None });
                groups.push((format!("{}, {}", step.name, arm.name), bars));
            }
        }
    }
    let groups: Vec<Group<'_>> =
        groups.iter().map(|(label, bars)| Group { label, bars: bars.to_vec() }).collect();
    let title = format!("{}: misaligned over aligned, modelled and published", experiment.name);
    let axis = "Misaligned / aligned (1: no loss)";
    figure(&Chart { title: &title, axis, series: vec!["modelled", "published"], groups })
}

fn model_table(experiment: &Experiment, outcome: &Outcome, limit: Option<f64>) -> String {
    let mut table = Table::new(
        "Figures and their ratios to the aligned arm's",
        &[
            "arm",
            "measure",
            "modelled",
            "published",
            "error",
            "band",
            "ratio",
            "published ratio",
            "error of ratio",
            "band of ratio",
            "nearest policy",
        ],
    );
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            for figure in &outcome.figures {
                let unit = figure.measure.unit();
                let cell = |value: Option<f64>| Cell::plain(value.map_or_else(dash, number));
                let error = |error: Option<f64>| Cell::error(error, limit);
                table.row(
                    &format!("{}: {}", step.title, arm.name),
                    vec![
                        Cell::plain(measure(figure.measure).to_owned()),
                        Cell::plain(format!("{} {unit}", number(figure.modelled))),
                        Cell::plain(
                            figure
                                .published
                                .as_ref()
                                .map_or_else(dash, |published| format!("{} {unit}", number(published.value))),
                        ),
                        error(figure.error()),
                        Cell::plain(figure.band.as_ref().map_or_else(dash, band)),
                        cell(figure.ratio.map(|(ours, _)| ours)),
                        cell(figure.ratio.and_then(|(_, published)| published)),
                        error(figure.ratio_error()),
                        Cell::plain(figure.ratio_band.as_ref().map_or_else(dash, band)),
                        Cell::plain(
                            figure.published.as_ref().map_or_else(dash, |published| {
                                nearest(figure.band.as_ref(), published.value)
                            }),
                        ),
                    ],
                );
            }
        }
    }
    table.html()
}

/// Names the policy whose figure is nearest to the published one, unless they are all the same.
fn nearest(band: Option<&Band>, published: f64) -> String {
    let policy = band.filter(|band| !band.is_point()).and_then(|band| band.nearest(published));
    policy.map_or_else(dash, |policy| policy.name().to_owned())
}

/// Describes the modelled drives, and which of their numbers were fitted.
fn model_drives(outcome: &Outcome) -> String {
    let mut lines: Vec<String> = Vec::new();
    for StepOutcome { drive, profile, .. } in &outcome.steps {
        let fitted: Vec<String> = fitted(profile).map(|fitted| fitted.to_string()).collect();
        let fitted = if fitted.is_empty() { "no number fitted".to_owned() } else { fitted.join(", ") };
        let line = format!("{}: {}; {fitted}.", target::modelled(drive), profile.title);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.iter().map(|line| paragraph(line, "soft")).collect()
}

fn again(reproduced: &Reproduced) -> String {
    let settings = reproduced.way.settings;
    let mut text = "<section>\n<h2 id=\"again\">How to run it again</h2>\n".to_owned();
    let _ = writeln!(text, "<pre>{}</pre>", escaped(&reproduced.way.command));
    text += &paragraph(
        &format!(
            "straddle {}. Each part of the lab was run {}, with seeds from {} on; {} at once. The same seed gives the \
             same requests on one machine. The guests are User-Mode Linux, their clock is virtual: it moves with the modelled \
             drives, and by the fixed charges for processor time that are given with each part.",
            env!("CARGO_PKG_VERSION"),
            match settings.runs {
                None => "as often as its experiment says".to_owned(),
                Some(1) => "once".to_owned(),
                Some(runs) => format!("{runs} times"),
            },
            settings.seed,
            plural(settings.guests.get(), "guest"),
        ),
        "",
    );
    let misses = misses(reproduced);
    if !misses.is_empty() {
        text += "<h3>Outside their limits</h3>\n<ul>\n";
        misses.iter().for_each(|miss| {
            let _ = writeln!(text, "<li>{}</li>", escaped(miss));
        });
        text += "</ul>\n";
    }
    text + "</section>\n"
}
