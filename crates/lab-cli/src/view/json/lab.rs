//! What `lab --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_lab::guest::{Ended, Job};

use super::bench::{CountersReport, counters};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle lab --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle lab")]
pub(crate) struct LabReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The exit status of the command; absent if the power was cut before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    /// Whether the power was cut before the command ended.
    cut: bool,
    /// What the command printed: standard output, then standard error. Long output is truncated at the end.
    output: String,
    /// What the command measured, in order.
    measures: Vec<MeasureReport>,
    /// The time from power-on to power-off on the guest's clock, in nanoseconds.
    guest_ns: u64,
    /// The same on the clock of this machine, in nanoseconds.
    host_ns: u64,
    /// The number of requests to all drives.
    requests: u64,
    /// A hash of all requests with their times. Identical runs have the same one.
    fingerprint: String,
    /// Whether an identical run on this machine would take the same time to the nanosecond.
    repeatable: bool,
    /// Why it would not, one sentence each; empty if it would.
    not_repeatable: Vec<String>,
    /// The drives, in order.
    drives: Vec<DriveReport>,
    /// What the guest is charged for its own work.
    charges: ChargesReport,
    /// What the guest's time consists of.
    spent: SpentReport,
    /// The seed of the guest's random numbers, and of the rotational phase of its drives.
    seed: u64,
}

/// A value that a script has recorded.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Measure")]
struct MeasureReport {
    /// The name that the script gave it.
    name: String,
    /// Seconds on the guest's clock, or another value that the script recorded.
    value: f64,
}

/// A drive and what happened in it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Drive")]
struct DriveReport {
    /// The name of its profile.
    name: String,
    /// The offset of its partition, in bytes; absent without a partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_bytes: Option<u64>,
    /// Counters from inside the drive.
    counters: CountersReport,
}

/// What the guest's clock is advanced by for its own work.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Charges")]
struct ChargesReport {
    /// A system call or page fault, in nanoseconds.
    stop_ns: u64,
    /// A reading of the clock, in nanoseconds.
    clock_ns: u64,
    /// A notification of a drive, in nanoseconds.
    kick_ns: u64,
    /// Computing, in percent of the time that it took on this machine.
    compute_percent: u64,
}

/// What the guest's time consists of.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Spent")]
struct SpentReport {
    /// The number of system calls and page faults.
    stops: u64,
    /// The number of clock readings.
    clock_reads: u64,
    /// The number of notifications of drives.
    kicks: u64,
    /// The number of times that the guest was idle.
    sleeps: u64,
    /// The time that it was idle, in nanoseconds.
    slept_ns: u64,
    /// The number of timer ticks given to a busy-waiting kernel while drives were in use. If it is not 0, the
    /// run is not exactly repeatable.
    late_ticks: u64,
    /// The time charged for computing, in nanoseconds. If it is not 0, the run is not exactly repeatable.
    computed_ns: u64,
    /// A hash of every event of the guest's kernel with its time. Runs with the same one are identical in
    /// everything.
    digest: String,
}

impl LabReport {
    pub(crate) fn of(job: &Job, ended: &Ended) -> Self {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let drives = job.drives.iter().zip(&ended.counters).map(|(drive, count)| DriveReport {
            name: drive.profile.name.clone(),
            start_bytes: drive.partition.start,
            counters: counters(count),
        });
        let measure = |measured: &straddle_lab::guest::Measured| MeasureReport {
            name: measured.name.clone(),
            value: measured.value,
        };
        let (charges, spent) = (job.charges, ended.spent);
        let not_repeatable = spent.not_repeatable();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            status: (!ended.cut).then_some(ended.status),
            cut: ended.cut,
            output: ended.output.clone(),
            measures: ended.measures.iter().map(measure).collect(),
            guest_ns: nanos(ended.guest),
            host_ns: nanos(ended.host),
            requests: ended.requests,
            fingerprint: format!("{:016x}", ended.fingerprint),
            repeatable: not_repeatable.is_empty(),
            not_repeatable,
            drives: drives.collect(),
            charges: ChargesReport {
                stop_ns: charges.stop,
                clock_ns: charges.clock,
                kick_ns: charges.kick,
                compute_percent: charges.compute_percent,
            },
            spent: SpentReport {
                stops: spent.stops,
                clock_reads: spent.clock_reads,
                kicks: spent.kicks,
                sleeps: spent.sleeps,
                slept_ns: nanos(spent.slept),
                late_ticks: spent.late_ticks,
                computed_ns: nanos(spent.computed),
                digest: format!("{:016x}", spent.digest),
            },
            seed: job.seed,
        }
    }
}
