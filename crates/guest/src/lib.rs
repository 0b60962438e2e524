//! A Linux guest in virtual time, on modelled drives.
//!
//! The law of this crate: a run depends on its [`Job`] only. The guest is User-Mode Linux, an ordinary process; its time is
//! made by a library that is preloaded into it (`clock/`), and its drives answer at the moments that their models say. Nothing
//! here waits for the host's clock, but for the limit after which a guest is taken for hung. Whatever way a run ends, no
//! process, socket or file of it is left. And whatever the guest's root does, nothing of the host changes but what the job says
//! (`confine`).

/// The functions that a script of the lab has at hand.
pub const LIBRARY: &str = include_str!("../init/lib.sh");

mod bay;
mod confine;
mod error_kind;
mod folder;
mod host;
mod job;
mod link;
mod machine;
mod orphan;
mod output;

pub use folder::parent as run_folders;
pub use host::Kernel;
pub use job::{Charges, Ended, GuestDrive, GuestError, Job, Limits, Measured, Spent, Stream};
pub use machine::{memory, processors, run};
pub use orphan::{Cleaned, RunFolder, remove_orphans};
