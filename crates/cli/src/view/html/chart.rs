//! Bars in groups, as SVG inside a page; the page's style sheet gives the colours.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::escaped;
use crate::view::text::reproduce::number;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 380;
/// From this ratio on the scale is logarithmic.
const STEEP: f64 = 5.0;
/// As many colours as the style sheet has.
const COLOURS: usize = 6;

/// Colours that stand for the style sheet's: plotters knows no variables, so they are put in afterwards.
const INK: RGBColor = RGBColor(1, 2, 0);
const SOFT: RGBColor = RGBColor(1, 2, 1);
const LINE: RGBColor = RGBColor(1, 2, 2);
const fn series(index: usize) -> RGBColor {
    const ALL: [RGBColor; COLOURS] = [
        RGBColor(1, 3, 0),
        RGBColor(1, 3, 1),
        RGBColor(1, 3, 2),
        RGBColor(1, 3, 3),
        RGBColor(1, 3, 4),
        RGBColor(1, 3, 5),
    ];
    ALL[index % COLOURS]
}

/// Ratios, a bar each.
pub(super) struct Chart<'a> {
    /// Read by those who do not see it.
    pub(super) title: &'a str,
    /// What the bars of each group are.
    pub(super) series: Vec<&'a str>,
    pub(super) groups: Vec<Group<'a>>,
}

/// Bars beside each other, one of each series.
pub(super) struct Group<'a> {
    pub(super) label: &'a str,
    pub(super) bars: Vec<Bar>,
}

/// A bar; nothing where there is no figure.
#[derive(Clone, Copy, Default)]
pub(super) struct Bar {
    pub(super) value: Option<f64>,
    /// Marked across it.
    pub(super) published: Option<f64>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// The chart as an SVG element. There is nothing in it that could fail; where it does, the tables have to do.
pub(super) fn svg(chart: &Chart<'_>) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        let drawn = draw(chart, &area).and_then(|()| area.present());
        if drawn.is_err() {
            return String::new();
        }
    }
    for (colour, variable) in [(INK, "ink".to_owned()), (SOFT, "soft".to_owned()), (LINE, "line".to_owned())]
        .into_iter()
        .chain((0..COLOURS).map(|index| (series(index), format!("s{index}"))))
    {
        let RGBColor(red, green, blue) = colour;
        text = text.replace(&format!("#{red:02X}{green:02X}{blue:02X}"), &format!("var(--{variable})"));
    }
    let title = escaped(chart.title);
    let text = text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1);
    text.replacen('>', &format!("><title>{title}</title>"), 1)
}

/// Every value that has to be in the picture.
fn values<'a>(chart: &'a Chart<'_>) -> impl Iterator<Item = f64> + 'a {
    let bars = chart.groups.iter().flat_map(|group| &group.bars);
    bars.flat_map(|bar| [bar.value, bar.published])
        .flatten()
        .filter(|value| value.is_finite() && *value > 0.0)
}

fn draw<'a>(chart: &Chart<'_>, area: &Area<'a>) -> Result<(), Failure<'a>> {
    let highest = values(chart).fold(1.2, f64::max);
    let lowest = values(chart).fold(1.0, f64::min);
    legend(chart, area)?;
    if highest > STEEP || lowest < 1.0 / STEEP {
        // The bars stand on 1: above it misalignment costs, below it does not.
        bars(chart, area, (lowest.min(0.9) * 0.85..highest * 1.4).log_scale(), (lowest.min(0.9) * 0.85, 1.0))
    } else {
        bars(chart, area, 0.0..highest * 1.15, (0.0, 0.0))
    }
}

/// The names of the series with their colours, above the bars.
fn legend<'a>(chart: &Chart<'_>, area: &Area<'a>) -> Result<(), Failure<'a>> {
    let mut left = 60;
    let named = chart.series.iter().enumerate().map(|(index, name)| (*name, Some(index)));
    let marked = chart.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.published.is_some());
    for (name, colour) in named.chain(marked.then_some(("published", None))) {
        match colour {
            Some(index) => {
                area.draw(&Rectangle::new([(left, 8), (left + 12, 20)], series(index).filled()))?;
            }
            None => area.draw(&PathElement::new([(left, 14), (left + 12, 14)], INK.stroke_width(3)))?,
        }
        let style = text_style(13.0, INK, HPos::Left, VPos::Center);
        area.draw(&Text::new(name.to_owned(), (left + 18, 14), style))?;
        let letters = i32::try_from(name.chars().count()).unwrap_or(0);
        left += 40 + letters * 8;
    }
    Ok(())
}

fn text_style(size: f64, colour: RGBColor, across: HPos, down: VPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour).pos(Pos::new(across, down))
}

/// The axis and the bars; `bottom` is the lower end of the axis, and what the bars stand on.
fn bars<'a, Y>(
    chart: &Chart<'_>,
    area: &Area<'a>,
    axis: Y,
    (lowest, floor): (f64, f64),
) -> Result<(), Failure<'a>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let number_of = |count: usize| u32::try_from(count).map_or(1.0, f64::from);
    let groups = number_of(chart.groups.len().max(1));
    let mut builder = ChartBuilder::on(area);
    let mut context = builder
        .margin_top(30)
        .margin_right(12)
        .y_label_area_size(56)
        .x_label_area_size(34)
        .build_cartesian_2d(0.0..groups, axis)?;
    context
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LINE)
        .axis_style(LINE)
        .y_labels(8)
        .y_label_style(text_style(12.0, SOFT, HPos::Right, VPos::Center))
        .y_label_formatter(&|value: &f64| number(*value))
        .draw()?;
    context.draw_series([PathElement::new([(0.0, 1.0), (groups, 1.0)], SOFT.stroke_width(1))])?;
    for (group, position) in chart.groups.iter().zip(0_u32..) {
        let count = number_of(group.bars.len().max(1));
        // One or two bars do not fill the picture.
        let width = (0.8 / count).min(0.1 * groups);
        let left = f64::from(position) + 0.5 - width * count / 2.0;
        let label = text_style(13.0, INK, HPos::Center, VPos::Top);
        let at = (f64::from(position) + 0.5, lowest);
        context.draw_series([EmptyElement::at(at) + Text::new(group.label.to_owned(), (0, 9), label)])?;
        for ((bar, index), place) in group.bars.iter().zip(0..).zip(0_u32..) {
            let left = left + f64::from(place) * width;
            let (from, to) = (left + width * 0.06, left + width * 0.94);
            if let Some(value) = bar.value.filter(|value| value.is_finite() && *value > 0.0) {
                context
                    .draw_series([Rectangle::new([(from, floor), (to, value)], series(index).filled())])?;
                let (down, offset) = if value < floor { (VPos::Top, 3) } else { (VPos::Bottom, -3) };
                let style = text_style(11.0, INK, HPos::Center, down);
                let at = (f64::midpoint(from, to), value);
                context.draw_series([
                    EmptyElement::at(at) + Text::new(number_short(value), (0, offset), style)
                ])?;
            }
            if let Some(value) = bar.published {
                context.draw_series([PathElement::new([(from, value), (to, value)], INK.stroke_width(3))])?;
            }
        }
    }
    Ok(())
}

/// With two or three figures: there is little room over a bar.
fn number_short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
