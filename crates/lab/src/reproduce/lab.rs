//! A real Linux with real file systems on modelled drives, in virtual time: the same job gives the same figures on
//! every machine.

mod compare;
mod guests;
pub mod input;
pub mod job;
mod reproduce;
#[cfg(test)]
mod tests;

pub use crate::guest::{Charges, Requests};
pub use compare::{Comparison, Figure, Readers, compared, error};
pub use guests::{Guests, at_once};
pub use job::{Ended, Job, JobDrive, LabError, Machine, Measured};

pub use reproduce::{Cell, Planned, ReproduceError, Settings, StepOutcome, reproduce};
