//! The pages of `reproduce --html`, `report --html` and `trace --html`: each a single file that needs no network.

pub(crate) mod fleet;
mod lab;
#[cfg(test)]
mod tests;
pub(crate) mod trace;

use std::fmt::Write;

use straddle_reproduce::experiment::{Experiment, Outcome, Source, StepOutcome};
use straddle_reproduce::policy::Band;

use crate::output::plural;
use crate::target;
use crate::view::chart::groups::{self, Bar, Chart, Group};
use crate::view::json::reproduce::{Reproduced, ReproducedExperiment, fitted};
use crate::view::markup::{GENERATOR, escaped};
use crate::view::text::reproduce::{band, measure, misses};
use crate::view::text::{duration, number, percent};

const STYLE: &str = include_str!("html/style.css");

/// Returns the whole page.
pub(crate) fn page(reproduced: &Reproduced) -> String {
    let names: Vec<&str> =
        reproduced.experiments.iter().map(|reproduced| reproduced.experiment.name.as_str()).collect();
    let mut text = summary(reproduced);
    for experiment in &reproduced.experiments {
        text += &section(experiment);
    }
    document(&format!("Reproduced: {}", names.join(", ")), "", &(text + &again(reproduced)))
}

/// Returns a page of these contents. `style` is added to the style of all pages.
fn document(title: &str, style: &str, contents: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         {GENERATOR}\n<title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {contents}</main>\n</body>\n</html>\n"
    )
}

fn paragraph(text: &str, class: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("<p class=\"{class}\">{}</p>\n", escaped(&text))
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

/// Returns a chart with its caption; nothing if there is nothing to draw.
fn figure(chart: &Chart<'_>) -> String {
    if !chart.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.value.is_some()) {
        return String::new();
    }
    format!("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escaped(chart.title), groups::svg(chart))
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
        let fitted: Vec<String> =
            fitted(profile).map(|(path, value, source)| format!("{path} = {value} ({source})")).collect();
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

/// A table with a heading for each column and each row.
struct Table {
    html: String,
    headings: Vec<String>,
}

/// The contents of a table cell, and its CSS class.
struct Cell {
    text: String,
    class: &'static str,
    /// A share to draw below the text.
    share: Option<f64>,
}

impl Cell {
    fn plain(text: String) -> Self {
        Self::of_class("", text)
    }

    fn of_class(class: &'static str, text: String) -> Self {
        Self { text, class, share: None }
    }

    /// Returns the cell for an error, marked as within the limit or not.
    fn error(error: Option<f64>, limit: Option<f64>) -> Self {
        let class = match error.zip(limit) {
            Some((error, limit)) if error.abs() <= limit => "good",
            Some(_) => "bad",
            None => "",
        };
        Self::of_class(class, error.map_or_else(dash, percent))
    }
}

impl Table {
    fn new(caption: &str, headings: &[&str]) -> Self {
        Self::with("", caption, headings)
    }

    /// Begins a table with these attributes, each after a space.
    fn with(attributes: &str, caption: &str, headings: &[&str]) -> Self {
        let headings: Vec<String> = headings.iter().map(|heading| capitalised(heading)).collect();
        let cells: String =
            headings.iter().map(|heading| format!("<th scope=\"col\">{}</th>", escaped(heading))).collect();
        let caption = escaped(caption);
        let html = format!(
            "<div class=\"scroll\"><table{attributes}>\n<caption>{caption}</caption>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n"
        );
        Self { html, headings }
    }

    fn row(&mut self, heading: &str, cells: Vec<Cell>) {
        self.row_of_class("", heading, cells);
    }

    fn row_of_class(&mut self, class: &str, heading: &str, cells: Vec<Cell>) {
        let _ = write!(self.html, "<tr class=\"{class}\"><th scope=\"row\">{}</th>", escaped(heading));
        let headings = self.headings.iter().skip(1).map(|heading| escaped(heading));
        for (Cell { text, class, share }, heading) in cells.into_iter().zip(headings) {
            let style = share.map(|share| format!(" style=\"--share:{share:.4}\"")).unwrap_or_default();
            // On a phone a row is a card, and each cell has its heading beside it, unless it is empty.
            let class = if text == dash() { "none" } else { class };
            let _ = write!(
                self.html,
                "<td class=\"{class}\" data-heading=\"{heading}\"{style}>{}</td>",
                escaped(&text)
            );
        }
        self.html += "</tr>\n";
    }

    fn html(self) -> String {
        self.html + "</tbody>\n</table></div>\n"
    }
}

/// Returns a heading as such.
fn capitalised(heading: &str) -> String {
    let mut letters = heading.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn dash() -> String {
    "–".to_owned()
}
