//! Modelled drives in virtual time.
//!
//! Invariants: a drive is a deterministic machine. It reads no clock, starts no thread, does no I/O and draws
//! no random number; the same requests at the same times give the same answers to the nanosecond on every machine.
//! The only I/O of the crate is [`Profile::open`] and [`Profile::open_with`], which read a profile's file and
//! the files of its bases; a test enforces this.
//! Requests go in through [`Drive::submit`], time moves only through [`Drive::advance`], and completions come
//! out in order of time. What a drive claims, what it really is, and how long its operations take are three
//! separate things.

pub mod disk;
pub mod disksim;
mod drive;
mod event;
pub mod form;
mod interface;
pub mod profile;
pub mod ssd;

pub use drive::Drive;
pub use event::MediaEvent;
pub use profile::{Profile, ProfileError};
