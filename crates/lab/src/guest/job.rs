//! The job that a guest runs, and its result.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::media::{Cut, Watch};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use straddle_drive::Profile;
use straddle_units::io::{Counters, Nanos, nanos};

/// What a guest does, and what it has of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The script, with its `#!` line; it runs as root.
    pub script: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Functions available to every bash script.
    pub library: String,
    /// Added to the script's environment.
    pub environment: Vec<(String, String)>,
    /// A host folder, `$INPUT`, which the guest cannot write to.
    pub input: Option<PathBuf>,
    /// A host folder, `$OUTPUT`, the only place on the host where the guest can write.
    pub output: Option<PathBuf>,
    /// Run the guest unconfined, with all rights of its caller on the host.
    pub unconfined: bool,
    /// The guest's memory in bytes. The host allocates it as it is touched.
    pub memory: u64,
    /// The processor that the guest and its drives share; the host's choice is slower.
    pub processor: Option<usize>,
    /// Settings of the guest's kernel: files below /proc or /sys, or patterns of them
    /// (`/sys/block/vd*/queue/nr_requests`), and what is written to them before the script runs.
    pub settings: Vec<(String, String)>,
}

/// A task for a guest in virtual time.
#[derive(Clone, Default)]
pub struct Job {
    /// What the guest does.
    pub task: Task,
    /// The drives, which the guest sees as `/dev/vda`, `/dev/vdb` and so on.
    pub drives: Vec<GuestDrive>,
    /// Seeds the guest's random numbers, and the time of its power-on.
    pub seed: u64,
    /// What the guest's work costs.
    pub charges: Charges,
    /// The limits after which a guest is considered hung.
    pub limits: Limits,
    /// The power cut of all drives, if any.
    pub cut: Option<Cut>,
    /// Where to write every event of the guest's kernel, to find where two runs diverge.
    pub events: Option<PathBuf>,
    /// Who else sees the requests of the drives.
    pub watching: Option<Watching>,
}

/// Makes what sees the requests of a drive, by the drive's place in the job.
pub type Watching = Arc<dyn Fn(usize) -> Box<dyn Watch> + Send + Sync>;

/// A task for a guest in the host's time.
#[derive(Clone, Debug)]
pub struct HostedJob {
    /// What the guest does.
    pub task: Task,
    /// Folders of the host that the guest sees at their own paths.
    pub folders: Vec<PathBuf>,
    /// The drives, which the guest sees as `/dev/vda`, `/dev/vdb` and so on.
    pub drives: Vec<HostedDrive>,
    /// The time after which the guest is considered hung.
    pub limit: Duration,
}

/// A drive that another process serves.
#[derive(Clone, Debug)]
pub struct HostedDrive {
    /// The server's vhost-user socket.
    pub socket: PathBuf,
    /// Its only partition.
    pub partition: Partition,
}

/// A drive's only partition, `/dev/vda1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The byte at which it starts; `None` for no partition table.
    pub start: Option<u64>,
    /// Its size in bytes; `None` for all remaining space.
    pub size: Option<u64>,
    /// The partition table that it is listed in.
    pub table: PartitionTable,
}

/// A kind of partition table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionTable {
    /// A GUID partition table.
    #[default]
    Gpt,
    /// A table in the master boot record.
    Mbr,
}

impl PartitionTable {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        }
    }

    /// Returns sfdisk's name for it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gpt => "gpt",
            Self::Mbr => "dos",
        }
    }
}

/// A drive of the guest.
#[derive(Clone, Debug)]
pub struct GuestDrive {
    /// The profile of the drive.
    pub profile: Profile,
    /// Its only partition.
    pub partition: Partition,
    /// The file with its contents; `None` for memory that is discarded afterwards.
    pub store: Option<PathBuf>,
}

/// The cost of the guest's work, in nanoseconds of its time. The rates are fixed, so that runs are
/// repeatable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Charges {
    /// The charge for each stop of a process, for a system call or a page fault.
    #[serde(rename = "stop_ns")]
    pub stop: u64,
    /// The charge for each reading of the clock by the guest's kernel.
    #[serde(rename = "clock_ns")]
    pub clock: u64,
    /// The charge for each submission of requests to a drive.
    #[serde(rename = "kick_ns")]
    pub kick: u64,
    /// The charge for computing without a stop, as a percentage of the processor time that it takes on the
    /// host.
    pub compute_percent: u64,
}

impl Default for Charges {
    fn default() -> Self {
        Self { stop: 2000, clock: 100, kick: 3000, compute_percent: 100 }
    }
}

impl Charges {
    /// Returns all rates multiplied by `factor`.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rate of nanoseconds, scaled; the factor was checked where it came in"
    )]
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |rate: u64| (rate as f64 * factor).round() as u64;
        Self {
            stop: scale(self.stop),
            clock: scale(self.clock),
            kick: scale(self.kick),
            compute_percent: scale(self.compute_percent),
        }
    }
}

impl fmt::Display for Charges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stop, clock, kick, compute_percent } = self;
        write!(
            f,
            "{stop} ns per system call or page fault, {clock} ns per clock reading, {kick} ns per request \
             passed to a drive, computing {compute_percent} %"
        )
    }
}

/// The time that a guest may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In its own time.
    pub guest: Duration,
    /// In the host's time.
    pub host: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { guest: Duration::from_secs(30 * 86_400), host: Duration::from_secs(3600) }
    }
}

/// One of a script's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A value that the script has measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// The name of the value, as chosen by the script.
    pub name: String,
    /// The value: seconds of the guest's time, or whatever else the script measured.
    pub value: f64,
    /// The requests that the kernel sent to the first disk in that time, if the script had them counted.
    #[serde(flatten)]
    pub requests: Option<Requests>,
}

/// Requests as the kernel counts them (`/sys/block/DISK/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "KernelRequests")]
pub struct Requests {
    /// The number of reads that the first drive completed during the measurement.
    pub reads: u64,
    /// The number of writes that the first drive completed during the measurement.
    pub writes: u64,
}

impl Measured {
    /// Parses a line of `$RESULTS`: a name and a number, and after a tab the reads and writes.
    pub fn parse(line: &str) -> Option<Self> {
        let (line, requests) = match line.split_once('\t') {
            Some((line, counts)) => {
                let (reads, writes) = counts.split_once(' ')?;
                (line, Some(Requests { reads: reads.parse().ok()?, writes: writes.parse().ok()? }))
            }
            None => (line, None),
        };
        let (name, value) = line.rsplit_once(' ')?;
        Some(Self { name: name.to_owned(), value: value.parse().ok()?, requests })
    }
}

/// How a guest's time was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Spent {
    /// The number of system calls and page faults.
    pub stops: u64,
    /// The number of times that the guest's kernel read the clock.
    pub clock_reads: u64,
    /// The number of times that the guest notified a drive of requests.
    pub kicks: u64,
    /// The number of messages between the clock and the drives.
    pub exchanges: u64,
    /// The number of times that the guest was idle.
    pub sleeps: u64,
    /// The time that the guest was idle, in nanoseconds.
    #[serde(rename = "slept_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub slept: Duration,
    /// The number of timer ticks given to the guest's kernel while it was spinning.
    pub ticks: u64,
    /// The number of timer ticks whose time depended on the host. If it is not 0, the run is not exactly
    /// repeatable.
    pub late_ticks: u64,
    /// The time charged to programs that computed, measured by the host's processor clock, in nanoseconds. If
    /// it is not 0, the run is not exactly repeatable.
    #[serde(rename = "computed_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub computed: Duration,
    /// Whether the host may load the guest's kernel at different addresses in each run.
    pub random_addresses: bool,
    /// A digest of all events of the guest's kernel and their times; runs that are equal in every respect
    /// have equal digests.
    #[serde(serialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub digest: u64,
}

impl Spent {
    /// Returns why the next run may differ; empty where the run is repeatable to the nanosecond.
    pub fn not_repeatable(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.computed.is_zero() {
            let seconds = self.computed.as_secs_f64();
            reasons.push(format!(
                "programs computed for {seconds:.2} s without a system call, and that time depends on this \
                 machine"
            ));
        }
        if self.late_ticks > 0 {
            reasons.push(format!(
                "the guest's kernel computed for so long that it received {} timer ticks",
                self.late_ticks
            ));
        }
        if self.random_addresses {
            reasons.push(
                "this machine does not allow address randomization to be switched off (personality(2))"
                    .to_owned(),
            );
        }
        reasons
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn hexadecimal<S: Serializer>(digest: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{digest:016x}"))
}

/// The result of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ended {
    /// The exit status of the command.
    #[serde(skip)]
    pub status: i32,
    /// Whether the run ended because the power was cut.
    pub cut: bool,
    /// The script's measurements, in the order in which it made them.
    pub measures: Vec<Measured>,
    /// The command's standard output, followed by its standard error; of each, only about the first 4 MiB are
    /// kept.
    pub output: String,
    /// The time from power-on to power-off on the guest's clock, in nanoseconds.
    #[serde(rename = "guest_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub guest: Duration,
    /// The time from power-on to power-off on this machine's clock, in nanoseconds.
    #[serde(rename = "host_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub host: Duration,
    /// The number of requests to all drives.
    pub requests: u64,
    /// A fingerprint of all requests and their times. Runs with equal requests and times have equal
    /// fingerprints.
    #[serde(serialize_with = "hexadecimal")]
    #[schemars(with = "String")]
    pub fingerprint: u64,
    /// The drives' counters, in the order of the drives.
    #[serde(skip)]
    pub counters: Vec<Counters>,
    /// How the guest's time was spent.
    pub spent: Spent,
}

/// The result of a run in the host's time.
#[derive(Clone, Debug)]
pub struct HostedEnded {
    /// The script's exit status.
    pub status: i32,
    /// What it has written to `$RESULTS`.
    pub results: Vec<u8>,
}

/// Why a guest did not run to its end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum GuestError {
    #[error("{what}; {fix}")]
    Host { what: String, fix: String },
    #[error("{doing}")]
    Io { doing: String, source: std::io::Error },
    #[error("the connection between the guest and drive {drive} failed")]
    Drive { drive: usize, source: crate::vhost::VhostError },
    #[error("drive {drive}")]
    Contents { drive: usize, source: Box<dyn Error + Send + Sync> },
    #[error(
        "the guest was stopped after {limit:?} of {whose} time; if the guest needs longer, raise the limit"
    )]
    Hung { limit: Duration, whose: &'static str },
    #[error("interrupted")]
    Interrupted,
    #[error("the guest stopped before its script finished ({how}); its console ended with: {console}")]
    Died { how: String, console: String },
}

straddle_units::error_kind! {
    GuestError: Failed;
    Self::Interrupted => Interrupted,
}

impl GuestError {
    pub(crate) fn contents(drive: usize, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Contents { drive, source: source.into() }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| match rustix::io::Errno::from_io_error(&source) {
            Some(rustix::io::Errno::MFILE) => Self::Host {
                what: format!("{doing}, because too many files are open in this process"),
                fix: "raise the limit to 1024 or more (ulimit -n 1024)".into(),
            },
            _ => Self::Io { doing, source },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::{Charges, Job, Measured, Requests, Spent, Task};

    /// A job without drives that does nothing.
    pub(crate) fn job() -> Job {
        let task = Task { script: "#!/bin/sh\n".into(), memory: 64 << 20, ..Task::default() };
        Job { task, ..Job::default() }
    }

    #[test]
    fn charges_are_scaled_together() {
        let scaled = Charges { stop: 2000, clock: 101, kick: 3000, compute_percent: 100 }.scaled(0.5);
        assert_eq!(scaled, Charges { stop: 1000, clock: 51, kick: 1500, compute_percent: 50 });
        assert_eq!(Charges::default().scaled(1.0), Charges::default());
    }

    #[test]
    fn results_are_a_name_a_number_and_perhaps_requests() {
        let of = |name: &str, value, requests| Some(Measured { name: name.to_owned(), value, requests });
        assert_eq!(Measured::parse("two words 1.5"), of("two words", 1.5, None));
        let requests = Some(Requests { reads: 7, writes: 1000 });
        assert_eq!(Measured::parse("dd 0.25\t7 1000"), of("dd", 0.25, requests));
        for line in ["", "dd", "dd x", "dd 1\t7", "dd 1\t7 x", "dd 1\t-7 8"] {
            assert_eq!(Measured::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn each_part_that_the_host_had_in_a_run_is_named() {
        assert!(Spent::default().not_repeatable().is_empty());
        let named = |spent: Spent| spent.not_repeatable().join("\n");
        assert!(
            named(Spent { computed: Duration::from_millis(1500), ..Spent::default() }).contains("1.50 s")
        );
        assert!(named(Spent { late_ticks: 3, ..Spent::default() }).contains("3 timer ticks"));
        assert!(named(Spent { random_addresses: true, ..Spent::default() }).contains("randomization"));
    }
}
