//! What this machine does with two fixed programs, so that figures of different machines can be compared: one keeps the
//! processor's integer units busy, the other one waits for memory.

use std::hint::black_box;
use std::time::Instant;

use straddle_units::io::SplitMix64;

use crate::samples::Samples;

/// Rounds, of which the median counts.
const ROUNDS: usize = 5;
/// Steps of the integer loop: a tenth of a second.
const STEPS: u32 = 40_000_000;
/// Cells of the walk, of four bytes: 64 MiB, more than caches hold.
const CELLS: u32 = 1 << 24;
/// Steps of the walk.
const READS: u32 = 1_000_000;

/// Prints nanoseconds per step of both.
pub(crate) fn print() {
    let walk = cycle(CELLS);
    let (integers, memory) = (median(|| integers(STEPS), STEPS), median(|| walked(&walk, READS), READS));
    println!(
        "calibration: {integers:.2} ns a step of dependent integer arithmetic, {memory:.1} ns a dependent \
         read at random in 64 MiB"
    );
}

/// The median of nanoseconds for each of the `steps`.
fn median(run: impl Fn() -> u64, steps: u32) -> f64 {
    let mut rounds = Samples::new("calibration");
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        black_box(run());
        rounds.add(begun.elapsed(), 0);
    }
    rounds.median() * 1e9 / f64::from(steps)
}

/// Six operations, each of which needs the result of the one before.
fn integers(steps: u32) -> u64 {
    let mut value = black_box(1_u64);
    for step in 0..steps {
        value = (value.rotate_left(13) ^ u64::from(step)).wrapping_add(value >> 7) ^ (value << 5);
    }
    value
}

/// A permutation of one cycle, by Sattolo's algorithm: a walk along it comes to every cell.
fn cycle(cells: u32) -> Vec<u32> {
    let mut next: Vec<u32> = (0..cells).collect();
    let mut random = SplitMix64::new(1);
    for last in (1..next.len()).rev() {
        next.swap(last, usize::try_from(random.below(last as u64)).unwrap_or(0));
    }
    next
}

fn walked(next: &[u32], reads: u32) -> u64 {
    let mut at = 0_u32;
    for _ in 0..reads {
        at = next[at as usize];
    }
    u64::from(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_comes_to_every_cell() {
        let (next, mut at) = (cycle(1000), 0);
        for step in 1..=1000_u32 {
            at = next[at as usize];
            assert_eq!(at == 0, step == 1000);
        }
    }
}
