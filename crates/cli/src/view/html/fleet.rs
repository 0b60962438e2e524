//! The page of `report --html`: the audits of many hosts.

use std::fmt::Write;

use straddle_audit::examine::CostSource;

use super::{Cell, Table, capitalised, dash, document, paragraph};
use crate::fleet::{Detail, Digest, Fix, Tally};
use crate::output::plural;
use crate::view::markup::escaped;
use crate::view::text::fleet::sentences;
use crate::view::text::number;

const STYLE: &str = include_str!("fleet.css");
const SCRIPT: &str = include_str!("sort.js");

/// What could not be read, of which the names are shown.
const NAMED: usize = 50;

/// The colour class of each part of the bar, by name.
const COLOURS: [(&str, &str); 7] = [
    ("misaligned, errors", "error"),
    ("misaligned, warnings", "warning"),
    ("aligned, other findings", "other"),
    ("aligned", "aligned"),
    ("blank", "blank"),
    ("not judged", "unjudged"),
    ("failed", "failed"),
];

pub(crate) fn page(digest: &Digest<'_>) -> String {
    let title = format!("Sector alignment of {}", plural(digest.hosts.len(), "host"));
    let mut text = String::new();
    let sentences = sentences(digest);
    for (index, sentence) in sentences.iter().enumerate() {
        text += &paragraph(sentence, if index == 0 { "lead" } else { "soft" });
    }
    text += &strip(&digest.tally);
    text += &skipped(digest);
    if digest.costs.iter().any(|row| row.by.source == CostSource::Modelled) {
        let modelled = "Modelled means computed with a model of that drive (straddle check --cost drive:NAME), not measured \
                        on these hosts.";
        text += &paragraph(modelled, "soft");
    }
    text += &disks(digest);
    text += &hosts(digest);
    text += &models(digest);
    text += &rules(digest);
    let _ = writeln!(text, "<script>\n{SCRIPT}</script>");
    document(&title, STYLE, &text)
}

/// Draws the disks as one bar, with a legend of the parts that there are.
fn strip(tally: &Tally) -> String {
    let (mut bar, mut legend, mut label) = (String::new(), String::new(), Vec::new());
    for (name, count) in tally.parts() {
        let class = COLOURS.iter().find(|(of, _)| *of == name).map_or("", |(_, class)| class);
        let _ = write!(bar, "<span class=\"{class}\" style=\"flex-grow:{count}\"></span>");
        let _ = write!(legend, "<li><i class=\"{class}\"></i>{name}: {count}</li>");
        label.push(format!("{name}: {count}"));
    }
    let label = label.join("; ");
    format!(
        "<figure><figcaption>Disks by what their audits say</figcaption>\n\
         <div class=\"strip\" role=\"img\" aria-label=\"{label}\">{bar}</div>\n<ul class=\"legend\">{legend}</ul></figure>\n"
    )
}

fn skipped(digest: &Digest<'_>) -> String {
    let skipped = digest.skipped;
    if skipped.is_empty() {
        return String::new();
    }
    let mut text =
        format!("<details><summary>Left out: {}</summary>\n<ul>\n", plural(skipped.len(), "input"));
    for one in skipped.iter().take(NAMED) {
        let _ = writeln!(text, "<li>{}: {}</li>", escaped(&one.name), escaped(&one.why));
    }
    if skipped.len() > NAMED {
        let _ = writeln!(text, "<li>and {} more</li>", skipped.len() - NAMED);
    }
    text + "</ul>\n</details>\n"
}

/// Lists the disks that need attention, with the next step for each.
fn disks(digest: &Digest<'_>) -> String {
    let headings = ["host", "disk", "model", "findings", "write time", "next step"];
    let caption = "Disks with errors or warnings, and those that could not be judged, the worst host first";
    let mut table = sortable("disks", caption, &headings);
    for (host, disk) in digest.hosts.iter().flat_map(|row| row.details.iter().map(|disk| (row.host, disk))) {
        let cells = vec![
            Cell::of_class("text", disk.disk),
            Cell::of_class("text", disk.model),
            Cell::html("text", found(disk)),
            times(disk.cost),
            Cell::html("text", next_step(disk)),
        ];
        table.row(host, cells);
    }
    table.section("What to do")
}

/// Returns the findings of a disk, or why it could not be judged.
fn found(disk: &Detail<'_>) -> String {
    if let Some(why) = disk.unjudged {
        return escaped(why);
    }
    if disk.findings.is_empty() {
        return "with another disk, where the finding is listed".to_owned();
    }
    let each = |(code, title, partitions): &(&str, &str, Vec<u32>)| {
        let numbers: Vec<String> = partitions.iter().map(u32::to_string).collect();
        let on = match numbers.len() {
            0 => String::new(),
            1 => format!(" (partition {})", numbers.concat()),
            _ => format!(" (partitions {})", numbers.join(", ")),
        };
        format!("{} {}{on}", linked(code), escaped(title))
    };
    disk.findings.iter().map(each).collect::<Vec<_>>().join("<br>")
}

/// Returns the fix of the most severe finding: what it does, what comes before it, and its commands.
fn next_step(disk: &Detail<'_>) -> String {
    let Some(Fix { summary, commands, risk, caution }) = disk.fix else {
        let step = match disk.unjudged {
            Some(_) => "Correct that, and audit it again",
            None => "See the rule",
        };
        return step.to_owned();
    };
    let warning = risk.and_then(|risk| risk.warning()).filter(|_| !commands.is_empty());
    let before: Vec<&str> = warning.into_iter().chain(caution.as_deref()).collect();
    let mut text = escaped(&capitalised(summary));
    if !before.is_empty() {
        let _ = write!(text, "<br><b>{}</b>", escaped(&capitalised(&before.join("; "))));
    }
    if !commands.is_empty() {
        let lines: Vec<String> = commands.iter().map(|command| escaped(&command.line)).collect();
        let _ = write!(text, "<pre>{}</pre>", lines.join("\n"));
    }
    text
}

/// Returns the code of a rule as a link to its explanation, if this version has the rule.
fn linked(code: &str) -> String {
    match straddle_audit::rule(code) {
        Some(_) => format!("<a href=\"#{code}\">{code}</a>"),
        None => escaped(code),
    }
}

fn models(digest: &Digest<'_>) -> String {
    let headings =
        ["model", "disks", "misaligned", "other findings", "aligned", "errors", "warnings", "advice"];
    let mut table = sortable("models", "Disks by model", &headings);
    for row in &digest.models {
        let tally = &row.tally;
        let mut cells = vec![count(tally.disks), share(tally)];
        cells.extend([tally.others, tally.aligned].map(count));
        cells.extend(tally.findings.counts().map(count));
        table.row(row.model, cells);
    }
    table.section("By drive model")
}

fn rules(digest: &Digest<'_>) -> String {
    let headings = ["rule", "finding", "hosts", "disks", "errors", "warnings", "advice"];
    let mut table = sortable("rules", "Findings by rule", &headings);
    for row in &digest.rules {
        let mut cells = vec![Cell::of_class("text", row.title)];
        cells.extend([row.hosts, row.disks].map(count));
        cells.extend(row.findings.counts().map(count));
        table.row_of(&linked(row.code), cells);
    }
    let mut text = table.section("By rule");
    for rule in digest.rules.iter().filter_map(|row| straddle_audit::rule(row.code)) {
        let _ = writeln!(text, "<h3 id=\"{0}\">{0}: {1}</h3>", rule.code, escaped(rule.title));
        let parts = [("", rule.what), ("Why: ", rule.why), ("Cost: ", rule.cost), ("Fix: ", rule.fix)];
        parts.iter().for_each(|(name, part)| text += &paragraph(&format!("{name}{part}"), ""));
    }
    text
}

fn hosts(digest: &Digest<'_>) -> String {
    let headings = [
        "host",
        "disks",
        "misaligned",
        "other findings",
        "not judged",
        "errors",
        "warnings",
        "advice",
        "write time",
        "rules",
    ];
    let mut table = sortable("hosts", "Every host, the worst first", &headings);
    for row in &digest.hosts {
        let tally = &row.tally;
        let mut cells = vec![count(tally.disks), share(tally)];
        cells.extend([tally.others, tally.not_judged + tally.failed].map(count));
        cells.extend(tally.findings.counts().map(count));
        cells.push(times(row.cost));
        let codes: Vec<String> = row.codes.iter().map(|code| linked(code)).collect();
        cells.push(Cell::html("text", codes.join(" ")));
        table.row(row.host, cells);
    }
    table.section("All hosts")
}

fn count(count: usize) -> Cell {
    let class = if count == 0 { "zero" } else { "" };
    Cell::of_class(class, count.to_string())
}

fn times(ratio: Option<f64>) -> Cell {
    Cell::plain(ratio.map_or_else(dash, |ratio| format!("× {}", number(ratio))))
}

/// Returns the share of misaligned disks, with a bar.
fn share(tally: &Tally) -> Cell {
    match tally.share {
        Some(share) => {
            Cell { share: Some(share), ..Cell::of_class("share", format!("{:.1} %", share * 100.0)) }
        }
        None => Cell::plain(dash()),
    }
}

/// Begins a table that a script lets sort by column.
fn sortable(id: &str, caption: &str, headings: &[&str]) -> Table {
    Table::with(&format!(" id=\"{id}\" class=\"sortable\""), caption, headings)
}
