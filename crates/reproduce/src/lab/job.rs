//! What a guest is to do, and what came of it.
//!
//! The law of this module: plain values. Whoever makes a job knows nothing of guests, and whoever runs it knows nothing of
//! experiments.

use std::io;
use std::path::PathBuf;

use straddle_drive::ProfileError;
use straddle_guest::GuestError;
use straddle_io::Counters;

/// Work for one guest, from boot to halt.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The modelled drives; the first is `/dev/vda` in the guest, the second `/dev/vdb`.
    pub drives: Vec<JobDrive>,
    /// The text of a bash script.
    pub script: String,
    /// The script's arguments.
    pub arguments: Vec<String>,
    /// Put into the script's environment.
    pub environment: Vec<(String, String)>,
    /// A folder of the host, read-only in the guest at `$INPUT`.
    pub input: Option<PathBuf>,
    /// A folder of the host, writable in the guest at `$OUTPUT`.
    pub output: Option<PathBuf>,
    /// Bytes of the guest's memory.
    pub memory: u64,
    /// Where what is random begins.
    pub seed: u64,
}

/// A modelled drive of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDrive {
    /// The drive, as behind `drive:`.
    pub spec: String,
    /// The byte at which the one partition of a GPT starts; without one there is no table.
    pub start: Option<u64>,
}

/// A time that the script took.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was timed; the script names it.
    pub name: String,
    /// Seconds on the guest's clock.
    pub seconds: f64,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The script's exit status.
    pub status: i32,
    /// What the script measured, in its order.
    pub measures: Vec<Measured>,
    /// What the script printed.
    pub output: String,
    /// Seconds that passed on the guest's clock, from boot to halt.
    pub virtual_seconds: f64,
    /// Seconds that it took here.
    pub wall_seconds: f64,
    /// Requests that the drives were sent.
    pub requests: u64,
    /// Each drive's counters, in the job's order.
    pub counters: Vec<Counters>,
    /// What the guest's processor time was charged at, in words.
    pub charges: String,
}

/// Whatever runs jobs.
pub trait Machine: Sync {
    /// Runs one job to its end. A script that fails is no error: see [`Ended::status`].
    fn run(&self, job: &Job) -> Result<Ended, LabError>;
}

/// Why a job came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The guest could not be run.
    #[error(transparent)]
    Guest(GuestError),
    /// There is no such drive.
    #[error(transparent)]
    Drive(#[from] ProfileError),
    /// A system call failed.
    #[error("{doing}")]
    Io {
        /// What was being done, or on what.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The machine or the device cannot run it.
    #[error("{0}")]
    Failed(String),
    /// Another program or layer uses the device.
    #[error("{}: in use: {by}", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
        /// What uses it.
        by: String,
    },
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}
