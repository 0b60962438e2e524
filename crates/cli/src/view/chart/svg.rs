//! Charts as SVG: self-contained, in the viewer's own sans-serif type, legible on light and dark pages.

use std::fmt::Write;

use crate::view::chart::{STEEP, decades, short, ticks};
use crate::view::markup::{MADE_BY, escaped};

const WIDTH: f64 = 720.0;
const PANEL: f64 = 260.0;
/// Margins around the drawing, for the title, the numbers and the axis labels.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

/// Where a logarithmic scale of ratios begins: a bar of 1 is seen.
const LOWEST: f64 = 0.85;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#3a3f45}.title{font-size:14px;font-weight:600;fill:#15181b}
.grid{stroke:#dfe3e7;stroke-width:1}.line{fill:none;stroke:#2a6fb0;stroke-width:2;stroke-linejoin:round}
.bar{fill:#2a6fb0}.best{fill:#2e8b57}.page{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#b9c0c7}.title{fill:#eef1f4}.grid{stroke:#363c43}.page{fill:#14171a}
.line{stroke:#6fb1ee}.bar{fill:#6fb1ee}.best{fill:#5fc28b}}";

/// One chart of a drawing.
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) shape: Shape,
}

/// What a chart shows.
pub(crate) enum Shape {
    /// Points from left to right, joined by straight lines, and remarks at some of them.
    Line { points: Vec<(f64, f64)>, remarks: Vec<Remark> },
    /// Vertical bars.
    Bars(Vec<Bar>),
    /// Vertical bars of ratios, of which 1 is the least; to a logarithmic scale if they differ much.
    Ratios(Vec<Bar>),
}

pub(crate) struct Remark {
    pub(crate) at: (f64, f64),
    pub(crate) text: String,
}

pub(crate) struct Bar {
    /// The label below it.
    pub(crate) label: String,
    /// The height.
    pub(crate) value: f64,
    /// The text above it.
    pub(crate) caption: String,
    /// Whether it is one of the best.
    pub(crate) best: bool,
}

/// Draws the panels below each other, as a complete SVG file.
pub(crate) fn draw(description: &str, panels: &[Panel<'_>]) -> String {
    let mut text = String::new();
    let mut top = 0.0;
    for panel in panels {
        text += &panel.draw(top);
        top += PANEL;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" role=\"img\">\n\
         <title>{}</title>\n<desc>{MADE_BY}</desc>\n<style>{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{top}\"/>\n{text}</svg>\n",
        escaped(description)
    )
}

/// An axis, which maps numbers to places.
pub(crate) struct Axis {
    /// The numbers at its ends.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The places of these numbers.
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) is_logarithmic: bool,
}

impl Axis {
    /// Makes an axis from zero to `high`.
    fn linear(high: f64, from: f64, to: f64) -> Self {
        Self { low: 0.0, high: high.max(f64::MIN_POSITIVE), from, to, is_logarithmic: false }
    }

    /// Returns the place of a number.
    pub(crate) fn at(&self, number: f64) -> f64 {
        let share = if self.is_logarithmic {
            (number / self.low).ln() / (self.high / self.low).ln()
        } else {
            (number - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }
}

struct Scale {
    x: Axis,
    y: Axis,
}

/// Draws a horizontal line at each step of a vertical axis, with the step's label to its left.
pub(crate) fn grid(
    text: &mut String,
    axis: &Axis,
    steps: &[f64],
    left: f64,
    right: f64,
    shown: impl Fn(f64) -> String,
) {
    for step in steps {
        let y = axis.at(*step);
        let _ = writeln!(text, "<path class=\"grid\" d=\"M{left} {y:.1}H{right:.1}\"/>");
        label(text, "axis", left - 8.0, y + 4.0, "end", &shown(*step));
    }
}

impl Panel<'_> {
    fn draw(&self, top: f64) -> String {
        let (x_most, y_most) = match &self.shape {
            Shape::Line { points, .. } => {
                (most(points.iter().map(|point| point.0)), most(points.iter().map(|point| point.1)))
            }
            Shape::Bars(bars) | Shape::Ratios(bars) => (1.0, most(bars.iter().map(|bar| bar.value))),
        };
        let (bottom, above) = (top + PANEL - BOTTOM, top + TOP);
        let is_logarithmic = matches!(self.shape, Shape::Ratios(_)) && y_most > STEEP;
        let (y, steps) = if is_logarithmic {
            let (low, high) = (LOWEST, y_most * 1.4);
            (Axis { low, high, from: bottom, to: above, is_logarithmic }, decades(low, high))
        } else {
            let steps = ticks(y_most, 5);
            // There is always a last step; the default is never used.
            (Axis::linear(steps.last().copied().unwrap_or(1.0), bottom, above), steps)
        };
        let scale = Scale { x: Axis::linear(x_most, LEFT, WIDTH - RIGHT), y };
        let mut text = String::new();
        label(&mut text, "title", LEFT, top + 22.0, "start", self.title);
        grid(&mut text, &scale.y, &steps, LEFT, WIDTH - RIGHT, short);
        let (middle, side) = ((LEFT + WIDTH - RIGHT) / 2.0, top + (TOP + PANEL - BOTTOM) / 2.0);
        label(&mut text, "", middle, top + PANEL - 10.0, "middle", self.x_label);
        let _ = writeln!(
            text,
            "<text transform=\"translate(16 {side:.1})rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(self.y_label)
        );
        match &self.shape {
            Shape::Line { points, remarks } => line(&mut text, &scale, points, remarks),
            Shape::Bars(bars) | Shape::Ratios(bars) => draw_bars(&mut text, &scale, bars),
        }
        text
    }
}

fn line(text: &mut String, scale: &Scale, points: &[(f64, f64)], remarks: &[Remark]) {
    for step in ticks(scale.x.high, 6).into_iter().filter(|step| *step <= scale.x.high) {
        label(text, "", scale.x.at(step), scale.y.from + 18.0, "middle", &short(step));
    }
    let mut path = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let _ =
            write!(path, "{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, scale.x.at(*x), scale.y.at(*y));
    }
    let _ = writeln!(text, "<path class=\"line\" d=\"{path}\"/>");
    for remark in remarks {
        let (x, y) = (scale.x.at(remark.at.0), scale.y.at(remark.at.1));
        let (anchor, x) = if x > WIDTH / 2.0 { ("end", x - 4.0) } else { ("start", x + 4.0) };
        // Below the point: there is room under a falling curve, and a rising one has just left it.
        label(text, "", x, y + 18.0, anchor, &remark.text);
    }
}

/// Labels that fit below the bars. If there are more, only every second, fourth and so on is written.
const LABELS: usize = 16;

fn draw_bars(text: &mut String, scale: &Scale, bars: &[Bar]) {
    let count = u32::try_from(bars.len()).map_or(1.0, f64::from);
    let each = (WIDTH - LEFT - RIGHT) / count;
    let bottom = scale.y.from;
    let every = bars.len().div_ceil(LABELS).next_power_of_two();
    let mut left = LEFT;
    for (index, bar) in bars.iter().enumerate() {
        let (y, class) = (scale.y.at(bar.value.max(scale.y.low)), if bar.best { "best" } else { "bar" });
        let (x, width, height) = (left + each * 0.15, each * 0.7, bottom - y);
        let _ = writeln!(
            text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{}: {}</title></rect>",
            escaped(&bar.label),
            escaped(&bar.caption)
        );
        if index.is_multiple_of(every) {
            label(text, "", left + each / 2.0, bottom + 18.0, "middle", &bar.label);
        }
        if bars.len() <= LABELS {
            label(text, "", left + each / 2.0, y - 5.0, "middle", &bar.caption);
        }
        left += each;
    }
}

/// Draws words at a place.
pub(crate) fn label(text: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let words = escaped(words);
    let _ = writeln!(text, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.filter(|number| number.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(count: u32) -> Panel<'static> {
        let bar = |index| Bar {
            label: index_label(index),
            value: f64::from(index),
            caption: "t".to_owned(),
            best: index == 0,
        };
        Panel {
            title: "<&\">",
            x_label: "x",
            y_label: "y",
            shape: Shape::Bars((0..count).map(bar).collect()),
        }
    }

    fn index_label(index: u32) -> String {
        index.to_string()
    }

    #[test]
    fn every_bar_is_there_and_the_text_is_escaped() {
        let drawn = draw("a & b\u{7}", &[bars(8)]);
        assert_eq!(drawn.matches("<rect class=\"bar\"").count(), 7);
        assert_eq!(drawn.matches("<rect class=\"best\"").count(), 1);
        assert!(drawn.contains("&lt;&amp;&quot;&gt;") && drawn.contains("<title>a &amp; b </title>"));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }

    #[test]
    fn ratios_that_differ_much_are_all_seen() {
        let bar = |value| Bar { label: String::new(), value, caption: String::new(), best: false };
        let drawn = |most| {
            let shape = Shape::Ratios([1.0, 2.0, most].map(bar).into());
            draw("", &[Panel { title: "", x_label: "", y_label: "", shape }])
        };
        let heights = |text: &str| {
            let heights = text.split(" height=\"").skip(2).map(|rest| rest.split('"').next().unwrap());
            heights.filter_map(|height| height.parse::<f64>().ok()).collect::<Vec<_>>()
        };
        for most in [2.5, 250.0, 1e6] {
            let heights = heights(&drawn(most));
            assert!(heights.len() == 3 && heights.iter().all(|height| *height > 1.5), "{most}: {heights:?}");
            assert!(heights.windows(2).all(|pair| pair[0] < pair[1]) && heights[2] < PANEL, "{heights:?}");
        }
    }

    #[test]
    fn many_bars_have_few_labels() {
        let drawn = draw("", &[bars(128)]);
        assert!(drawn.matches("<text").count() < 30, "{}", drawn.matches("<text").count());
    }

    #[test]
    fn no_numbers_make_an_empty_chart() {
        let empty = Shape::Line { points: Vec::new(), remarks: Vec::new() };
        let drawn = draw("", &[Panel { title: "", x_label: "", y_label: "", shape: empty }, bars(0)]);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
