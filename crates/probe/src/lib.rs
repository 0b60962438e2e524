//! What a drive really does, found out by timing alone.
//!
//! The law of this crate: it knows a drive only as [`straddle_bench::Surface`], by requests and the time they take, and reads no profile, no
//! claim and no counter; claims are compared with what was found at the end. Every finding has its evidence, and where the
//! evidence does not suffice or contradicts itself the finding is that it cannot be told. `docs/probe.md` says how each
//! thing is found and what deceives it.

mod behaviour;
mod budget;
mod error_kind;
mod probe;
mod report;
mod rotation;
mod scan;
mod session;
mod statistics;
mod survey;
mod sustained;

pub use budget::{Budget, ProbeError};
pub use probe::probe;
pub use report::{Claims, Confidence, Finding, Report, Rmw, RmwCost, Rotation, WriteCache};
pub use scan::{Contrast, PhaseScan};
pub use session::Durable;
pub use survey::Survey;
pub use sustained::Sustained;

/// A probe prepares at most so many bytes.
pub const MOST_PREPARED: u64 = session::WINDOW * session::SLOT;
