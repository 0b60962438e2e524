//! A Linux guest in virtual time, on modelled drives.
//!
//! The law of this crate: a run depends on its [`Job`] only. The guest is User-Mode Linux, an ordinary process; its time is
//! made by a library that is preloaded into it (`clock/`), and its drives answer at the moments that their models say. Nothing
//! here waits for the host's clock, but for the limit after which a guest is taken for hung. Whatever way a run ends, no
//! process, socket or file of it is left.

mod bay;
mod folder;
mod host;
mod job;
mod link;
mod machine;
mod output;

pub use host::Kernel;
pub use job::{Charges, Ended, GuestDrive, GuestError, Job, Limits, Measured, Spent, Stream};
pub use machine::{memory, processors, run};
