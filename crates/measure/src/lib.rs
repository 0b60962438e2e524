//! Workloads and statistics on modelled drives, files and devices; what a drive is by timing alone.

pub mod bench;
pub mod probe;
pub mod real;
