//! Published experiments as data, and their reproduction on models and in guests. A published figure is compared,
//! and never computed with.

pub mod experiment;
pub mod fit;
pub mod joint;
pub mod lab;
pub mod policy;

use straddle_measure::bench::float;
