//! Drawings as SVG files: self-contained, in the viewer's own sans-serif type, legible on light and dark pages.

use std::fmt::Write;

use crate::view::chart::{Axis, STEEP, decades, float, short, ticks};
use crate::view::{escaped, made};

pub(crate) const WIDTH: f64 = 720.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#3a3f45}.title{font-size:14px;font-weight:600;fill:#15181b}
.grid{stroke:#dfe3e7;stroke-width:1}
.s0{fill:#2a6fb0}.s1{fill:#d9822b}.s2,.best{fill:#2e8b57}.page{fill:#fff}.one{stroke:#57606a}.error{stroke:#15181b;stroke-width:1.5}
.value{paint-order:stroke;stroke:#fff;stroke-width:3px}
@media (prefers-color-scheme:dark){text{fill:#b9c0c7}.title{fill:#eef1f4}.grid{stroke:#363c43}.page{fill:#14171a}
.s0{fill:#6fb1ee}.s1{fill:#f2a65a}.s2,.best{fill:#5fc28b}.one{stroke:#9aa4ae}.error{stroke:#eef1f4}
.value{stroke:#14171a}}";

/// Draws charts below each other, as a complete file that says how it was made.
pub(crate) fn draw(description: &str, charts: &[Chart]) -> String {
    let (mut text, mut top) = (String::new(), 0.0);
    for chart in charts {
        label(&mut text, "title", LEFT, top + 22.0, "start", &chart.title);
        top = chart.draw(&mut text, top + 30.0);
    }
    let (title, made) = (escaped(description), escaped(&made()));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" role=\"img\">\n\
         <title>{title}</title>\n<desc>{made}</desc>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{top}\"/>\n{text}</svg>\n"
    )
}

pub(crate) fn label(text: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let words = escaped(words);
    let _ = writeln!(text, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

/// The least width, for which text is wrapped: that of a phone, without the page's margins.
const NARROW: f64 = 350.0;
/// Approximate width of a letter, and height of a line.
const LETTER: f64 = 7.5;
const LINE: f64 = 16.0;
const BAR: f64 = 14.0;
const GAP: f64 = 4.0;
/// The space left of the bars, in pixels of the least width.
const LEFT: f64 = 10.0;
/// The longest label beside its bar; longer ones are above.
const BESIDE: usize = 8;
const COLOURS: usize = 6;

/// Numbers to compare, as groups of bars.
#[derive(Debug, Default)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// What the lengths of the bars are.
    pub axis: String,
    /// What the bars of each group are, in order.
    pub series: Vec<String>,
    /// The groups, from the top down.
    pub groups: Vec<Group>,
    /// What an interval is, in the legend.
    pub interval: &'static str,
    /// Whether the numbers are ratios: a line marks 1, and the scale is logarithmic if they differ much.
    pub is_of_ratios: bool,
}

/// Bars below each other.
#[derive(Debug)]
pub struct Group {
    /// The label.
    pub label: String,
    /// One bar per series.
    pub bars: Vec<Bar>,
}

/// A bar, with a mark at the published value.
#[derive(Debug, Default)]
pub struct Bar {
    /// The length, if there is a value.
    pub value: Option<f64>,
    /// The ends of the interval that the value is in, if they are known.
    pub interval: Option<(f64, f64)>,
    /// The published value, if there is one.
    pub published: Option<f64>,
    /// The text beside it; without one, the value.
    pub shown: Option<String>,
    /// Whether it is one of the best.
    pub is_best: bool,
}

impl Bar {
    /// Returns a bar of this length.
    pub fn of(value: Option<f64>) -> Self {
        Self { value: value.filter(|value| value.is_finite() && *value > 0.0), ..Self::default() }
    }

    fn shown(&self) -> String {
        self.shown.clone().or_else(|| self.value.map(rounded)).unwrap_or_default()
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let (low, high) = self.interval.unzip();
        let values = [self.value, self.published, low, high].into_iter().flatten();
        values.filter(|value| value.is_finite() && *value > 0.0)
    }
}

impl Chart {
    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.bars().all(|bar| bar.value.is_none())
    }

    fn present(&self) -> Vec<(usize, &str)> {
        let has = |index: usize| {
            self.groups.iter().any(|group| group.bars.get(index).is_some_and(|bar| bar.value.is_some()))
        };
        let series = self.series.iter().map(String::as_str).enumerate();
        series.filter(|(index, _)| has(*index)).collect()
    }

    /// Draws the chart without its title from `top` on. Returns where it ends.
    pub(crate) fn draw(&self, text: &mut String, top: f64) -> f64 {
        let present = self.present();
        let mut top = self.legend(text, &present, top);
        let is_beside = present.len() == 1 && self.groups.iter().all(|it| length(&it.label) <= BESIDE);
        let (axis, steps, floor) = self.scale(is_beside);
        let height = float(present.len()) * (BAR + GAP);
        for group in &self.groups {
            if is_beside {
                place(text, "", axis.from, -8.0, top + BAR - 3.0, "end", &group.label);
            } else {
                for line in lines(&group.label) {
                    top += LINE;
                    label(text, "", LEFT, top - 2.0, "start", &line);
                }
                top += GAP;
            }
            let ends = (top, top + height);
            steps.iter().for_each(|step| vertical(text, "grid", axis.at(*step), ends));
            for (index, name) in &present {
                if let Some(bar) = group.bars.get(*index) {
                    draw_bar(text, &axis, floor, top, (bar, *index, name));
                }
                top += BAR + GAP;
            }
            if self.is_of_ratios {
                vertical(text, "one", axis.at(1.0), ends);
            }
            top += if is_beside { 0.0 } else { GAP };
        }
        for step in steps {
            place(text, "axis", axis.at(step), 0.0, top + LINE, "middle", &short(step));
        }
        for line in lines(&self.axis) {
            top += LINE;
            label(text, "axis", LEFT, top + LINE, "start", &line);
        }
        top + LINE + 8.0
    }

    /// Returns the axis in per cent of the width, its steps, and the value on which the bars stand.
    fn scale(&self, is_beside: bool) -> (Axis, Vec<f64>, f64) {
        let percent = |pixels: f64| 100.0 * pixels / NARROW;
        let longest = |lengths: &mut dyn Iterator<Item = usize>| float(lengths.max().unwrap_or(0)) * LETTER;
        let labels = longest(&mut self.groups.iter().map(|group| length(&group.label)));
        let from = percent(if is_beside { labels + LEFT } else { LEFT });
        let to = 100.0 - percent(longest(&mut self.bars().map(|bar| length(&bar.shown()))) + LEFT);
        let values = || self.bars().flat_map(Bar::values);
        let least = if self.is_of_ratios { 1.2 } else { f64::MIN_POSITIVE };
        let (highest, lowest) = (values().fold(least, f64::max), values().fold(1.0, f64::min));
        let is_logarithmic = self.is_of_ratios && (highest > STEEP || lowest < 1.0 / STEEP);
        let (low, floor) = if is_logarithmic { (lowest.min(0.9) * 0.85, 1.0) } else { (0.0, 0.0) };
        let axis = Axis { low, high: highest, from, to, is_logarithmic };
        let steps = if is_logarithmic { decades(low, highest) } else { ticks(highest, 5) };
        // Those whose labels would overlap are left out.
        let mut free = f64::MIN;
        let fits = |step: &f64| {
            let fits = *step <= highest && axis.at(*step) >= free;
            free = if fits { axis.at(*step) + percent(5.0 * LETTER) } else { free };
            fits
        };
        let steps = steps.into_iter().filter(fits).collect();
        (axis, steps, floor)
    }

    /// Names the series, the mark and the interval, in as many lines as they need, unless there is one series only.
    fn legend(&self, text: &mut String, present: &[(usize, &str)], top: f64) -> f64 {
        let series = present.iter().filter(|_| present.len() > 1);
        let mut entries: Vec<_> = series.map(|(index, name)| (*name, colour(*index))).collect();
        let has_published = self.bars().any(|bar| bar.published.is_some());
        entries.extend(has_published.then(|| ("published", "mark".to_owned())));
        let has_interval = self.bars().any(|bar| bar.interval.is_some());
        entries.extend(has_interval.then(|| (self.interval, "error".to_owned())));
        let (mut left, mut top) = (LEFT, top + 4.0);
        for (name, class) in &entries {
            let wide = 34.0 + float(length(name)) * LETTER;
            if left > LEFT && left + wide > NARROW {
                (left, top) = (LEFT, top + LINE + GAP);
            }
            let _ = match class.as_str() {
                "mark" => vertical_at(text, "mark", &format!("{}", left + 6.0), (top, top + 12.0)),
                "error" => whisker(text, (&format!("{left}"), &format!("{}", left + 12.0)), top + 6.0),
                _ => writeln!(
                    text,
                    "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"12\" height=\"12\"/>"
                ),
            };
            label(text, "", left + 18.0, top + 10.0, "start", name);
            left += wide;
        }
        if entries.is_empty() { top } else { top + LINE + 6.0 }
    }
}

fn draw_bar(text: &mut String, axis: &Axis, floor: f64, top: f64, (bar, index, name): (&Bar, usize, &str)) {
    if let Some(value) = bar.value {
        let class = if bar.is_best { "best".to_owned() } else { colour(index) };
        let ends = (axis.at(floor), axis.at(value));
        let (x, wide, shown) = (ends.0.min(ends.1), (ends.0 - ends.1).abs(), bar.shown());
        let _ = writeln!(
            text,
            "<rect class=\"{class}\" x=\"{x:.2}%\" y=\"{top:.1}\" width=\"{wide:.2}%\" height=\"{BAR}\"><title>{}: {}</title></rect>",
            escaped(name),
            escaped(&shown)
        );
        let mut end = x + wide;
        if let Some((low, high)) = bar.interval {
            let (low, high) = (axis.at(low.max(axis.low)), axis.at(high));
            let _ = whisker(text, (&format!("{low:.2}%"), &format!("{high:.2}%")), top + BAR / 2.0);
            end = end.max(high);
        }
        place(text, "value", end, 5.0, top + BAR - 3.0, "start", &shown);
    }
    if let Some(published) = bar.published {
        vertical(text, "mark", axis.at(published), (top, top + BAR));
    }
}

fn vertical(text: &mut String, class: &str, percent: f64, ends: (f64, f64)) {
    let _ = vertical_at(text, class, &format!("{percent:.2}%"), ends);
}

fn vertical_at(text: &mut String, class: &str, x: &str, (from, to): (f64, f64)) -> std::fmt::Result {
    writeln!(text, "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"{from:.1}\" y2=\"{to:.1}\"/>")
}

fn whisker(text: &mut String, (low, high): (&str, &str), y: f64) -> std::fmt::Result {
    writeln!(text, "<line class=\"error\" x1=\"{low}\" x2=\"{high}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>")?;
    [low, high].into_iter().try_for_each(|x| vertical_at(text, "error", x, (y - 4.0, y + 4.0)))
}

fn place(text: &mut String, class: &str, percent: f64, beside: f64, y: f64, anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        text,
        "<text class=\"{class}\" x=\"{percent:.2}%\" dx=\"{beside}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

fn colour(index: usize) -> String {
    format!("s{}", index % COLOURS)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn lines(label: &str) -> Vec<String> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of letters")]
    let letters = ((NARROW - LEFT) / LETTER) as usize;
    textwrap::wrap(label, letters).into_iter().map(std::borrow::Cow::into_owned).collect()
}

fn rounded(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> Chart {
        let bar = |value: &f64| Bar { published: Some(2.0), ..Bar::of(Some(*value)) };
        let group =
            |value| Group { label: "a long label & more".to_owned(), bars: vec![bar(value), bar(value)] };
        let series = ["one", "two"].map(str::to_owned).into();
        Chart { series, groups: values.iter().map(group).collect(), is_of_ratios: true, ..Chart::default() }
    }

    fn drawn(chart: &Chart) -> String {
        let mut text = String::new();
        chart.draw(&mut text, 0.0);
        text
    }

    /// Returns the attribute of every bar, in per cent.
    fn of_bars(drawn: &str, attribute: &str) -> Vec<f64> {
        let bars = drawn.lines().filter(|line| line.starts_with("<rect") && line.contains('%'));
        let value = |line: &str| {
            let (_, rest) = line.split_once(&format!(" {attribute}=\""))?;
            rest.split_once("%\"")?.0.parse().ok()
        };
        bars.map(|line| value(line).unwrap()).collect()
    }

    #[test]
    fn bars_are_to_scale_and_stay_in_the_picture() {
        for values in [&[1.0, 2.0, 3.0][..], &[0.05, 1.0, 40.0], &[1e-9, 1e9], &[f64::NAN, 1.0], &[0.0], &[]]
        {
            let drawn = drawn(&chart(values));
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
            for (x, width) in of_bars(&drawn, "x").into_iter().zip(of_bars(&drawn, "width")) {
                assert!(x >= 0.0 && x + width < 90.0, "{x} {width}");
            }
        }
        let widths = of_bars(&drawn(&chart(&[1.0, 2.0, 3.0])), "width");
        assert!((widths[2] / widths[0] - 2.0).abs() < 0.01 && (widths[4] / widths[0] - 3.0).abs() < 0.01);
        // As far above 1 as below it.
        let widths = of_bars(&drawn(&chart(&[0.1, 10.0])), "width");
        assert!((widths[0] - widths[2]).abs() < 0.2, "{widths:?}");
    }

    #[test]
    fn the_legend_names_only_what_is_drawn() {
        let mut chart = chart(&[2.0]);
        chart.groups[0].bars[1] = Bar::of(None);
        chart.groups[0].bars[0].published = None;
        for absent in [">one</text>", ">two</text>", ">published</text>"] {
            assert!(!drawn(&chart).contains(absent), "{absent}");
        }
        chart.groups[0].bars[0].interval = Some((1.0, 3.0));
        chart.interval = "95 %";
        let drawn = drawn(&chart);
        assert!(drawn.contains(">95 %</text>") && drawn.matches("class=\"error\"").count() == 6, "{drawn}");
    }

    #[test]
    fn text_is_escaped_and_wrapped() {
        let drawn = drawn(&chart(&[1.0]));
        assert!(drawn.contains(">a long label &amp; more</text>"), "{drawn}");
        assert!(lines(&"word ".repeat(20)).len() > 1);
    }
}
