//! What a guest has to do, and the result. Code that makes jobs knows nothing of guests, and code that runs them
//! knows nothing of experiments.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::ProfileError;
use straddle_drive::disk::RmwPolicy;
use straddle_units::io::Counters;

use crate::guest::{self, GuestError, Partition, Requests, Task};

/// Work for one guest, from boot to halt.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What the guest does.
    pub task: Task,
    /// The modelled drives; the first is `/dev/vda` in the guest, the second `/dev/vdb`.
    pub drives: Vec<JobDrive>,
    /// Seed of everything random.
    pub seed: u64,
}

/// A modelled drive of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDrive {
    /// The drive, as after `drive:`.
    pub spec: String,
    /// Its only partition, which takes all remaining space on a drive that is too small for its size.
    pub partition: Partition,
    /// The policy of read-modify-write, instead of the profile's own.
    pub policy: Option<RmwPolicy>,
    /// How many requests the host sends to it at once, instead of as many as the profile takes.
    pub queue_depth: Option<u32>,
}

/// A time measured by the script.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// What was timed, as named by the script.
    pub name: String,
    /// The time in seconds on the guest's clock.
    pub seconds: f64,
    /// The requests that the kernel sent to the first drive in that time, if the script had them counted.
    #[serde(flatten)]
    pub requests: Option<Requests>,
}

impl From<guest::Measured> for Measured {
    fn from(measured: guest::Measured) -> Self {
        Self { name: measured.name, seconds: measured.value, requests: measured.requests }
    }
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ended {
    /// The script's exit status.
    #[serde(skip)]
    pub status: i32,
    /// The script's measurements, in the order in which it made them.
    #[serde(rename = "measured")]
    pub measures: Vec<Measured>,
    /// The script's output.
    #[serde(skip)]
    pub output: String,
    /// The time from boot to halt in seconds on the guest's clock.
    pub virtual_seconds: f64,
    /// The time from boot to halt in seconds of real time.
    pub wall_seconds: f64,
    /// The number of requests sent to the drives.
    pub requests: u64,
    /// The counters of each drive, in the order of the drives in the guest.
    pub counters: Vec<Counters>,
    /// How the guest's processor time was charged, in words.
    pub charges: String,
}

/// Runs jobs.
pub trait Machine: Sync {
    /// Runs one job to its end. A failing script is not an error: see [`Ended::status`].
    fn run(&self, job: &Job) -> Result<Ended, LabError>;
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum LabError {
    #[error(transparent)]
    Guest(#[from] GuestError),
    #[error(transparent)]
    Drive(#[from] ProfileError),
}

straddle_units::error_kind! {
    LabError: Failed;
    Self::Guest(error) => error.kind(),
}
