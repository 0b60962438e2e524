//! The page of `reproduce --html`: charts like the articles' figures, and the text of `--verbose`.

#[cfg(test)]
mod tests;

use straddle_cli::output::{capitalised, screened};
use straddle_cli::view::chart::svg::{Bar, Chart, Group};
use straddle_cli::view::escaped;
use straddle_cli::view::html::{document, figure};
use straddle_lab::reproduce::experiment::{Direction, Experiment, LabStep, Outcome};
use straddle_lab::reproduce::lab::{Comparison, StepOutcome};
use straddle_lab::reproduce::policy::Band;

use crate::reproduce::json::{Reproduced, ReproducedExperiment};
use crate::reproduce::text;

pub(crate) fn page(reproduced: &Reproduced) -> String {
    let names: Vec<&str> =
        reproduced.experiments.iter().map(|reproduced| reproduced.experiment.name.as_str()).collect();
    let sections: String = reproduced.experiments.iter().map(section).collect();
    let contents = format!(
        "{}{sections}<section>\n<h2 id=\"again\">How to repeat this run</h2>\n{}</section>\n",
        preformatted(&text::summary(reproduced)),
        preformatted(&reproduced.command)
    );
    document(&format!("Reproduced: {}", names.join(", ")), "", &contents)
}

fn preformatted(text: &str) -> String {
    format!("<pre>{}</pre>\n", escaped(screened(text, false).trim_end()))
}

fn section(reproduced: &ReproducedExperiment) -> String {
    let experiment = &reproduced.experiment;
    let (name, title) = (escaped(&experiment.name), escaped(&experiment.title));
    let mut html = format!("<section>\n<h2 id=\"{name}\">{title} <code>{name}</code></h2>\n");
    if let Some(outcome) = &reproduced.outcome {
        html += &figure(&model_chart(experiment, outcome));
    }
    for (step, outcome) in reproduced.lab_steps() {
        let charts = match step.variants.is_empty() {
            true => vec![compared_chart(step, outcome)],
            false => {
                let directions = [(Direction::Read, "reads"), (Direction::Write, "writes")];
                directions.map(|(direction, what)| variants_chart(step, outcome, direction, what)).into()
            }
        };
        charts.iter().flatten().for_each(|chart| html += &figure(chart));
    }
    html + &preformatted(&text::outcome(reproduced, true)) + "</section>\n"
}

fn model_chart(experiment: &Experiment, outcome: &Outcome) -> Chart {
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
    Chart {
        title: format!("{}: misaligned relative to aligned, modelled and published", experiment.name),
        axis: "Misaligned / aligned (1: no loss)".to_owned(),
        ..compared(groups)
    }
}

fn compared(groups: Vec<Group>) -> Chart {
    let series = ["modelled", "published"].map(str::to_owned).into();
    Chart { series, groups, interval: "range over firmware", is_of_ratios: true, ..Chart::default() }
}

fn modelled(value: Option<f64>, band: Option<&Band>) -> Bar {
    let band = band.filter(|band| !band.is_point());
    Bar { interval: band.map(|band| (band.lowest(), band.highest())), ..Bar::of(value) }
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
fn variants_chart(step: &LabStep, outcome: &StepOutcome, direction: Direction, what: &str) -> Option<Chart> {
    let arm = misaligned(step)?;
    let measures = step.measures.iter().enumerate().filter(|(_, measure)| measure.direction == direction);
    let groups = measures.map(|(index, measure)| {
        let bar = |variant| Bar {
            published: published_ratio(outcome, index, Some(variant)).map(|it| it.published),
            ..Bar::of(outcome.figure(index, variant, arm).and_then(|figure| figure.ratio))
        };
        Group { label: measure.title.clone(), bars: (0..step.variants.len()).map(bar).collect() }
    });
    Some(Chart {
        title: format!("{}, {what}: time {} relative to aligned", outcome.drive, step.arms[arm].name),
        axis: format!("Time {} / time aligned (1: no loss)", step.arms[arm].name),
        series: step.variants.clone(),
        groups: groups.collect(),
        is_of_ratios: true,
        ..Chart::default()
    })
}

fn compared_chart(step: &LabStep, outcome: &StepOutcome) -> Option<Chart> {
    let arm = misaligned(step)?;
    let groups = step.measures.iter().enumerate().map(|(index, measure)| {
        let ours = outcome.figure(index, 0, arm).and_then(|figure| figure.ratio);
        let published = published_ratio(outcome, index, None);
        let ours = modelled(ours, published.and_then(|it| it.band.as_ref()));
        Group { label: measure.title.clone(), bars: vec![ours, Bar::of(published.map(|it| it.published))] }
    });
    Some(Chart {
        title: format!("{}: {} relative to aligned, modelled and published", step.title, step.arms[arm].name),
        axis: format!("{} / aligned (1: no loss)", capitalised(&step.arms[arm].name)),
        ..compared(groups.collect())
    })
}
