//! Drawings as SVG files: self-contained, in the viewer's own sans-serif type, legible on light and dark pages.

use std::fmt::Write;

use crate::view::chart::bars::Chart;
use crate::view::chart::curve::Curve;
use crate::view::markup::{escaped, made};

pub(crate) const WIDTH: f64 = 720.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#3a3f45}.title{font-size:14px;font-weight:600;fill:#15181b}
.grid{stroke:#dfe3e7;stroke-width:1}.line{fill:none;stroke:#2a6fb0;stroke-width:2;stroke-linejoin:round}
.s0{fill:#2a6fb0}.s1{fill:#d9822b}.s2,.best{fill:#2e8b57}.page{fill:#fff}.one{stroke:#57606a}.error{stroke:#15181b;stroke-width:1.5}
.value{paint-order:stroke;stroke:#fff;stroke-width:3px}
@media (prefers-color-scheme:dark){text{fill:#b9c0c7}.title{fill:#eef1f4}.grid{stroke:#363c43}.page{fill:#14171a}
.line{stroke:#6fb1ee}.s0{fill:#6fb1ee}.s1{fill:#f2a65a}.s2,.best{fill:#5fc28b}.one{stroke:#9aa4ae}.error{stroke:#eef1f4}
.value{stroke:#14171a}}";

/// A chart of a drawing.
pub(crate) enum Panel<'a> {
    Bars(Chart),
    Curve(Curve<'a>),
}

/// Draws charts below each other, as a complete file that says how it was made.
pub(crate) fn draw(description: &str, panels: &[Panel<'_>]) -> String {
    let (mut text, mut top) = (String::new(), 0.0);
    for panel in panels {
        top = match panel {
            Panel::Bars(chart) => {
                label(&mut text, "title", 10.0, top + 22.0, "start", &chart.title);
                chart.draw(&mut text, top + 30.0)
            }
            Panel::Curve(curve) => curve.draw(&mut text, top),
        };
    }
    let (title, made) = (escaped(description), escaped(&made()));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" role=\"img\">\n\
         <title>{title}</title>\n<desc>{made}</desc>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{top}\"/>\n{text}</svg>\n"
    )
}

/// Draws words at a place.
pub(crate) fn label(text: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let words = escaped(words);
    let _ = writeln!(text, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}
