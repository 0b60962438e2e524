//! What `lab --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_lab::guest::{Charges, Ended, Job};
use straddle_units::io::Counters;

/// What `straddle lab --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LabReport<'a> {
    /// The exit status of the command; absent if the power was cut before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    #[serde(flatten)]
    ended: &'a Ended,
    /// Whether an identical run on this machine would take the same time to the nanosecond.
    repeatable: bool,
    /// Why it would not, one sentence each; empty if it would.
    not_repeatable: Vec<String>,
    /// The drives, in order.
    drives: Vec<Drive<'a>>,
    /// What the guest is charged for its own work.
    charges: Charges,
    /// The seed of the guest's random numbers, and of the rotational phase of its drives.
    seed: u64,
}

/// A drive and what happened in it.
#[derive(Debug, Serialize, JsonSchema)]
struct Drive<'a> {
    /// The name of its profile.
    name: &'a str,
    /// The offset of its partition, in bytes; absent without a partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_bytes: Option<u64>,
    /// Counters from inside the drive.
    counters: &'a Counters,
}

impl<'a> LabReport<'a> {
    pub(crate) fn of(job: &'a Job, ended: &'a Ended) -> Self {
        let drives = job.drives.iter().zip(&ended.counters).map(|(drive, counters)| Drive {
            name: &drive.profile.name,
            start_bytes: drive.partition.start,
            counters,
        });
        let not_repeatable = ended.spent.not_repeatable();
        Self {
            status: (!ended.cut).then_some(ended.status),
            ended,
            repeatable: not_repeatable.is_empty(),
            not_repeatable,
            drives: drives.collect(),
            charges: job.charges,
            seed: job.seed,
        }
    }
}
