//! Modelled drives in virtual time.
//!
//! A drive is a deterministic machine. It reads no clock, starts no thread, does no I/O and draws no random
//! number; the same requests at the same times give the same answers to the nanosecond on every machine. Only
//! [`Profile::open`] and its siblings read files; a test enforces this. Requests go in through
//! [`Drive::submit`], time moves only through [`Drive::advance`], and completions come out in order of time.
//!
//! A write that starts inside a physical sector makes the drive read that sector first:
//!
//! ```
//! use straddle_drive::{Drive, Profile};
//! use straddle_units::io::{Operation, Request, Time};
//! use straddle_units::{ByteCount, ByteOffset};
//!
//! let mut drive = Drive::new(&Profile::open("wd10ears")?);
//! let write = Request::new(1, Operation::WriteFua, ByteOffset::new(63 * 512), ByteCount::new(4096));
//! let mut done = Vec::new();
//! drive.submit(Time::from_nanos(0), write, &mut done)?;
//! drive.next_completion(&mut done);
//! assert_eq!(drive.counters().rmw_reads, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod disk;
mod drive;
pub mod form;
mod interface;
pub mod profile;
pub mod ssd;

#[cfg(test)]
extern crate self as straddle_drive;
#[cfg(test)]
#[path = "../tests/drive/mod.rs"]
mod tests;

pub use drive::{Drive, MediaEvent};
pub use profile::{FirmwareRange, Profile, ProfileError};
