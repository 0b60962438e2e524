//! Workloads and statistics on modelled drives, files and devices; what a drive is by timing alone.

pub mod bench;
pub mod probe;
pub mod real;

#[cfg(test)]
extern crate self as straddle_measure;
#[cfg(test)]
#[path = "../tests/measure/mod.rs"]
mod tests;
