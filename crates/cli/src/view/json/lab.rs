//! What `lab --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_guest::{Ended, Job};

use super::bench::{CountersReport, counters};

/// The version of this form. It increases when a field changes its meaning or is removed, not when one is
/// added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle lab --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle lab")]
pub(crate) struct LabReport {
    /// The version of this form.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The command's exit status.
    status: i32,
    /// Whether the power was cut before it ended.
    cut: bool,
    /// What it printed: standard output, and behind it standard error; the beginning of much.
    output: String,
    /// What it measured, in order.
    measures: Vec<MeasureReport>,
    /// The guest's time from power-on to power-off, in nanoseconds.
    guest_ns: u64,
    /// This machine's time for that, in nanoseconds.
    host_ns: u64,
    /// Requests to all drives.
    requests: u64,
    /// A fingerprint of all requests with their times; equal runs have equal ones.
    fingerprint: String,
    /// Whether an equal run on this machine is equal to the nanosecond.
    repeatable: bool,
    /// Why not, a sentence each; empty where it is.
    not_repeatable: Vec<String>,
    /// The drives, in order.
    drives: Vec<DriveReport>,
    /// What the guest's own work was charged with.
    charges: ChargesReport,
    /// What the guest's time was made of.
    spent: SpentReport,
    /// The seed of the guest's random numbers and of its drives' phase.
    seed: u64,
}

/// A time that a script has taken.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Measure")]
struct MeasureReport {
    /// What for.
    name: String,
    /// Seconds of the guest's time, or what else the script noted.
    value: f64,
}

/// A drive and what happened to it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Drive")]
struct DriveReport {
    /// Its profile.
    name: String,
    /// The byte at which its partition starts; absent of a drive without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_bytes: Option<u64>,
    /// What happened inside.
    counters: CountersReport,
}

/// Rates of the guest's time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Charges")]
struct ChargesReport {
    /// A system call or page fault, in nanoseconds.
    stop_ns: u64,
    /// A reading of the clock, in nanoseconds.
    clock_ns: u64,
    /// A hand-over to a drive, in nanoseconds.
    kick_ns: u64,
    /// Computing, in percent of the time that it took on this machine.
    compute_percent: u64,
}

/// What the guest's time was made of.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Spent")]
struct SpentReport {
    /// System calls and page faults.
    stops: u64,
    /// Readings of the clock.
    clock_reads: u64,
    /// Hand-overs to drives.
    kicks: u64,
    /// Times that the guest was idle.
    sleeps: u64,
    /// Nanoseconds in those.
    slept_ns: u64,
    /// Ticks that a spinning kernel was given once drives were in use. Not zero: this run will not repeat exactly.
    late_ticks: u64,
    /// Nanoseconds charged for computing. Not zero: this run will not repeat exactly.
    computed_ns: u64,
    /// A digest of every event of the guest's kernel with its time; equal for runs that are equal in everything.
    digest: String,
}

impl LabReport {
    pub(crate) fn of(job: &Job, ended: &Ended) -> Self {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let drives = job.drives.iter().zip(&ended.counters).map(|(drive, count)| DriveReport {
            name: drive.profile.name.clone(),
            start_bytes: drive.start,
            counters: counters(count),
        });
        let measure = |measured: &straddle_guest::Measured| MeasureReport {
            name: measured.name.clone(),
            value: measured.value,
        };
        let (charges, spent) = (job.charges, ended.spent);
        let not_repeatable = spent.not_repeatable();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            status: ended.status,
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
