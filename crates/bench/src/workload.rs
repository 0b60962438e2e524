//! Workloads as values: they can be saved, read, shown and run again to the same requests.
//!
//! Sizes and offsets are bytes. `start` is where the workload's world begins, such as a partition; `offset` is how far past
//! it every request is put, and is what a sweep varies. Where neither `count` nor `seconds` is given, a default holds; where
//! both are, the first to be reached ends the run.

mod pattern;
mod program;

use serde::{Deserialize, Serialize};

pub use pattern::{
    DD_COUNT, ForeignParameter, Parameters, Pattern, RANDOM_BLOCKS, RANDOM_COUNT, SEQUENTIAL_SECONDS,
    STRIDED_COUNT, Sync,
};
pub(crate) use program::Program;

/// Left free behind the last block of a random workload, so that all arms of a sweep draw from the same blocks.
const ROOM: u64 = 1 << 20;

/// Something to run: a pattern of requests, and what every pattern has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Form")]
pub struct Workload {
    /// Where the requests lie.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// Requests; see [`Pattern::usual_limits`] where neither this nor `seconds` is given.
    pub count: Option<u64>,
    /// Longest time on the target.
    pub seconds: Option<f64>,
    /// Bytes of each request, and of a block where those are random.
    pub size: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

impl From<Pattern> for Workload {
    fn from(pattern: Pattern) -> Self {
        let size = pattern.usual_size();
        Self { pattern, count: None, seconds: None, size, start: 0, offset: 0, queue_depth: 1 }
    }
}

/// A workload as files have it, flat. Read as one table, and not as a flattened enum, so that what is wrong keeps its line
/// and a misspelt name is answered with all that there are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    kind: String,
    count: Option<u64>,
    seconds: Option<f64>,
    size: Option<u64>,
    start: Option<u64>,
    offset: Option<u64>,
    queue_depth: Option<u32>,
    stride: Option<u64>,
    blocks: Option<u64>,
    seed: Option<u32>,
    sync: Option<Sync>,
    fsync_each: Option<u64>,
}

/// What is wrong with a workload in a file.
#[derive(Debug, thiserror::Error)]
enum FormError {
    #[error("unknown workload `{kind}`, expected one of {}", names())]
    Kind { kind: String },
    #[error(transparent)]
    Parameter(#[from] ForeignParameter),
}

fn names() -> String {
    Pattern::ALL.iter().map(|pattern| format!("`{}`", pattern.name())).collect::<Vec<_>>().join(", ")
}

impl TryFrom<Form> for Workload {
    type Error = FormError;

    fn try_from(form: Form) -> Result<Self, FormError> {
        let Form { kind, count, seconds, size, start, offset, queue_depth, .. } = form;
        let Form { stride, blocks, seed, sync, fsync_each, .. } = form;
        let pattern = Pattern::named(&kind).ok_or(FormError::Kind { kind })?;
        let pattern = pattern.with(Parameters { stride, blocks, seed, sync, fsync_each })?;
        let usual = Self::from(pattern);
        Ok(Self {
            count,
            seconds,
            size: size.unwrap_or(usual.size),
            start: start.unwrap_or(usual.start),
            offset: offset.unwrap_or(usual.offset),
            queue_depth: queue_depth.unwrap_or(usual.queue_depth),
            ..usual
        })
    }
}

/// A workload that cannot be run on this target.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A number that must not be zero is.
    #[error("{what} must not be zero")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// The target cannot be addressed so finely.
    #[error("{what} = {bytes} bytes: the target counts in logical sectors of {sector} bytes")]
    NotWholeSectors {
        /// Which.
        what: &'static str,
        /// Its value.
        bytes: u64,
        /// The logical sector.
        sector: u64,
    },
    /// It needs more room than there is.
    #[error("the workload needs {needed} bytes from byte {first} on, and the target ends at byte {capacity}")]
    DoesNotFit {
        /// Its first byte.
        first: u64,
        /// How many bytes it needs.
        needed: u128,
        /// Size of the target.
        capacity: u64,
    },
    /// A time that is no time.
    #[error("{seconds} s is no possible running time")]
    Seconds {
        /// The value.
        seconds: f64,
    },
}

impl Workload {
    /// The name of its pattern, as in files and on the command line.
    pub const fn name(&self) -> &'static str {
        self.pattern.name()
    }

    /// The same, every request put `offset` bytes past the start.
    #[must_use]
    pub fn at(&self, offset: u64) -> Self {
        Self { offset, ..self.clone() }
    }

    /// The same for one turn of many: from another `start`, `count` requests and no time limit, with this seed.
    #[must_use]
    pub(crate) fn turn(&self, start: u64, count: u64, seed: u32) -> Self {
        // A pattern that draws nothing has no seed.
        let seeded = Parameters { seed: Some(seed), ..Parameters::default() };
        let pattern = self.pattern.with(seeded).unwrap_or(self.pattern);
        Self { pattern, start, count: Some(count), seconds: None, ..self.clone() }
    }

    /// Whether it writes.
    pub const fn writes(&self) -> bool {
        self.pattern.writes()
    }

    /// Whether it writes, and does not wait for the medium before it ends.
    pub fn is_volatile(&self) -> bool {
        let Parameters { sync, fsync_each, .. } = self.pattern.parameters();
        let waits = sync.is_some_and(|sync| sync != Sync::None) || fsync_each.is_some_and(|each| each > 0);
        self.writes() && !waits && !self.pattern.ends_with_fsync()
    }

    /// Bytes from the start of a request to the start of the next, in a sequence.
    pub fn stride(&self) -> u64 {
        self.pattern.parameters().stride.unwrap_or(self.size)
    }

    /// The seed that will be used on a target with this logical sector; `None` where nothing is random.
    pub fn seed(&self, logical_sector: u64) -> Option<u32> {
        let sectors = self.offset / logical_sector.max(1);
        // A C program's argument is cut to 32 bits as well.
        let usual = || u32::try_from(sectors & u64::from(u32::MAX)).unwrap_or(0);
        self.pattern.is_random().then(|| self.pattern.parameters().seed.unwrap_or_else(usual))
    }

    /// The blocks that will be chosen from on a target of this size, where they are random: what is asked for, or as many as
    /// fit. The last MiB is left free, so that all small offsets have the same number.
    pub fn blocks(&self, capacity: u64) -> Option<u64> {
        let blocks = self.pattern.parameters().blocks?;
        let room = capacity.saturating_sub(self.start).saturating_sub(self.offset.max(ROOM));
        Some(blocks.min(room.checked_div(self.size).unwrap_or(0)))
    }

    /// The count and the time after which the run ends, with the defaults filled in.
    pub const fn limits(&self) -> (Option<u64>, Option<f64>) {
        match (self.count, self.seconds) {
            (None, None) => self.pattern.usual_limits(),
            limits => limits,
        }
    }
}
