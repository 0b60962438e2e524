//! Pages of HTML, each a single file that needs no network: that of `report --html`, and what other pages share.

use std::fmt::Write;

use straddle_audit::examine::CostSource;

use crate::commands::report::fleet_sentences;
use crate::fleet::{Detail, Digest, Fix, Tally};
use crate::output::{capitalised, plural};
use crate::view::chart::svg::Chart;
use crate::view::text::{number, percent};
use crate::view::{escaped, made};

const STYLE: &str = include_str!("html/style.css");

/// Returns a page of these contents, which says how it was made. `style` is added to the style of all pages.
pub fn document(title: &str, style: &str, contents: &str) -> String {
    let (title, made) = (escaped(title), paragraph(&made(), "soft foot"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"straddle\">\n<title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {contents}{made}</main>\n</body>\n</html>\n"
    )
}

/// Returns a paragraph of this class.
pub fn paragraph(text: &str, class: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("<p class=\"{class}\">{}</p>\n", escaped(&text))
}

fn led(sentences: &[String]) -> String {
    let classes = ["lead"].into_iter().chain(std::iter::repeat("soft"));
    sentences.iter().zip(classes).map(|(sentence, class)| paragraph(sentence, class)).collect()
}

/// Returns a chart with its caption; nothing if there is nothing to draw.
pub fn figure(chart: &Chart) -> String {
    if chart.is_empty() {
        return String::new();
    }
    let (mut drawn, title) = (String::new(), escaped(&chart.title));
    let height = chart.draw(&mut drawn, 0.0);
    format!(
        "<figure><figcaption>{title}</figcaption>\n<svg class=\"chart\" role=\"img\" aria-label=\"{title}\" width=\"100%\" \
         height=\"{height}\"><title>{title}</title>\n{drawn}</svg>\n</figure>\n"
    )
}

/// A table with a heading for each column and each row.
pub struct Table {
    attributes: String,
    caption: String,
    /// The headings, and whether words are below them rather than numbers.
    headings: Vec<(String, bool)>,
    rows: String,
}

/// The contents of a table cell, and its CSS class.
pub struct Cell {
    html: String,
    class: &'static str,
    /// A share to draw with the text.
    pub share: Option<f64>,
}

impl Cell {
    /// Returns a cell without a class.
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::of_class("", text)
    }

    /// Returns a cell of a class. One without a value is hidden on a phone.
    pub fn of_class(class: &'static str, text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        Self::html(if text == dash() { "none" } else { class }, escaped(text))
    }

    /// Returns a cell of a class with these contents, which are markup.
    pub fn html(class: &'static str, html: String) -> Self {
        Self { html, class, share: None }
    }

    /// Returns the cell for an error, marked as within the limit or not.
    pub fn error(error: Option<f64>, limit: Option<f64>) -> Self {
        let class = match error.zip(limit) {
            Some((error, limit)) if error.abs() <= limit => "good",
            Some(_) => "bad",
            None => "",
        };
        Self::of_class(class, error.map_or_else(dash, percent))
    }
}

impl Table {
    /// Begins a table.
    pub fn new(caption: &str, headings: &[&str]) -> Self {
        Self::with("", caption, headings)
    }

    /// Begins a table with these attributes, each after a space.
    pub fn with(attributes: &str, caption: &str, headings: &[&str]) -> Self {
        let headings = headings.iter().map(|heading| (escaped(&capitalised(heading)), false)).collect();
        Self { attributes: attributes.to_owned(), caption: escaped(caption), headings, rows: String::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, heading: &str, cells: Vec<Cell>) {
        self.row_of(&escaped(heading), cells);
    }

    /// Adds a row whose heading is markup.
    pub fn row_of(&mut self, heading: &str, cells: Vec<Cell>) {
        let _ = write!(self.rows, "<tr><th scope=\"row\">{heading}</th>");
        let headings = self.headings.iter_mut().skip(1);
        for (Cell { html, class, share }, (heading, is_of_words)) in cells.into_iter().zip(headings) {
            *is_of_words |= class == "text";
            let style = share.map(|share| format!(" style=\"--share:{share:.4}\"")).unwrap_or_default();
            // On a phone a row is a card, and each cell has its heading beside it.
            let _ = write!(self.rows, "<td class=\"{class}\" data-heading=\"{heading}\"{style}>{html}</td>");
        }
        self.rows += "</tr>\n";
    }

    /// Returns a section of a page with this table; nothing if it has no rows.
    pub(crate) fn section(&self, title: &str) -> String {
        let table = self.html();
        if table.is_empty() { table } else { format!("<section>\n<h2>{title}</h2>\n{table}</section>\n") }
    }

    /// Returns the table as HTML; nothing if it has no rows.
    pub fn html(&self) -> String {
        let Self { attributes, caption, headings, rows } = self;
        if rows.is_empty() {
            return String::new();
        }
        let heading = |(heading, is_of_words): &(String, bool)| {
            let class = if *is_of_words { " class=\"text\"" } else { "" };
            format!("<th scope=\"col\"{class}>{heading}</th>")
        };
        let headings: String = headings.iter().map(heading).collect();
        format!(
            "<div class=\"scroll\"><table{attributes}>\n<caption>{caption}</caption>\n<thead><tr>{headings}</tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table></div>\n"
        )
    }
}

/// Returns what stands for no value.
pub fn dash() -> String {
    "–".to_owned()
}

const FLEET_STYLE: &str = include_str!("html/fleet.css");
const SCRIPT: &str = include_str!("html/sort.js");

const NAMED: usize = 50;

pub(crate) fn fleet_page(digest: &Digest<'_>) -> String {
    let title = format!("Sector alignment of {}", plural(digest.hosts.len(), "host"));
    let mut text = led(&fleet_sentences(digest));
    text += &strip(&digest.tally);
    text += &skipped(digest);
    if digest.costs.iter().any(|row| row.by.source == CostSource::Modelled) {
        let modelled = "Modelled costs are computed with a model of the drive (straddle check --cost \
                        drive:NAME), not measured on these hosts.";
        text += &paragraph(modelled, "soft");
    }
    text += &disks(digest);
    text += &hosts(digest);
    text += &models(digest);
    text += &rules(digest);
    let _ = writeln!(text, "<script>\n{SCRIPT}</script>");
    document(&title, FLEET_STYLE, &text)
}

fn strip(tally: &Tally) -> String {
    let (mut bar, mut legend, mut label) = (String::new(), String::new(), Vec::new());
    let parts = [
        ("misaligned, errors", "error", tally.errors),
        ("misaligned, warnings", "warning", tally.warnings),
        ("aligned, other findings", "other", tally.others),
        ("aligned", "aligned", tally.aligned),
        ("blank", "blank", tally.blank),
        ("not judged", "unjudged", tally.not_judged),
        ("failed", "failed", tally.failed),
    ];
    for (name, class, count) in parts.into_iter().filter(|(.., count)| *count > 0) {
        let _ = write!(bar, "<span class=\"{class}\" style=\"flex-grow:{count}\"></span>");
        let _ = write!(legend, "<li><i class=\"{class}\"></i>{name}: {count}</li>");
        label.push(format!("{name}: {count}"));
    }
    let label = label.join("; ");
    format!(
        "<figure><figcaption>Disks by audit result</figcaption>\n\
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

fn disks(digest: &Digest<'_>) -> String {
    let headings = ["host", "disk", "model", "findings", "write time", "next step"];
    let caption = "Disks with errors or warnings, and disks that could not be judged, worst host first";
    let mut table = sortable("disks", caption, &headings);
    for (host, disk) in digest.hosts.iter().flat_map(|row| row.details.iter().map(|disk| (row.host, disk))) {
        let cells = vec![
            Cell::of_class("text", disk.disk),
            Cell::of_class("text", disk.model),
            Cell::html("text", found(disk)),
            fleet_times(disk.cost),
            Cell::html("text", next_step(disk)),
        ];
        table.row(host, cells);
    }
    table.section("What to do")
}

fn found(disk: &Detail<'_>) -> String {
    if let Some(why) = disk.unjudged {
        return escaped(why);
    }
    if disk.findings.is_empty() {
        return "reported with another disk".to_owned();
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

fn next_step(disk: &Detail<'_>) -> String {
    let Some(Fix { summary, commands, risk, caution }) = disk.fix else {
        let is_judged = disk.unjudged.is_none();
        return if is_judged { "See the rule" } else { "Run straddle check -v on the host for details" }
            .to_owned();
    };
    let warning = risk.and_then(|risk| risk.warning());
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
        let mut cells = vec![count(tally.disks), fleet_share(tally)];
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
        let _ = writeln!(text, "<h3 id=\"{0}\">{0}: {1}</h3>", rule.code, escaped(&rule.title));
        let parts = [("", &rule.what), ("Why: ", &rule.why), ("Cost: ", &rule.cost), ("Fix: ", &rule.fix)];
        parts.iter().for_each(|(name, part)| text += &paragraph(&format!("{name}{part}"), ""));
    }
    text
}

fn hosts(digest: &Digest<'_>) -> String {
    let headings = ["host", "disks", "misaligned", "other findings", "not judged"];
    let headings = [&headings[..], &["errors", "warnings", "advice", "write time", "rules"]].concat();
    let mut table = sortable("hosts", "All hosts, worst first", &headings);
    for row in &digest.hosts {
        let tally = &row.tally;
        let mut cells = vec![count(tally.disks), fleet_share(tally)];
        cells.extend([tally.others, tally.not_judged + tally.failed].map(count));
        cells.extend(tally.findings.counts().map(count));
        cells.push(fleet_times(row.cost));
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

fn fleet_times(ratio: Option<f64>) -> Cell {
    Cell::plain(ratio.map_or_else(dash, |ratio| format!("× {}", number(ratio))))
}

fn fleet_share(tally: &Tally) -> Cell {
    match tally.share {
        Some(share) => {
            Cell { share: Some(share), ..Cell::of_class("share", format!("{:.1} %", share * 100.0)) }
        }
        None => Cell::plain(dash()),
    }
}

fn sortable(id: &str, caption: &str, headings: &[&str]) -> Table {
    Table::with(&format!(" id=\"{id}\" class=\"sortable\""), caption, headings)
}
