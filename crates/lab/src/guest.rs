//! A Linux guest in virtual time, on modelled drives, or in the host's time ([`HostedJob`]).
//!
//! Invariants: a run in virtual time depends on its [`Job`] only. The guest is User-Mode Linux, an ordinary process;
//! a preloaded library (`clock/`) provides its time. However a run ends, it leaves no process, socket or file behind.
//! Whatever root in the guest does, nothing on the host changes except what the job names (`confine`).

/// The functions that are available to a script of the lab.
pub const LIBRARY: &str = include_str!("../init/lib.sh");

mod bay;
mod booted;
mod confine;
mod folder;
mod host;
mod job;
mod link;
mod machine;
mod orphan;

pub use folder::parent as run_folders;
pub use host::Kernel;
pub use job::{
    Charges, Ended, GuestDrive, GuestError, HostedDrive, HostedEnded, HostedJob, Job, Limits, Measured,
    Partition, PartitionTable, Requests, Spent, Stream, Task, Watching,
};
pub use machine::{memory, processors, run, run_hosted};
pub use orphan::RunFolder;
