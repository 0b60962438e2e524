//! Published experiments as data, and their reproduction on models and in guests. A published figure is compared,
//! and never computed with.

pub mod experiment;
pub mod fit;
pub mod joint;
pub mod lab;
pub mod policy;

#[allow(clippy::cast_precision_loss, reason = "statistics, to print")]
fn float(number: u64) -> f64 {
    number as f64
}
