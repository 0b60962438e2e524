//! Workloads as values, which can be run again with the same requests.
//!
//! Sizes and offsets are in bytes. `start` is where the workload's area begins, such as a partition. `offset` is the
//! distance of every request from its place in that area, and is what a sweep varies.

mod pattern;
mod program;

use serde::Deserialize;

pub use pattern::{ForeignParameter, Parameters, Pattern, RANDOM_BLOCKS, Sync};
pub(crate) use program::Program;

/// Free after the last block of a random workload, so that all arms of a sweep draw from the same blocks.
const ROOM: u64 = 1 << 20;

/// A workload: a pattern of requests, and the parameters that all patterns have.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Form")]
pub struct Workload {
    /// The pattern of the requests.
    pub pattern: Pattern,
    /// The number of requests. With `seconds` too, the first limit that is reached ends the run; without either, the
    /// pattern's own applies.
    pub count: Option<u64>,
    /// The longest time on the target, in seconds.
    pub seconds: Option<f64>,
    /// The size of each request and, for random patterns, of a block, in bytes.
    pub size: u64,
    /// The first byte of the area.
    pub start: u64,
    /// The distance of every request from its place, in bytes.
    pub offset: u64,
    /// The queue depth.
    pub queue_depth: u32,
}

impl From<Pattern> for Workload {
    fn from(pattern: Pattern) -> Self {
        let size = pattern.usual_size;
        Self { pattern, count: None, seconds: None, size, start: 0, offset: 0, queue_depth: 1 }
    }
}

/// One flat table rather than a flattened enum, so that errors keep their line, and name the valid names.
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

impl TryFrom<Form> for Workload {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form { kind, count, seconds, size, start, offset, queue_depth, .. } = form;
        let Form { stride, blocks, seed, sync, fsync_each, .. } = form;
        let unknown = || {
            let names: Vec<String> = Pattern::ALL.iter().map(|known| format!("`{}`", known.name)).collect();
            format!("the workload `{kind}` is unknown; use one of {}", names.join(", "))
        };
        let pattern = Pattern::named(&kind).ok_or_else(unknown)?;
        let pattern = pattern.with(Parameters { stride, blocks, seed, sync, fsync_each });
        let pattern = pattern.map_err(|error| error.to_string())?;
        let usual = Self::from(pattern);
        Ok(Self {
            count,
            seconds,
            size: size.unwrap_or(usual.size),
            start: start.unwrap_or(0),
            offset: offset.unwrap_or(0),
            queue_depth: queue_depth.unwrap_or(usual.queue_depth),
            ..usual
        })
    }
}

/// Why a workload cannot be run on a target.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum WorkloadError {
    #[error("{what} must not be zero")]
    Zero { what: &'static str },
    #[error("{what} = {bytes} bytes is not a multiple of the target's {sector}-byte logical sector")]
    NotWholeSectors { what: &'static str, bytes: u64, sector: u64 },
    #[error("the workload needs {needed} bytes from byte {first} on, but the target ends at byte {capacity}")]
    DoesNotFit { first: u64, needed: u128, capacity: u64 },
    #[error("the run time ({seconds} s) is not valid")]
    Seconds { seconds: f64 },
}

straddle_units::error_kind!(WorkloadError: Usage);

impl Workload {
    /// Returns the name of its pattern, as in files and on the command line.
    pub const fn name(&self) -> &'static str {
        self.pattern.name
    }

    /// Returns the workload with every request `offset` bytes from its place.
    #[must_use]
    pub fn at(&self, offset: u64) -> Self {
        Self { offset, ..self.clone() }
    }

    /// For one turn of many: without a time limit.
    #[must_use]
    pub(crate) fn turn(&self, start: u64, count: u64, seed: u32) -> Self {
        Self { start, count: Some(count), seconds: None, ..self.seeded(seed) }
    }

    /// If its places are random.
    pub(crate) fn seeded(&self, seed: u32) -> Self {
        let seed = Parameters { seed: Some(seed), ..Parameters::default() };
        Self { pattern: self.pattern.with(seed).unwrap_or(self.pattern), ..self.clone() }
    }

    /// For warm-up `run`, where the drive holds nothing of the workload yet: with another seed, or as a sequence in
    /// the second half of the target's rest.
    #[must_use]
    pub(crate) fn elsewhere(&self, run: u32, capacity: u64, sector: u64) -> Self {
        /// 2^32 over the golden ratio: the seeds of all runs differ.
        const STEP: u32 = 0x9E37_79B9;
        if let Some(seed) = self.seed(sector) {
            return self.seeded(seed.wrapping_add(STEP.wrapping_mul(run.wrapping_add(1))));
        }
        let half = capacity.saturating_sub(self.start) / 2;
        let needed = self.count.unwrap_or(1).saturating_mul(self.stride()).saturating_add(self.offset + ROOM);
        let shift = if needed <= half { half / ROOM * ROOM } else { 0 };
        Self { start: self.start + shift, ..self.clone() }
    }

    /// Whether it writes.
    pub const fn writes(&self) -> bool {
        self.pattern.writes
    }

    /// Whether it has the target flush its cache, after writes or at the end.
    pub fn flushes(&self) -> bool {
        let Parameters { sync, fsync_each, .. } = self.pattern.parameters;
        sync == Some(Sync::Flush) || fsync_each.is_some_and(|each| each > 0) || self.pattern.ends_with_fsync
    }

    /// Whether it writes, and ends without waiting until the writes are on the medium.
    pub fn is_volatile(&self) -> bool {
        let waits = self.pattern.parameters.sync.is_some_and(|sync| sync != Sync::None);
        self.writes() && !waits && !self.flushes()
    }

    /// Returns the distance in bytes between the starts of consecutive requests of a sequence.
    pub fn stride(&self) -> u64 {
        self.pattern.parameters.stride.unwrap_or(self.size)
    }

    /// Returns the seed on a target with this logical sector size; `None` where nothing is random.
    pub fn seed(&self, logical_sector: u64) -> Option<u32> {
        let sectors = self.offset / logical_sector.max(1);
        // The argument of the C program was cut to 32 bits as well.
        let usual = u32::try_from(sectors & u64::from(u32::MAX)).unwrap_or(0);
        self.pattern.is_random.then(|| self.pattern.parameters.seed.unwrap_or(usual))
    }

    /// Returns the number of random blocks on a target of this size: as requested, or as many as fit. It is the same
    /// for all small offsets.
    pub fn blocks(&self, capacity: u64) -> Option<u64> {
        let blocks = self.pattern.parameters.blocks?;
        let room = capacity.saturating_sub(self.start).saturating_sub(self.offset.max(ROOM));
        Some(blocks.min(room.checked_div(self.size).unwrap_or(0)))
    }

    /// Returns the number of requests and the seconds after which the run ends, with the defaults.
    pub const fn limits(&self) -> (Option<u64>, Option<f64>) {
        match (self.count, self.seconds) {
            (None, None) => self.pattern.usual_limits,
            limits => limits,
        }
    }
}
