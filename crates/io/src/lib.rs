//! The vocabulary of modelled and real drives: what is asked of a drive, when it answered, and what it counted.
//!
//! The law of this crate: it holds words, not behaviour. It knows neither a model nor a device, does no I/O and reads no clock; a
//! [`Time`] is whatever clock its owner has. [`SplitMix64`] is here because workloads, models and tests draw by seed, and there is
//! one generator for all of them.

mod counters;
mod latency;
mod request;
mod splitmix;
mod time;

pub use counters::Counters;
pub use latency::Latency;
pub use request::{Completion, Operation, Refusal, Request, RequestId};
pub use splitmix::SplitMix64;
pub use time::{Nanos, Time};
