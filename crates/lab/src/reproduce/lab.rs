//! A real Linux with real file systems on modelled drives, in virtual time: the same job gives the same figures on
//! every machine. [`Host`] runs the same scripts on this machine's kernel and a real device instead.

mod compare;
mod guests;
mod host;
pub mod input;
pub mod job;
mod reproduce;
#[cfg(test)]
mod tests;

pub use crate::guest::{Charges, Requests};
pub use compare::{Comparison, Figure, Readers, compared, error};
pub use guests::{Guests, at_once};
pub use host::Host;
pub use job::{Ended, Job, JobDrive, LabError, Machine, Measured};

pub use reproduce::{Cell, Planned, ReproduceError, Settings, StepOutcome, reproduce};
