//! The search: a grid over the whole range, then smaller and smaller steps from its best points.
//!
//! Time as a function of a knob is a staircase: a sector is either just reached or missed by a revolution. So a point
//! is judged by the worst of a value and of those [`MARGIN`] to either side, which puts the values into the middle of
//! a step.

use std::collections::BTreeMap;

use rayon::prelude::*;
use straddle_drive::profile::Knob;
use straddle_measure::bench::Progress;

use crate::reproduce::float;

/// How far to either side a value is also tried.
pub(super) const MARGIN: f64 = 0.03;
/// Smaller differences between values are not searched.
const RESOLUTION: f64 = 0.01;
const GRID: usize = 64;
/// Best points of the grid from which the refinement starts.
const STARTS: usize = 3;
const TOGETHER: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) values: Vec<f64>,
    pub(super) worst_nearby: f64,
    pub(super) evaluations: usize,
}

/// The position of each knob between its bounds, 0 to 1 on a logarithmic scale.
type Point = Vec<f64>;

type Worst<'a> = dyn Fn(&[f64], f64) -> f64 + Sync + 'a;

struct Search<'a> {
    knobs: &'a [Knob],
    worst: &'a Worst<'a>,
    /// The smallest worst error so far. A point that is worse on its own is neither the best nor beside it.
    least: f64,
    /// Each with the bound up to which it was computed. The key is the bits of the values; for positive numbers they
    /// sort as the numbers do.
    known: BTreeMap<Vec<u64>, (f64, f64)>,
}

/// Finds the values with the smallest `worst`, whatever the profile's present values.
pub(super) fn search(knobs: &[Knob], worst: &Worst<'_>, progress: &mut dyn Progress) -> Found {
    let mut search = Search { knobs, worst, least: f64::INFINITY, known: BTreeMap::new() };
    if knobs.is_empty() {
        let worst_nearby = search.nearby(&[Point::new()])[0];
        return Found { values: Vec::new(), worst_nearby, evaluations: search.known.len() };
    }
    let each = points_each(knobs.len());
    let starts = search.coarse(grid(knobs.len(), each), progress);
    let (count, mut best) = (float(starts.len() as u64), (f64::INFINITY, Point::new()));
    for (index, start) in starts.into_iter().enumerate() {
        let (worst, point) = search.refine(start, 0.5 / float(each as u64 - 1));
        if index == 0 || worst < best.0 {
            best = (worst, point);
        }
        progress.advance(0.5 + 0.5 * float(index as u64 + 1) / count);
    }
    Found { values: search.values(&best.1), worst_nearby: best.0, evaluations: search.known.len() }
}

fn points_each(knobs: usize) -> usize {
    let fits = |each: &usize| {
        u32::try_from(knobs).ok().and_then(|knobs| each.checked_pow(knobs)).is_some_and(|all| all <= GRID)
    };
    (2..=GRID / 4).rev().find(fits).unwrap_or(2)
}

/// Returns every point with one of these positions along each axis.
fn product(axes: impl Iterator<Item = Vec<f64>>) -> Vec<Point> {
    axes.fold(vec![Point::new()], |points, axis| {
        let longer = |point: &Point| axis.iter().map(|at| [&point[..], &[*at]].concat()).collect::<Vec<_>>();
        points.iter().flat_map(longer).collect()
    })
}

fn grid(knobs: usize, each: usize) -> Vec<Point> {
    let axis = (0..each).map(|index| float(index as u64) / float(each as u64 - 1)).collect();
    product(std::iter::repeat_n(axis, knobs))
}

/// Rounds to three digits, and to a whole number if the knob requires one.
fn rounded(knob: &Knob, value: f64) -> f64 {
    let three = 10_f64.powf(value.log10().floor() - 2.0);
    let digits = if knob.whole { three.max(1.0) } else { three };
    let rounded = (value / digits).round() * digits;
    // Converting through text drops the digits of the binary fraction.
    let written = format!("{rounded:.9}").parse().unwrap_or(rounded);
    f64::clamp(written, knob.low, knob.high)
}

impl Search<'_> {
    fn values(&self, point: &Point) -> Vec<f64> {
        let value = |(knob, at): (&Knob, &f64)| rounded(knob, knob.low * (knob.high / knob.low).powf(*at));
        self.knobs.iter().zip(point).map(value).collect()
    }

    /// Cached or computed in parallel; infinite above `bound`.
    fn evaluate(&mut self, all: &[Vec<f64>], bound: f64) -> Vec<f64> {
        let key = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
        let mut new: BTreeMap<Vec<u64>, &Vec<f64>> = BTreeMap::new();
        for values in all {
            let key = key(values);
            if self.known.get(&key).is_none_or(|(error, up_to)| error.is_infinite() && *up_to < bound) {
                new.insert(key, values);
            }
        }
        let compute = |(key, values): (Vec<u64>, &Vec<f64>)| (key, ((self.worst)(values, bound), bound));
        let computed: Vec<_> = new.into_par_iter().map(compute).collect();
        self.known.extend(computed);
        let error =
            |values: &Vec<f64>| self.known.get(&key(values)).map_or(f64::INFINITY, |(error, _)| *error);
        all.iter().map(error).collect()
    }

    fn coarse(&mut self, grid: Vec<Point>, progress: &mut dyn Progress) -> Vec<Point> {
        let (mut best, mut done, all) = (Vec::<(f64, Point)>::new(), 0_u64, float(grid.len() as u64));
        for part in grid.chunks(TOGETHER) {
            let bound = if best.len() < STARTS { f64::INFINITY } else { best[STARTS - 1].0 };
            let values: Vec<_> = part.iter().map(|point| self.values(point)).collect();
            best.extend(self.evaluate(&values, bound).into_iter().zip(part.iter().cloned()));
            best.sort_by(|one, other| one.0.total_cmp(&other.0));
            best.truncate(STARTS);
            done += part.len() as u64;
            progress.advance(0.5 * float(done) / all);
        }
        best.into_iter().map(|(_, point)| point).collect()
    }

    /// Returns the worst error at and around each point; infinite if the point itself is no better than the best so
    /// far.
    fn nearby(&mut self, points: &[Point]) -> Vec<f64> {
        let bound = self.least;
        let values: Vec<_> = points.iter().map(|point| self.values(point)).collect();
        let own = self.evaluate(&values, bound);
        let (mut around, mut owner) = (Vec::new(), Vec::new());
        for (index, values) in values.iter().enumerate().filter(|(index, _)| own[*index] < bound) {
            for (knob, factor) in
                (0..values.len()).flat_map(|knob| [(knob, 1.0 - MARGIN), (knob, 1.0 + MARGIN)])
            {
                let mut other = values.clone();
                other[knob] = rounded(&self.knobs[knob], other[knob] * factor);
                around.push(other);
                owner.push(index);
            }
        }
        let errors = self.evaluate(&around, bound);
        let mut worst: Vec<f64> =
            own.into_iter().map(|own| if own < bound { own } else { f64::INFINITY }).collect();
        for (index, error) in owner.into_iter().zip(errors) {
            worst[index] = worst[index].max(error);
        }
        self.least = worst.iter().copied().fold(self.least, f64::min);
        worst
    }

    /// Descends from `point` in steps of `step`, halved whenever no direction improves.
    fn refine(&mut self, mut point: Point, mut step: f64) -> (f64, Point) {
        let mut least = self.nearby(&[point.clone()])[0];
        let longest = self.knobs.iter().map(|knob| (knob.high / knob.low).ln()).fold(0.0, f64::max);
        while step * longest >= RESOLUTION {
            let candidates = neighbours(&point, step);
            let errors = self.nearby(&candidates);
            let best = (0..candidates.len()).min_by(|one, other| errors[*one].total_cmp(&errors[*other]));
            match best.filter(|best| errors[*best] < least) {
                Some(best) => (least, point) = (errors[best], candidates[best].clone()),
                None => step /= 2.0,
            }
        }
        (least, point)
    }
}

/// Returns the points one step away along the axes and diagonals, within the bounds.
fn neighbours(point: &Point, step: f64) -> Vec<Point> {
    let axes = point.iter().map(|at| [-step, 0.0, step].map(|change| (at + change).clamp(0.0, 1.0)).into());
    let mut points = product(axes);
    points.retain(|other| other != point);
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use straddle_measure::bench::Silent;

    fn knob(low: f64, high: f64, whole: bool) -> Knob {
        Knob { path: "x".to_owned(), low, high, whole }
    }

    #[test]
    fn a_smooth_valley_is_found_to_the_resolution() {
        let knobs = [knob(10.0, 1000.0, false), knob(1.0, 300.0, true)];
        let worst = |values: &[f64], _: f64| (values[0] / 345.0).ln().abs() + (values[1] / 77.0).ln().abs();
        let found = search(&knobs, &worst, &mut Silent);
        assert!((found.values[0] / 345.0 - 1.0).abs() < 2.0 * RESOLUTION, "{found:?}");
        assert!((found.values[1] - 77.0).abs() <= 1.0, "{found:?}");
        assert_eq!(found.values[1].fract(), 0.0);
        assert!(found.evaluations < 1000, "{found:?}");
        assert_eq!(found, search(&knobs, &worst, &mut Silent), "no chance in it");
    }

    #[test]
    fn the_middle_of_a_step_is_better_than_its_edge() {
        // The minimum is next to a cliff. The wide plain is a little worse.
        let knobs = [knob(100.0, 1000.0, false)];
        let worst = |values: &[f64], _: f64| match values[0] {
            value if value < 300.0 => 1.0,
            value if value < 304.0 => 0.01,
            value if value < 400.0 => 0.05,
            _ => 0.5,
        };
        let found = search(&knobs, &worst, &mut Silent);
        assert!((313.0..389.0).contains(&found.values[0]), "{found:?}");
        assert!((found.worst_nearby - 0.05).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn no_knob_is_no_search() {
        let found = search(&[], &|_: &[f64], _: f64| 0.25, &mut Silent);
        assert_eq!((found.values.len(), found.worst_nearby, found.evaluations), (0, 0.25, 1));
    }

    #[test]
    fn values_are_as_they_would_be_written() {
        let knob = knob(0.001, 10_000.0, false);
        for (value, written) in [(512.345, "512"), (1234.5, "1230"), (0.012_345, "0.0123"), (99.96, "100")] {
            assert_eq!(rounded(&knob, value).to_string(), written);
        }
    }
}
