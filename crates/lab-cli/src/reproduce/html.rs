//! The page of `reproduce --html`.

mod lab;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use straddle_cli::view::chart::svg::{Bar, Chart, Group};
use straddle_cli::view::escaped;
use straddle_cli::view::html::{Cell, Table, dash, document, figure, paragraph};
use straddle_lab::reproduce::experiment::{Experiment, Outcome, Source, StepOutcome};
use straddle_lab::reproduce::joint::{Joint, Origin, origin as origin_of};
use straddle_lab::reproduce::policy::Band;

use crate::reproduce::json::{Fitted, Reproduced, ReproducedExperiment, fitted};
use crate::reproduce::text::{
    band as text_of_band, found, is_lab_left_out, joint, measure, misses, nothing_compared, origin_word,
};
use straddle_cli::output::plural;
use straddle_cli::target;
use straddle_cli::view::text::{duration, number};

pub(crate) fn page(reproduced: &Reproduced) -> String {
    let names: Vec<&str> =
        reproduced.experiments.iter().map(|reproduced| reproduced.experiment.name.as_str()).collect();
    let mut text = summary(reproduced);
    for experiment in &reproduced.experiments {
        text += &section(experiment);
    }
    text += &joint_table(&reproduced.judged.joints);
    document(&format!("Reproduced: {}", names.join(", ")), "", &(text + &again(reproduced)))
}

fn summary(reproduced: &Reproduced) -> String {
    let (judged, within) = reproduced.verdict();
    let tally = reproduced.tally();
    let verdict = match judged {
        0 => nothing_compared(reproduced.experiments.iter().any(is_lab_left_out)),
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
    let about = joint::about(&reproduced.judged).join(" ");
    paragraph(&text, "") + &paragraph(&about, "")
}

/// Returns how each policy suits each drive, if more than one was run.
fn joint_table(joints: &[Joint]) -> String {
    let headings = ["drive", "policy", "figures", "within 20 %", "within 25 %", "worst", "which"];
    let mut table = Table::new("Each policy on all figures of a drive", &headings);
    for joint in joints.iter().filter(|joint| joint.policies.len() > 1) {
        for score in &joint.policies {
            table.row(&joint.drive, joint::cells(joint, score).into_iter().map(Cell::plain).collect());
        }
    }
    let html = table.html();
    if html.is_empty() { html } else { html + &paragraph(joint::RULE, "soft") }
}

fn section(reproduced: &ReproducedExperiment) -> String {
    let experiment = &reproduced.experiment;
    let (name, title) = (escaped(&experiment.name), escaped(&experiment.title));
    let mut text = format!("<section>\n<h2 id=\"{name}\">{title} <code>{name}</code></h2>\n");
    for source in &experiment.sources {
        text += &published(source);
    }
    if let Some(found) = found(reproduced) {
        text += &paragraph(&found, "");
    }
    if let Some(notes) = &experiment.notes {
        text += &paragraph(notes, "");
    }
    if !reproduced.judged {
        text +=
            &paragraph("Run on a drive without published figures, so there is nothing to compare.", "soft");
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

fn model_chart(experiment: &Experiment, outcome: &Outcome) -> String {
    let mut groups = Vec::new();
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            let ratio = outcome.figures.first().and_then(|figure| figure.ratio.as_ref());
            if let Some(ratio) = ratio {
                let bars =
                    vec![modelled(Some(ratio.modelled), ratio.band.as_ref()), Bar::of(ratio.published)];
                groups.push(Group { label: format!("{}, {}", step.name, arm.name), bars });
            }
        }
    }
    figure(&Chart {
        title: format!("{}: misaligned relative to aligned, modelled and published", experiment.name),
        axis: "Misaligned / aligned (1: no loss)".to_owned(),
        ..compared(groups)
    })
}

fn compared(groups: Vec<Group>) -> Chart {
    let series = ["modelled", "published"].map(str::to_owned).into();
    Chart { series, groups, interval: "range over firmware", is_of_ratios: true, ..Chart::default() }
}

fn modelled(value: Option<f64>, band: Option<&Band>) -> Bar {
    let band = band.filter(|band| !band.is_point());
    Bar { interval: band.map(|band| (band.lowest(), band.highest())), ..Bar::of(value) }
}

/// The headings above [`Row::cells`].
const COMPARED: [&str; 8] = [
    "figure",
    "modelled",
    "sampling",
    "published",
    "error",
    "range over firmware",
    "nearest policy",
    "origin",
];

struct Row<'a> {
    modelled: String,
    /// The range over runs that differ only in their seeds.
    sampling: String,
    published: String,
    error: Option<f64>,
    limit: Option<f64>,
    band: Option<&'a Band>,
    value: Option<f64>,
    origin: Option<Origin>,
}

impl Row<'_> {
    fn cells(self) -> Vec<Cell> {
        let policy = self.band.filter(|band| !band.is_point()).zip(self.value);
        let policy = policy.and_then(|(band, published)| band.nearest(published));
        let [modelled, sampling, published] = [self.modelled, self.sampling, self.published].map(Cell::plain);
        vec![
            modelled,
            sampling,
            published,
            Cell::error(self.error, self.limit),
            Cell::plain(self.band.map_or_else(dash, text_of_band)),
            Cell::plain(policy.map_or_else(dash, |policy| policy.name().to_owned())),
            Cell::plain(origin_word(self.origin)),
        ]
    }
}

fn model_table(experiment: &Experiment, outcome: &Outcome, limit: Option<f64>) -> String {
    let mut table = Table::new("Figures, and their ratios to aligned", &COMPARED);
    for (step, outcome) in experiment.steps.iter().zip(&outcome.steps) {
        let origin = limit.map(|_| origin_of(&outcome.profile, experiment));
        for (arm, outcome) in step.arms.iter().zip(&outcome.arms) {
            let heading = format!("{}: {}", step.title, arm.name);
            for figure in &outcome.figures {
                let what = measure(figure.measure);
                let pairs = [
                    (what.to_owned(), figure.measure.unit(), Some(&figure.figure)),
                    (format!("ratio of {what}"), "", figure.ratio.as_ref()),
                ];
                for (what, unit, pair) in pairs {
                    let Some(pair) = pair else { continue };
                    let shown = |value: f64| format!("{} {unit}", number(value)).trim_end().to_owned();
                    let row = Row {
                        modelled: shown(pair.modelled),
                        sampling: dash(),
                        published: pair.published.map_or_else(dash, shown),
                        error: pair.error(),
                        limit,
                        band: pair.band.as_ref(),
                        value: pair.published,
                        origin: pair.published.and(origin),
                    };
                    table.row(&format!("{heading}, {what}"), row.cells());
                }
            }
        }
    }
    let deviations = experiment.steps.iter().flat_map(|step| &step.deviations);
    let deviations: String =
        deviations.map(|deviation| paragraph(&format!("Differs: {deviation}"), "soft")).collect();
    table.html() + &deviations
}

fn model_drives(outcome: &Outcome) -> String {
    let (mut text, mut seen) = (String::new(), Vec::new());
    let mut table = Table::new("Fitted numbers of the drives", &["drive", "number", "value", "source"]);
    for StepOutcome { drive, profile, .. } in &outcome.steps {
        if seen.contains(&drive) {
            continue;
        }
        seen.push(drive);
        let is_fitted = fitted(profile).next().is_some();
        let none = if is_fitted { "" } else { "; no number fitted" };
        text += &paragraph(&format!("{}: {}{none}.", target::modelled(drive), profile.title), "soft");
        for Fitted { path, value, source } in fitted(profile) {
            let cells =
                vec![Cell::of_class("text", path), Cell::plain(value), Cell::of_class("text", source)];
            table.row(&target::modelled(drive), cells);
        }
    }
    text + &table.html()
}

fn again(reproduced: &Reproduced) -> String {
    let settings = reproduced.way.settings;
    let mut text = "<section>\n<h2 id=\"again\">How to repeat this run</h2>\n".to_owned();
    let _ = writeln!(text, "<pre>{}</pre>", escaped(&reproduced.way.command));
    let lab = format!(
        "Each part of the lab was run {}, with seeds from {} on, {} at a time. On one machine, the same \
         seed gives the same requests. The guests run User-Mode Linux with a virtual clock, which advances \
         with the modelled drives and by the processor charges listed with each part.",
        match settings.runs {
            None => "as often as its experiment requires".to_owned(),
            Some(1) => "once".to_owned(),
            Some(runs) => format!("{runs} times"),
        },
        settings.seed,
        plural(settings.guests.get(), "guest"),
    );
    if reproduced.experiments.iter().any(|experiment| experiment.lab_steps().next().is_some()) {
        text += &paragraph(&lab, "");
    }
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
