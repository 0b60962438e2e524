//! Charts as SVG: self-contained, in any viewer's own sans-serif type, legible on light and dark pages.

use std::fmt::Write;

use crate::view::chart::{short, ticks};

const WIDTH: f64 = 720.0;
const PANEL: f64 = 260.0;
/// Around the drawing: for the title, the numbers and the axes' labels.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

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

/// What is drawn.
pub(crate) enum Shape {
    /// Points from left to right, with straight lines between, and remarks at some of them.
    Line { points: Vec<(f64, f64)>, remarks: Vec<Remark> },
    /// A bar each.
    Bars(Vec<Bar>),
}

/// A word at a point of a curve.
pub(crate) struct Remark {
    pub(crate) at: (f64, f64),
    pub(crate) text: String,
}

/// A bar.
pub(crate) struct Bar {
    /// Below it.
    pub(crate) label: String,
    /// Its height.
    pub(crate) value: f64,
    /// Above it.
    pub(crate) told: String,
    /// Whether it is one of the best.
    pub(crate) best: bool,
}

/// The panels below each other, as a whole SVG file.
pub(crate) fn draw(description: &str, panels: &[Panel<'_>]) -> String {
    let mut text = String::new();
    let mut top = 0.0;
    for panel in panels {
        text += &panel.draw(top);
        top += PANEL;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{top}\"/>\n{text}</svg>\n",
        escaped(description)
    )
}

/// Numbers to places in a panel.
struct Scale {
    top: f64,
    x_most: f64,
    y_most: f64,
}

impl Scale {
    fn x(&self, number: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * number / self.x_most
    }

    fn y(&self, number: f64) -> f64 {
        self.top + PANEL - BOTTOM - (PANEL - TOP - BOTTOM) * number / self.y_most
    }
}

impl Panel<'_> {
    fn draw(&self, top: f64) -> String {
        let (x_most, y_most) = match &self.shape {
            Shape::Line { points, .. } => {
                (most(points.iter().map(|point| point.0)), most(points.iter().map(|point| point.1)))
            }
            Shape::Bars(bars) => (1.0, most(bars.iter().map(|bar| bar.value))),
        };
        let steps = ticks(y_most, 5);
        // Of nothing at all: anything above zero.
        let y_most = steps.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        let scale = Scale { top, x_most: x_most.max(f64::MIN_POSITIVE), y_most };
        let mut text = String::new();
        label(&mut text, "title", LEFT, top + 22.0, "start", self.title);
        for step in steps {
            let y = scale.y(step);
            let _ = writeln!(text, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/>", WIDTH - RIGHT);
            label(&mut text, "", LEFT - 8.0, y + 4.0, "end", &short(step));
        }
        let (middle, side) = ((LEFT + WIDTH - RIGHT) / 2.0, top + (TOP + PANEL - BOTTOM) / 2.0);
        label(&mut text, "", middle, top + PANEL - 10.0, "middle", self.x_label);
        let _ = writeln!(
            text,
            "<text transform=\"translate(16 {side:.1})rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(self.y_label)
        );
        match &self.shape {
            Shape::Line { points, remarks } => line(&mut text, &scale, points, remarks),
            Shape::Bars(bars) => draw_bars(&mut text, &scale, bars),
        }
        text
    }
}

fn line(text: &mut String, scale: &Scale, points: &[(f64, f64)], remarks: &[Remark]) {
    for step in ticks(scale.x_most, 6).into_iter().filter(|step| *step <= scale.x_most) {
        label(text, "", scale.x(step), scale.top + PANEL - BOTTOM + 18.0, "middle", &short(step));
    }
    let mut path = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, scale.x(*x), scale.y(*y));
    }
    let _ = writeln!(text, "<path class=\"line\" d=\"{path}\"/>");
    for remark in remarks {
        let (x, y) = (scale.x(remark.at.0), scale.y(remark.at.1));
        let (anchor, x) = if x > WIDTH / 2.0 { ("end", x - 4.0) } else { ("start", x + 4.0) };
        // Below: what falls leaves room there, and what rises has just left it.
        label(text, "", x, y + 18.0, anchor, &remark.text);
    }
}

/// So many labels fit below the bars; of more, every second, fourth and so on is written.
const LABELS: usize = 16;

fn draw_bars(text: &mut String, scale: &Scale, bars: &[Bar]) {
    let count = u32::try_from(bars.len()).map_or(1.0, f64::from);
    let each = (WIDTH - LEFT - RIGHT) / count;
    let bottom = scale.y(0.0);
    let every = bars.len().div_ceil(LABELS).next_power_of_two();
    let mut left = LEFT;
    for (index, bar) in bars.iter().enumerate() {
        let (y, class) = (scale.y(bar.value), if bar.best { "best" } else { "bar" });
        let (x, width, height) = (left + each * 0.15, each * 0.7, bottom - y);
        let _ = writeln!(
            text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{}: {}</title></rect>",
            escaped(&bar.label),
            escaped(&bar.told)
        );
        if index.is_multiple_of(every) {
            label(text, "", left + each / 2.0, bottom + 18.0, "middle", &bar.label);
        }
        if bars.len() <= LABELS {
            label(text, "", left + each / 2.0, y - 5.0, "middle", &bar.told);
        }
        left += each;
    }
}

fn label(text: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let words = escaped(words);
    let _ = writeln!(text, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.filter(|number| number.is_finite()).fold(0.0, f64::max)
}

/// Text that says what it said, and nothing to the parser.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // Not allowed in XML 1.0, even as a reference.
            hidden if straddle_device::shown::is_hidden(hidden) => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(count: u32) -> Panel<'static> {
        let bar = |index| Bar {
            label: index_label(index),
            value: f64::from(index),
            told: "t".to_owned(),
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
