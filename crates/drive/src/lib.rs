//! Modelled drives in virtual time.
//!
//! The law of this crate: a drive is a deterministic machine. It reads no clock, starts no thread, does no I/O and draws
//! no random number; the same requests at the same times give the same answers to the nanosecond on every machine.
//! Requests go in by [`Drive::submit`], time moves only by [`Drive::advance`], and completions come out in order. What a
//! drive claims, what it is, and what it charges are three separate things.

mod counters;
pub mod disk;
pub mod disksim;
mod drive;
pub mod profile;
mod request;
pub mod ssd;
mod time;

pub use counters::Counters;
pub use drive::Drive;
pub use profile::{Profile, ProfileError};
pub use request::{Completion, MediaEvent, Operation, Refusal, Request, RequestId};
pub use time::{Nanos, Time};
