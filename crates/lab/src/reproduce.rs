//! Published experiments as data, and their reproduction on models and in guests.
//!
//! Invariants: a published figure is compared and never computed with. An [`experiment`] is a
//! value read from a file. [`experiment::Experiment::reproduce`] runs it on modelled drives. [`lab`] runs
//! those of its steps that need a kernel. [`fit`] finds the numbers of a profile that come nearest to the
//! published figures.

pub mod experiment;
pub mod fit;
pub mod lab;
pub mod policy;

#[allow(clippy::cast_precision_loss, reason = "statistics, to print")]
fn float(number: u64) -> f64 {
    number as f64
}
