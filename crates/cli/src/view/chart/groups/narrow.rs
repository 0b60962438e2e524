//! The same bars for a phone: one below the other, as wide as the page.

use std::fmt::Write;

use super::{Chart, LETTER, LINE, count, entries, is_drawn, key, lines, present, rect, scale, short};
use crate::view::chart::svg::label;
use crate::view::text::number;

/// The width of a phone, without the page's margins.
const WIDTH: f64 = 350.0;
const LEFT: f64 = 10.0;
/// Room for the value of the longest bar.
const RIGHT: f64 = 44.0;
/// The height of a bar, with the space below it.
const BAR: f64 = 18.0;
/// The distance of the labels of the axis: as many letters.
const STEP: f64 = 5.0 * LETTER;

pub(super) fn svg(chart: &Chart<'_>) -> String {
    let mut text = String::new();
    let mut top = legend(&mut text, chart);
    let (axis, steps, floor) = scale(chart, LEFT, WIDTH - RIGHT);
    let first = top;
    for group in &chart.groups {
        for line in lines(group.label, WIDTH - LEFT) {
            top += LINE;
            label(&mut text, "", LEFT, top - 2.0, "start", &line);
        }
        top += 4.0;
        for (index, name) in present(chart) {
            let Some(bar) = group.bars.get(index) else { continue };
            let tall = BAR - 4.0;
            let drawn = bar.value.filter(|value| is_drawn(*value));
            if let Some(value) = drawn {
                let (ends, shown) = ((axis.at(floor), axis.at(value)), short(value));
                let (x, wide) = (ends.0.min(ends.1), (ends.0 - ends.1).abs());
                let place = format!("x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"");
                rect(&mut text, index, &place, name, &shown);
                label(&mut text, "value", x + wide + 4.0, top + tall - 3.0, "start", &shown);
            }
            if let Some(value) = bar.published.filter(|value| is_drawn(*value)) {
                let _ =
                    writeln!(text, "<path class=\"mark\" d=\"M{:.1} {top:.1}v{tall:.1}\"/>", axis.at(value));
            }
            top += BAR;
        }
        top += 6.0;
    }
    let one = axis.at(1.0);
    let _ = writeln!(text, "<path class=\"one\" d=\"M{one:.1} {first:.1}V{top:.1}\"/>");
    // Labels that would overlap are left out.
    let mut free = f64::MIN;
    for step in steps {
        let x = axis.at(step);
        if x >= free {
            label(&mut text, "axis", x, top + LINE, "middle", &number(step));
            free = x + STEP;
        }
    }
    for line in lines(chart.axis, WIDTH - LEFT) {
        top += LINE;
        label(&mut text, "axis", LEFT, top + LINE, "start", &line);
    }
    super::begin("narrow", chart, WIDTH, top + LINE + 8.0) + &text + "</svg>\n"
}

/// Draws the legend in as many lines as it needs. Returns where it ends.
fn legend(text: &mut String, chart: &Chart<'_>) -> f64 {
    let (mut left, mut top) = (LEFT, 4.0);
    for (name, index) in entries(chart) {
        let wide = 34.0 + count(name.chars().count()) * LETTER;
        if left > LEFT && left + wide > WIDTH {
            (left, top) = (LEFT, top + LINE + 4.0);
        }
        key(text, (left, top), name, index);
        left += wide;
    }
    top + LINE + 6.0
}
