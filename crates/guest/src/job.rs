//! What a guest is to do, and what came of it.

use std::path::PathBuf;
use std::time::Duration;

use straddle_drive::Profile;
use straddle_io::Counters;
use straddle_media::Cut;

/// A script to be run in a guest.
#[derive(Clone, Debug)]
pub struct Job {
    /// The drives, which the guest sees as `/dev/vda`, `/dev/vdb` and so on.
    pub drives: Vec<GuestDrive>,
    /// The script, with its `#!` line; it runs as root.
    pub script: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Functions that every bash script has at its hands.
    pub library: String,
    /// Added to the script's environment.
    pub environment: Vec<(String, String)>,
    /// A folder of the host, `$INPUT`; the guest cannot write there.
    pub input: Option<PathBuf>,
    /// A folder of the host, `$OUTPUT`; the only place on the host where the guest can write.
    pub output: Option<PathBuf>,
    /// Leave the guest all that its caller may do to the host, where nothing there can confine it.
    pub unconfined: bool,
    /// The guest's memory in bytes; taken from the host as it is touched.
    pub memory: u64,
    /// Seeds the guest's random numbers, and the moment of its power-on.
    pub seed: u64,
    /// What the guest's work costs.
    pub charges: Charges,
    /// When a guest is taken for hung.
    pub limits: Limits,
    /// Cuts the power of all drives.
    pub cut: Option<Cut>,
    /// Every request is written here, as `straddle sim` reads it.
    pub trace: Option<PathBuf>,
    /// Every event of the guest's kernel is written here, a line each; for finding out where two runs part.
    pub events: Option<PathBuf>,
    /// The processor that the guest and its drives share; `None` leaves it to the host, and costs time.
    pub processor: Option<usize>,
}

/// A drive of the guest.
#[derive(Clone, Debug)]
pub struct GuestDrive {
    /// The drive.
    pub profile: Profile,
    /// The byte at which its only partition starts, `/dev/vda1`; `None` leaves it without a partition table.
    pub start: Option<u64>,
    /// Bytes of that partition; `None` for all that there is.
    pub size: Option<u64>,
    /// Its contents; `None` for memory that is gone afterwards.
    pub store: Option<PathBuf>,
}

/// What the guest's work costs, in nanoseconds of its time: fixed rates, so that runs repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charges {
    /// A stop of a process: a system call, a page fault.
    pub stop: u64,
    /// A read of the clock by the kernel.
    pub clock: u64,
    /// A hand-over of requests to a drive.
    pub kick: u64,
    /// Computing without any stop, in percent of the processor time it takes on the host.
    pub compute_percent: u64,
}

impl Default for Charges {
    fn default() -> Self {
        Self { stop: 2000, clock: 100, kick: 3000, compute_percent: 100 }
    }
}

impl Charges {
    /// All of them `factor` times as much.
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

impl std::fmt::Display for Charges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stop, clock, kick, compute_percent } = self;
        write!(
            f,
            "{stop} ns a system call or page fault, {clock} ns a clock reading, {kick} ns a hand-over to a drive, computing {compute_percent} %"
        )
    }
}

/// How long a guest may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of its own time.
    pub guest: Duration,
    /// Of the host's.
    pub host: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { guest: Duration::from_secs(30 * 86_400), host: Duration::from_secs(3600) }
    }
}

/// Which of a script's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A time that the script has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What for.
    pub name: String,
    /// In seconds of the guest's time, or in whatever the script measured.
    pub value: f64,
}

/// What a guest's time was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Stops of processes.
    pub stops: u64,
    /// Readings of the clock.
    pub clock_reads: u64,
    /// Hand-overs of requests.
    pub kicks: u64,
    /// Messages between the clock and the drives.
    pub exchanges: u64,
    /// Times that the guest was idle.
    pub sleeps: u64,
    /// All of those together.
    pub slept: Duration,
    /// Ticks given to a kernel that spun.
    pub ticks: u64,
    /// Those that came at a moment of the host's choice.
    pub late_ticks: u64,
    /// Charged to programs that computed, by the host's processor clock.
    pub computed: Duration,
    /// Whether the host gave the guest's kernel other addresses than the last time.
    pub random_addresses: bool,
    /// A digest of every event of the guest's kernel with its time; equal for runs that are equal in everything.
    pub digest: u64,
}

impl Spent {
    /// What the host had a part in, so that the next run may differ; empty where the run repeats to the nanosecond.
    pub fn not_repeatable(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.computed.is_zero() {
            let seconds = self.computed.as_secs_f64();
            reasons.push(format!("programs computed for {seconds:.2} s without a system call, charged as measured on this machine"));
        }
        if self.late_ticks > 0 {
            reasons.push(format!(
                "the guest's kernel computed for so long that it was given {} timer ticks",
                self.late_ticks
            ));
        }
        if self.random_addresses {
            reasons.push(
                "this machine does not let address randomization be switched off (personality(2))".to_owned(),
            );
        }
        reasons
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The script's exit status.
    pub status: i32,
    /// Whether it ended because the power was cut.
    pub cut: bool,
    /// What it has measured, in order.
    pub measures: Vec<Measured>,
    /// What it has printed, as far as it is kept: standard output, and behind it standard error.
    pub output: String,
    /// The guest's time from power-on to power-off.
    pub guest: Duration,
    /// The host's time for that.
    pub host: Duration,
    /// Requests to all drives.
    pub requests: u64,
    /// A fingerprint of all requests with their times: equal for equal runs.
    pub fingerprint: u64,
    /// The drives' counters, in their order.
    pub counters: Vec<Counters>,
    /// What the guest's time was made of.
    pub spent: Spent,
}

/// Why a guest did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Something that the host has to offer is missing.
    #[error("{what}: {fix}")]
    Host {
        /// What is missing.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// A system call failed.
    #[error("{doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The guest did what no guest does.
    #[error("the guest and drive {drive}")]
    Drive {
        /// Which drive, from zero.
        drive: usize,
        /// What was wrong.
        source: straddle_vhost::VhostError,
    },
    /// The drive or its contents failed.
    #[error("drive {drive}")]
    Contents {
        /// Which drive, from zero.
        drive: usize,
        /// What was wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long.
    #[error("the guest was stopped after {limit:?} of {whose} time: give it longer if it needs that")]
    Hung {
        /// The limit that it reached.
        limit: Duration,
        /// "its own" or "the host's".
        whose: &'static str,
    },
    /// The user has had enough.
    #[error("interrupted")]
    Interrupted,
    /// It ended, and its script had not.
    #[error("the guest ended before its script ({how}); its console ended with: {console}")]
    Died {
        /// How it ended.
        how: String,
        /// The last lines of its console that say something.
        console: String,
    },
}

impl GuestError {
    pub(crate) fn contents(
        drive: usize,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Contents { drive, source: source.into() }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| match rustix::io::Errno::from_io_error(&source) {
            Some(rustix::io::Errno::MFILE) => Self::Host {
                what: format!("{doing}: too many files are open in this process"),
                fix: "raise the limit: ulimit -n 1024, or more".into(),
            },
            _ => Self::Io { doing, source },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::{Charges, Job, Limits, Spent};

    /// A job without a drive that does nothing.
    pub(crate) fn job() -> Job {
        Job {
            drives: Vec::new(),
            script: "#!/bin/sh\n".into(),
            arguments: Vec::new(),
            library: String::new(),
            environment: Vec::new(),
            input: None,
            output: None,
            unconfined: false,
            memory: 64 << 20,
            seed: 0,
            charges: Charges::default(),
            limits: Limits::default(),
            cut: None,
            trace: None,
            events: None,
            processor: None,
        }
    }

    #[test]
    fn charges_are_scaled_together() {
        let scaled = Charges { stop: 2000, clock: 101, kick: 3000, compute_percent: 100 }.scaled(0.5);
        assert_eq!(scaled, Charges { stop: 1000, clock: 51, kick: 1500, compute_percent: 50 });
        assert_eq!(Charges::default().scaled(1.0), Charges::default());
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
