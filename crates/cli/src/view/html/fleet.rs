//! The page of `report --html`: the audits of many hosts.

use std::fmt::Write;

use straddle_audit::examine::CostSource;

use super::{Cell, Table, dash, document, paragraph};
use crate::fleet::{CostRow, Detail, Digest, HostRow, Tally};
use crate::output::plural;
use crate::view::markup::escaped;
use crate::view::text::fleet::sentences;
use crate::view::text::number;

const STYLE: &str = include_str!("fleet.css");
const SCRIPT: &str = include_str!("sort.js");

/// What could not be read, of which the names are shown.
const NAMED: usize = 50;
/// The disks shown of each of the worst hosts.
const DISKS: usize = 8;

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
    text += &costs(&digest.costs);
    text += &worst(digest);
    text += &models(digest);
    text += &rules(digest);
    text += &hosts(digest);
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

fn costs(costs: &[CostRow<'_>]) -> String {
    if costs.is_empty() {
        return String::new();
    }
    let mut text = "<section>\n<h2 id=\"cost\">What misalignment costs</h2>\n".to_owned();
    let mut table = Table::new(
        "Time of random writes behind the worst start of a disk, and bytes written to flash (wear), over those when aligned",
        &["drive", "source", "disks", "median time", "worst time", "worst wear"],
    );
    for CostRow { by, disks, median, worst, wear } in costs {
        let ratio = |ratio: f64| Cell::plain(format!("× {}", number(ratio)));
        let wear = wear.map_or_else(|| Cell::plain(dash()), ratio);
        let cells =
            vec![Cell::plain(by.source.to_string()), count(*disks), ratio(*median), ratio(*worst), wear];
        table.row(&by.drive, cells);
    }
    text += &table.html();
    let modelled = "Modelled means computed with a model of that drive (straddle check --cost drive:NAME), not \
                    measured on these hosts.";
    if costs.iter().any(|row| row.by.source == CostSource::Modelled) {
        text += &paragraph(modelled, "soft");
    }
    text + "</section>\n"
}

/// Describes the worst hosts, disk by disk.
fn worst(digest: &Digest<'_>) -> String {
    let bad: Vec<&HostRow<'_>> = digest.hosts.iter().filter(|row| !row.details.is_empty()).collect();
    if bad.is_empty() {
        return String::new();
    }
    let mut text = "<section>\n<h2 id=\"worst\">Worst hosts</h2>\n".to_owned();
    for row in bad {
        let _ = writeln!(text, "<h3>{}</h3>\n<ul>", escaped(row.host));
        for disk in row.details.iter().take(DISKS) {
            text += &detail(disk);
        }
        if row.details.len() > DISKS {
            let _ = writeln!(text, "<li>and {} more</li>", row.details.len() - DISKS);
        }
        text += "</ul>\n";
    }
    text + "</section>\n"
}

fn detail(disk: &Detail<'_>) -> String {
    let mut text = format!("<li><code>{}</code> ({})", escaped(disk.disk), escaped(disk.model));
    if disk.findings.is_empty() {
        text += ": with another disk, where the finding is listed";
    }
    for (index, (code, title, partitions)) in disk.findings.iter().enumerate() {
        let separator = if index == 0 { ":" } else { ";" };
        let _ = write!(text, "{separator} {} {}", escaped(code), escaped(title));
        if !partitions.is_empty() {
            let noun = if partitions.len() == 1 { "partition" } else { "partitions" };
            let numbers: Vec<String> = partitions.iter().map(u32::to_string).collect();
            let _ = write!(text, " ({noun} {})", numbers.join(", "));
        }
    }
    if let Some((ratio, wear, by)) = disk.cost {
        let wear = wear.map(|wear| format!(" and write {} times as many bytes to flash", number(wear)));
        let (drive, wear) = (escaped(&by.drive), wear.unwrap_or_default());
        let (ratio, source) = (number(ratio), by.source);
        let _ = write!(text, "; random writes take {ratio} times as long{wear} ({source} on {drive})");
    }
    text + "</li>\n"
}

fn models(digest: &Digest<'_>) -> String {
    let headings =
        ["model", "disks", "misaligned", "other findings", "aligned", "errors", "warnings", "advice"];
    let mut table = Sorted::new("models", "Disks by model", &headings);
    for row in &digest.models {
        let tally = &row.tally;
        let mut cells = vec![count(tally.disks), share(tally)];
        cells.extend([tally.others, tally.aligned].map(count));
        cells.extend(tally.findings.counts().map(count));
        table.0.row(row.model, cells);
    }
    table.section("By drive model")
}

fn rules(digest: &Digest<'_>) -> String {
    if digest.rules.is_empty() {
        return String::new();
    }
    let headings = ["rule", "finding", "hosts", "disks", "errors", "warnings", "advice"];
    let mut table = Sorted::new("rules", "Findings by rule (straddle explain CODE)", &headings);
    for row in &digest.rules {
        let mut cells = vec![Cell::of_class("text", row.title)];
        cells.extend([row.hosts, row.disks].map(count));
        cells.extend(row.findings.counts().map(count));
        table.0.row(row.code, cells);
    }
    table.section("By rule")
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
    let mut table = Sorted::new("hosts", "Every host, the worst first", &headings);
    for row in &digest.hosts {
        let tally = &row.tally;
        let mut cells = vec![count(tally.disks), share(tally)];
        cells.extend([tally.others, tally.not_judged + tally.failed].map(count));
        cells.extend(tally.findings.counts().map(count));
        cells.push(Cell::plain(row.cost.map_or_else(dash, |ratio| format!("× {}", number(ratio)))));
        cells.push(Cell::of_class("text", row.codes.join(" ")));
        table.0.row(row.host, cells);
    }
    table.section("All hosts")
}

fn count(count: usize) -> Cell {
    let class = if count == 0 { "zero" } else { "" };
    Cell::of_class(class, count.to_string())
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

/// A table that a script lets sort by column.
struct Sorted(Table);

impl Sorted {
    fn new(id: &str, caption: &str, headings: &[&str]) -> Self {
        Self(Table::with(&format!(" id=\"{id}\" class=\"sortable\""), caption, headings))
    }

    fn section(self, title: &str) -> String {
        format!("<section>\n<h2>{title}</h2>\n{}</section>\n", self.0.html())
    }
}
