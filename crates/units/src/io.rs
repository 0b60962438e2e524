//! The vocabulary for modelled and real drives: requests, their completions, and counters.
//!
//! Invariants: it defines terms, not behaviour. It knows neither a model nor a device, does no I/O
//! and reads no clock; a [`Time`] is on whatever clock its owner uses. [`SplitMix64`] is here because
//! workloads, models and tests all draw from seeds and share one generator.

mod counters;
mod latency;
mod request;
mod requests;
mod splitmix;
mod time;

pub use counters::Counters;
pub use latency::Latency;
pub use request::{Completion, Operation, Refusal, Request, RequestId};
pub use requests::Requests;
pub use splitmix::SplitMix64;
pub use time::{Nanos, Time, nanos, rounded};
