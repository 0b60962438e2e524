//! Charts, for the terminal and as SVG.
//!
//! Invariants: it draws the numbers that it is given and knows nothing of their meaning.

pub mod svg;

/// From 0 to `most`: 1, 2, 2.5 or 5 times a power of ten apart, about `wanted` of them.
pub(crate) fn ticks(most: f64, wanted: u32) -> Vec<f64> {
    if most <= 0.0 || !most.is_finite() {
        return vec![0.0];
    }
    let rough = most / f64::from(wanted.max(1));
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let mut ticks = Vec::new();
    for index in 0..100 {
        let tick = f64::from(index) * step;
        // The last tick is at or above the highest number.
        ticks.push(tick);
        if tick >= most * 0.999 {
            break;
        }
    }
    ticks
}

pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) is_logarithmic: bool,
}

impl Axis {
    pub(crate) fn at(&self, number: f64) -> f64 {
        let share = if self.is_logarithmic {
            (number / self.low).ln() / (self.high / self.low).ln()
        } else {
            (number - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }
}

/// From this ratio on a scale of ratios is logarithmic.
const STEEP: f64 = 5.0;

fn decades(low: f64, high: f64) -> Vec<f64> {
    let powers = (-12_i32..=12).map(|exponent| 10_f64.powi(exponent));
    let steps = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * power));
    steps.filter(|step| (low..=high).contains(step)).collect()
}

/// Formats a number for an axis: `1.5`, `20`, `300k`, `2M`.
pub(crate) fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e4 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let text = format!("{scaled:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Returns a bar over `share` of `width` characters; never empty for a share above zero.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let eighths = rounded(share.clamp(0.0, 1.0) * float(width) * 8.0).max(usize::from(share > 0.0));
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8 - 1]));
    bar
}

/// Returns a character whose height shows `share`; the lowest one for none at all.
pub(crate) fn height(share: f64) -> char {
    const HEIGHTS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = rounded(share.clamp(0.0, 1.0) * 8.0).max(usize::from(share > 0.0));
    HEIGHTS.get(eighths).copied().unwrap_or('█')
}

fn float(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

fn rounded(number: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position on a terminal")]
    let whole = number.max(0.0).round() as usize;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps_and_reaches_over_the_highest_number() {
        assert_eq!(ticks(7.3, 4), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(20.0, 4), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(ticks(0.0, 4), [0.0]);
        assert_eq!(ticks(f64::NAN, 4), [0.0]);
        for most in [1e-9, 0.7, 3.0, 99.0, 12_345.0, 1e12] {
            let ticks = ticks(most, 5);
            assert!(*ticks.last().unwrap() >= most * 0.999 && (4..=8).contains(&ticks.len()), "{ticks:?}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 2.5, 1500.0, 20_000.0, 2_075_497.0].map(short),
            ["0", "2.5", "1500", "20k", "2.075M"]
        );
    }

    #[test]
    fn bars_are_to_scale_in_eighths() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(9.0 / 32.0, 4), "█▏");
        assert_eq!(bar(1e-9, 4), "▏");
        assert_eq!([bar(0.0, 4), bar(f64::NAN, 4), bar(-1.0, 4)], ["", "", ""]);
        assert_eq!(bar(7.0, 4), "████");
    }

    /// Bars pass the last filter before stdout unchanged.
    #[test]
    fn no_bar_is_made_of_hidden_characters() {
        for bar in (0..=80).map(|eighths| bar(f64::from(eighths) / 80.0, 10)) {
            assert_eq!(straddle_device::shown::printable(&bar), bar);
        }
    }
}
