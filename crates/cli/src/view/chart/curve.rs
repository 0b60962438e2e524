//! A curve, as SVG.

use std::fmt::Write;

use crate::view::chart::svg::{WIDTH, label};
use crate::view::chart::{Axis, short, ticks};
use crate::view::markup::escaped;

const HEIGHT: f64 = 260.0;
/// Margins around the drawing, for the title, the numbers and the axis labels.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

/// Points from left to right, joined by straight lines, and remarks at some of them.
pub(crate) struct Curve<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) remarks: Vec<Remark>,
}

pub(crate) struct Remark {
    pub(crate) at: (f64, f64),
    pub(crate) text: String,
}

impl Curve<'_> {
    /// Draws the curve with its title from `top` on. Returns where it ends.
    pub(crate) fn draw(&self, text: &mut String, top: f64) -> f64 {
        let most = |numbers: &mut dyn Iterator<Item = f64>| {
            numbers.filter(|number| number.is_finite()).fold(f64::MIN_POSITIVE, f64::max)
        };
        let linear = |high, from, to| Axis { low: 0.0, high, from, to, is_logarithmic: false };
        let (bottom, above) = (top + HEIGHT - BOTTOM, top + TOP);
        let steps = ticks(most(&mut self.points.iter().map(|point| point.1)), 5);
        let y = linear(most(&mut steps.iter().copied()), bottom, above);
        let x = linear(most(&mut self.points.iter().map(|point| point.0)), LEFT, WIDTH - RIGHT);
        label(text, "title", LEFT, top + 22.0, "start", self.title);
        for step in steps {
            let y = y.at(step);
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/>", WIDTH - RIGHT);
            label(text, "axis", LEFT - 8.0, y + 4.0, "end", &short(step));
        }
        label(text, "", (LEFT + WIDTH - RIGHT) / 2.0, top + HEIGHT - 10.0, "middle", self.x_label);
        let _ = writeln!(
            text,
            "<text transform=\"translate(16 {:.1})rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (bottom + above) / 2.0,
            escaped(self.y_label)
        );
        for step in ticks(x.high, 6).into_iter().filter(|step| *step <= x.high) {
            label(text, "", x.at(step), bottom + 18.0, "middle", &short(step));
        }
        let mut path = String::new();
        for (index, point) in self.points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", x.at(point.0), y.at(point.1));
        }
        let _ = writeln!(text, "<path class=\"line\" d=\"{path}\"/>");
        for remark in &self.remarks {
            let (x, y) = (x.at(remark.at.0), y.at(remark.at.1));
            let (anchor, x) = if x > WIDTH / 2.0 { ("end", x - 4.0) } else { ("start", x + 4.0) };
            // Below the point: there is room under a falling curve, and a rising one has just left it.
            label(text, "", x, y + 18.0, anchor, &remark.text);
        }
        top + HEIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_points_make_an_empty_chart() {
        let mut text = String::new();
        let title = "<&\">";
        Curve { title, x_label: "x", y_label: "y", points: Vec::new(), remarks: Vec::new() }
            .draw(&mut text, 0.0);
        assert!(
            text.contains("&lt;&amp;&quot;&gt;") && !text.contains("NaN") && !text.contains("inf"),
            "{text}"
        );
    }
}
