//! Pages of HTML, each a single file that needs no network: those of `report --html` and `trace --html`, and what those of
//! other commands have in common with them.

pub(crate) mod fleet;
pub(crate) mod trace;

use std::fmt::Write;

use crate::view::chart::bars::Chart;
use crate::view::markup::{escaped, made};
use crate::view::text::percent;

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

/// Returns a heading as such.
pub fn capitalised(heading: &str) -> String {
    let mut letters = heading.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns what stands for no value.
pub fn dash() -> String {
    "–".to_owned()
}
