//! Bars in groups, as SVG inside a page. The page's style sheet gives the colours.

mod narrow;

use std::fmt::Write;

use crate::view::chart::svg::{Axis, grid, label};
use crate::view::chart::{STEEP, decades, ticks};
use crate::view::markup::escaped;
use crate::view::text::number;

/// No wider than the page, so that text is not drawn smaller than it is.
const WIDTH: f64 = 930.0;
/// Height of the bars' area, without the text above and below.
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
/// Height of the legend.
const TOP: f64 = 34.0;
/// Number of colours in the style sheet.
const COLOURS: usize = 6;
/// Approximate width of a letter, and height of a line.
const LETTER: f64 = 7.5;
const LINE: f64 = 16.0;
/// The narrowest bar with its value above it.
const VALUE: f64 = 28.0;

/// Ratios to compare, as groups of bars.
pub struct Chart<'a> {
    /// The title.
    pub title: &'a str,
    /// What the bars show.
    pub axis: &'a str,
    /// What the bars of each group are, in order.
    pub series: Vec<&'a str>,
    /// The groups, from left to right.
    pub groups: Vec<Group<'a>>,
}

/// Bars side by side.
pub struct Group<'a> {
    /// The label below the bars.
    pub label: &'a str,
    /// One bar per series.
    pub bars: Vec<Bar>,
}

/// A bar, with a mark at the published value.
#[derive(Clone, Copy)]
pub struct Bar {
    /// The height, if there is a value.
    pub value: Option<f64>,
    /// The published value, if there is one.
    pub published: Option<f64>,
}

/// Draws the chart as two SVG elements, of which the page's style sheet shows one: groups side by side where there
/// is room for text of its full size, and bars below each other on a phone.
pub fn svg(chart: &Chart<'_>) -> String {
    wide(chart) + &narrow::svg(chart)
}

fn begin(class: &str, chart: &Chart<'_>, width: f64, height: f64) -> String {
    let title = escaped(chart.title);
    format!(
        "<svg class=\"chart {class}\" role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {width} {height}\"><title>{title}</title>\n"
    )
}

fn wide(chart: &Chart<'_>) -> String {
    let each = (WIDTH - LEFT - RIGHT) / count(chart.groups.len());
    let labels: Vec<Vec<String>> = chart.groups.iter().map(|group| lines(group.label, each)).collect();
    let under = labels.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let bottom = TOP + HEIGHT;
    let mut text = begin("wide", chart, WIDTH, bottom + 6.0 + LINE * count(under));
    legend(&mut text, chart);
    let _ = writeln!(
        text,
        "<text class=\"axis\" transform=\"translate(16 {:.1})rotate(-90)\" text-anchor=\"middle\">{}</text>",
        TOP + HEIGHT / 2.0,
        escaped(chart.axis)
    );
    let (axis, steps, floor) = scale(chart, bottom, TOP);
    grid(&mut text, &axis, &steps, LEFT, WIDTH - RIGHT, number);
    let one = axis.at(1.0);
    let _ = writeln!(text, "<path class=\"one\" d=\"M{LEFT} {one:.1}H{:.1}\"/>", WIDTH - RIGHT);
    let mut left = LEFT;
    for (group, lines) in chart.groups.iter().zip(&labels) {
        bars(&mut text, &axis, floor, (left, each), chart, group);
        let mut baseline = bottom;
        for line in lines {
            baseline += LINE;
            label(&mut text, "", left + each / 2.0, baseline, "middle", line);
        }
        left += each;
    }
    text + "</svg>\n"
}

/// The series that have a bar, with their numbers.
fn present<'a>(chart: &'a Chart<'_>) -> impl Iterator<Item = (usize, &'a str)> {
    let is_drawn = |index: usize| {
        chart.groups.iter().filter_map(move |group| group.bars.get(index)?.value).any(is_drawn)
    };
    chart.series.iter().copied().enumerate().filter(move |(index, _)| is_drawn(*index))
}

/// The entries of the legend: the series with their colours, and the mark.
fn entries<'a>(chart: &'a Chart<'_>) -> impl Iterator<Item = (&'a str, Option<usize>)> {
    let is_marked = chart.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.published.is_some());
    let series = present(chart).map(|(index, name)| (name, Some(index)));
    series.chain(is_marked.then_some(("published", None)))
}

fn count(count: usize) -> f64 {
    u32::try_from(count.max(1)).map_or(1.0, f64::from)
}

/// Wraps a label into lines that fit below its group.
fn lines(label: &str, width: f64) -> Vec<String> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of letters")]
    let letters = (width / LETTER).max(1.0) as usize;
    textwrap::wrap(label, letters).into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// Returns every value that has to be in the picture.
fn values<'a>(chart: &'a Chart<'_>) -> impl Iterator<Item = f64> + 'a {
    let bars = chart.groups.iter().flat_map(|group| &group.bars);
    bars.flat_map(|bar| [bar.value, bar.published]).flatten().filter(|value| is_drawn(*value))
}

fn is_drawn(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Returns the axis between two places, its steps, and the value on which the bars stand.
fn scale(chart: &Chart<'_>, from: f64, to: f64) -> (Axis, Vec<f64>, f64) {
    let highest = values(chart).fold(1.2, f64::max);
    let lowest = values(chart).fold(1.0, f64::min);
    if highest > STEEP || lowest < 1.0 / STEEP {
        // The bars stand on 1: above it misalignment costs time, below it does not.
        let (low, high) = (lowest.min(0.9) * 0.85, highest * 1.4);
        return (Axis { low, high, from, to, is_logarithmic: true }, decades(low, high), 1.0);
    }
    let high = highest * 1.15;
    let steps = ticks(high, 7).into_iter().filter(|step| *step <= high).collect();
    (Axis { low: 0.0, high, from, to, is_logarithmic: false }, steps, 0.0)
}

fn legend(text: &mut String, chart: &Chart<'_>) {
    let mut left = LEFT;
    for (name, index) in entries(chart) {
        key(text, (left, 6.0), name, index);
        left += 40.0 + count(name.chars().count()) * LETTER;
    }
}

fn key(text: &mut String, (left, top): (f64, f64), name: &str, index: Option<usize>) {
    let _ = match index {
        Some(index) => {
            let colour = index % COLOURS;
            writeln!(
                text,
                "<rect class=\"key s{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"12\" height=\"12\"/>"
            )
        }
        None => writeln!(text, "<path class=\"mark\" d=\"M{left:.1} {:.1}h12\"/>", top + 6.0),
    };
    label(text, "", left + 18.0, top + 10.0, "start", name);
}

/// Draws the bars of a group within `room` from `left` on, each with its value and mark.
fn bars(
    text: &mut String,
    axis: &Axis,
    floor: f64,
    (left, room): (f64, f64),
    chart: &Chart<'_>,
    group: &Group<'_>,
) {
    let series: Vec<_> = present(chart).collect();
    let bars = count(series.len());
    // Limit the width: one or two bars do not fill the picture.
    let width = (room * 0.8 / bars).min((WIDTH - LEFT - RIGHT) * 0.1);
    let mut from = left + (room - width * bars) / 2.0;
    for (index, name) in series {
        let (x, wide) = (from + width * 0.06, width * 0.88);
        from += width;
        let Some(bar) = group.bars.get(index) else { continue };
        if let Some(value) = bar.value.filter(|value| is_drawn(*value)) {
            let (ends, shown) = ((axis.at(floor), axis.at(value)), short(value));
            let (y, tall) = (ends.0.min(ends.1), (ends.0 - ends.1).abs());
            let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"");
            rect(text, index, &place, name, &shown);
            let baseline = if value < floor { y + tall + 13.0 } else { y - 4.0 };
            // Values of narrower bars would overlap: the table below the chart has them.
            if width >= VALUE {
                label(text, "value", x + wide / 2.0, baseline, "middle", &shown);
            }
        }
        if let Some(value) = bar.published.filter(|value| is_drawn(*value)) {
            let _ = writeln!(text, "<path class=\"mark\" d=\"M{x:.1} {:.1}h{wide:.1}\"/>", axis.at(value));
        }
    }
}

/// Draws a bar that names itself.
fn rect(text: &mut String, index: usize, place: &str, name: &str, shown: &str) {
    let _ = writeln!(
        text,
        "<rect class=\"s{}\" {place}><title>{}: {shown}</title></rect>",
        index % COLOURS,
        escaped(name)
    );
}

/// Formats a value with at most two decimals, as there is little room over a bar.
fn short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64]) -> String {
        let bars = |value: &f64| vec![Bar { value: Some(*value), published: Some(2.0) }; 2];
        let groups = values.iter().map(|value| Group { label: "a long label & more", bars: bars(value) });
        wide(&Chart { title: "t", axis: "a", series: vec!["one", "two"], groups: groups.collect() })
    }

    /// Returns the attribute of every bar.
    fn of_bars(drawn: &str, attribute: &str) -> Vec<f64> {
        let rects = drawn.lines().filter(|line| line.starts_with("<rect class=\"s"));
        let value = |line: &str| {
            let (_, rest) = line.split_once(&format!(" {attribute}=\""))?;
            rest.split_once('"')?.0.parse().ok()
        };
        rects.map(|line| value(line).unwrap()).collect()
    }

    #[test]
    fn a_label_is_wrapped_where_its_group_is_narrow() {
        assert!(drawn(&[1.0]).contains(">a long label &amp; more</text>"));
        let narrow = drawn(&[1.0; 12]);
        assert!(narrow.contains(">a long</text>") && narrow.contains(">label &amp;</text>"), "{narrow}");
    }

    #[test]
    fn bars_are_to_scale_and_stay_in_the_picture() {
        for values in [&[1.0, 2.0, 3.0][..], &[0.05, 1.0, 40.0], &[1e-9, 1e9], &[f64::NAN, 1.0], &[]] {
            let drawn = drawn(values);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
            for (y, height) in of_bars(&drawn, "y").into_iter().zip(of_bars(&drawn, "height")) {
                assert!(y >= TOP - 0.1 && y + height <= TOP + HEIGHT + 0.1, "{y} {height}");
            }
        }
        let heights = of_bars(&drawn(&[1.0, 2.0, 3.0]), "height");
        assert!((heights[2] / heights[0] - 2.0).abs() < 0.01 && (heights[4] / heights[0] - 3.0).abs() < 0.01);
        // As far above 1 as below it.
        let heights = of_bars(&drawn(&[0.1, 10.0]), "height");
        assert!((heights[0] - heights[2]).abs() < 0.2, "{heights:?}");
    }

    #[test]
    fn the_legend_names_only_what_is_drawn() {
        let bars = vec![Bar { value: Some(2.0), published: None }, Bar { value: None, published: None }];
        let groups = vec![Group { label: "g", bars }];
        let drawn = svg(&Chart { title: "t", axis: "ratio", series: vec!["modelled", "published"], groups });
        assert_eq!(drawn.matches(">modelled</text>").count(), 2);
        assert!(!drawn.contains(">published</text>"), "{drawn}");
        assert_eq!(drawn.matches(">ratio</text>").count(), 2);
    }
}
