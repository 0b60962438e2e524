//! Workloads and statistics.
//!
//! It knows a target only through the [`Target`] trait, and reads no clock: time is the target's. The same workload
//! on a target of the same size sends the same requests. Memory does not grow with the number of requests, and no
//! ratio is given without its uncertainty.

mod medium;
mod random;
mod rounds;
mod run;
mod sweep;
mod target;
#[cfg(test)]
mod tests;
mod workload;

pub use medium::{OffBoundary, Reached, WarmUp};
pub use rounds::{Ended, FEWEST_ROUNDS, Measured, Order, Turn, Watch, rounds};
pub use run::{Host, Progress, RunError, Samples, Silent, Stop, float, run};
pub use sweep::{Arm, Interval, Ratio, Sweep, centre, median, sweep};
pub use target::{Clock, Description, Modelled, Surface, Target, TargetError, complete};
pub use workload::{ForeignParameter, Parameters, Pattern, RANDOM_BLOCKS, Sync, Workload, WorkloadError};
