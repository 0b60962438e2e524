//! Pages of HTML, each a single file that needs no network: those of `report --html` and `trace --html`, and what those of
//! other commands have in common with them.

pub(crate) mod fleet;
pub(crate) mod trace;

use std::fmt::Write;

use crate::view::chart::groups::{self, Chart};
use crate::view::markup::{GENERATOR, escaped};
use crate::view::text::percent;

const STYLE: &str = include_str!("html/style.css");

/// Returns a page of these contents. `style` is added to the style of all pages.
pub fn document(title: &str, style: &str, contents: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         {GENERATOR}\n<title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {contents}</main>\n</body>\n</html>\n"
    )
}

/// Returns a paragraph of this class.
pub fn paragraph(text: &str, class: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("<p class=\"{class}\">{}</p>\n", escaped(&text))
}

/// Returns a chart with its caption; nothing if there is nothing to draw.
pub fn figure(chart: &Chart<'_>) -> String {
    if !chart.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.value.is_some()) {
        return String::new();
    }
    format!("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escaped(chart.title), groups::svg(chart))
}

/// A table with a heading for each column and each row.
pub struct Table {
    html: String,
    headings: Vec<String>,
}

/// The contents of a table cell, and its CSS class.
pub struct Cell {
    /// What it says.
    pub text: String,
    /// Its CSS class.
    pub class: &'static str,
    /// A share to draw below the text.
    pub share: Option<f64>,
}

impl Cell {
    /// Returns a cell without a class.
    pub fn plain(text: String) -> Self {
        Self::of_class("", text)
    }

    /// Returns a cell of a class.
    pub fn of_class(class: &'static str, text: String) -> Self {
        Self { text, class, share: None }
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
        let headings: Vec<String> = headings.iter().map(|heading| capitalised(heading)).collect();
        let cells: String =
            headings.iter().map(|heading| format!("<th scope=\"col\">{}</th>", escaped(heading))).collect();
        let caption = escaped(caption);
        let html = format!(
            "<div class=\"scroll\"><table{attributes}>\n<caption>{caption}</caption>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n"
        );
        Self { html, headings }
    }

    /// Adds a row.
    pub fn row(&mut self, heading: &str, cells: Vec<Cell>) {
        self.row_of_class("", heading, cells);
    }

    /// Adds a row of a class.
    pub fn row_of_class(&mut self, class: &str, heading: &str, cells: Vec<Cell>) {
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

    /// Returns the table as HTML.
    pub fn html(self) -> String {
        self.html + "</tbody>\n</table></div>\n"
    }
}

/// Returns a heading as such.
pub fn capitalised(heading: &str) -> String {
    let mut letters = heading.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns what stands for no value.
pub fn dash() -> String {
    "–".to_owned()
}
