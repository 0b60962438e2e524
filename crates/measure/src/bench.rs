//! Workloads and statistics.
//!
//! It knows a target only through the [`Target`] trait, and reads no clock: time is the target's. A workload
//! is a value; the same workload on a target of the same size sends the same requests. Memory does not grow
//! with the number of requests, and no ratio is given without its uncertainty.

pub mod fio;
mod interval;
mod medium;
mod off_boundary;
mod random;
mod rounds;
mod run;
mod samples;
mod surface;
mod sweep;
mod target;
#[cfg(test)]
mod tests;
mod workload;

pub use interval::{Interval, centre, median};
pub use medium::{Reached, WarmUp};
pub use off_boundary::OffBoundary;
pub use rounds::{Ended, FEWEST_ROUNDS, Measured, Order, Turn, Watch, rounds};
pub use run::{Host, Progress, RunError, Silent, run};
pub use samples::{Samples, Stop};
pub use surface::Surface;
pub use sweep::{Arm, Ratio, Sweep, sweep, warm_sweep};
pub use target::{Clock, Description, Modelled, Target, TargetError, complete};
pub use workload::{ForeignParameter, Parameters, Pattern, RANDOM_BLOCKS, Sync, Workload, WorkloadError};
