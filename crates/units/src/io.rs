//! The vocabulary for modelled and real drives: requests, their completions, and counters.
//!
//! Invariants: no I/O; a [`Time`] is on its owner's clock; [`SplitMix64`] makes all workloads, models and tests.

mod counters;
mod latency;
mod request;
mod splitmix;
mod time;

pub use counters::{Counters, Requests};
pub use latency::Latency;
pub use request::{Completion, Operation, Refusal, Request, RequestId};
pub use splitmix::SplitMix64;
pub use time::{Nanos, Time, nanos, rounded};
