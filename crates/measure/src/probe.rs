//! Finds out what a drive really does, by timing alone.
//!
//! It reads no profile, no claim and no counter; claims are compared with the findings at the end. Every finding
//! carries its evidence, or is that the property cannot be determined. `docs/probe.md` says how each property is
//! found and what can mislead the probe.

mod report;
mod scan;
mod session;
mod statistics;
mod steps;
mod survey;
mod sustained;

pub use report::{Claims, Confidence, Finding, Report, Rmw, RmwCost, Rotation, WriteCache};
pub use scan::{Contrast, PhaseScan};
pub use session::{Budget, ProbeError};
pub use steps::probe;
pub use sustained::Sustained;
