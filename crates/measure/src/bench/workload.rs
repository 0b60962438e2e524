//! Workloads as values, which can be run again with the same requests.
//!
//! Sizes and offsets are in bytes. `start` is where the workload's area begins, such as a partition. `offset` is the
//! distance of every request from its place in that area, and is what a sweep varies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_units::ByteCount;
use straddle_units::io::{Nanos, Operation};

use crate::bench::random::GlibcRandom;

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

/// The number of blocks of the random workloads: the modulus in the published program.
pub const RANDOM_BLOCKS: u64 = 200_000_000;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Nothing: data may stay in the drive's cache, as with O_SYNC on a raw disk up to Linux 2.6.31.
    #[default]
    None,
    /// A flush of the drive's cache after each write, as with O_SYNC since Linux 2.6.32.
    Flush,
    /// Force unit access: each write goes to the medium individually.
    Fua,
}

/// The places of the requests, and further properties besides their size and number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// The name in files and on the command line.
    pub name: &'static str,
    /// A one-line description for the help.
    pub about: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether its requests are at random places; otherwise each follows the previous one.
    pub is_random: bool,
    /// Whether it ends with an fsync whose time counts.
    pub ends_with_fsync: bool,
    /// Its parameters.
    pub parameters: Parameters,
    usual_size: u64,
    /// The default limits: the number of requests, or the seconds.
    usual_limits: (Option<u64>, Option<f64>),
}

impl Pattern {
    /// Writes to random blocks: T. Miller's program of 2010, with its arithmetic. The block is random() % `blocks`,
    /// the byte is `start` + block · `size` + `offset`.
    pub const RANDOM_WRITE: Self = Self {
        name: "random-write",
        about: "4 KiB writes to random blocks, as in T. Miller's 2010 article",
        writes: true,
        is_random: true,
        usual_limits: (Some(1000), None),
        parameters: Parameters { blocks: Some(RANDOM_BLOCKS), sync: Some(Sync::None), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Writes a fixed distance apart: D. E. Smørgrav's phybs. The byte is `start` + `offset` + index · `stride`.
    pub const STRIDED_WRITE: Self = Self {
        name: "strided-write",
        about: "4 KiB writes at a fixed distance from each other, as in the program phybs",
        writes: true,
        usual_limits: (Some(32_768), None),
        parameters: Parameters { stride: Some(16_384), sync: Some(Sync::None), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Consecutive writes, with an fsync after every `fsync_each` of them: fio's `rw=write fsync=1`.
    pub const SEQUENTIAL_WRITE: Self = Self {
        name: "sequential-write",
        about: "Sequential 4 KiB writes, each followed by an fsync, as with fio using rw=write and fsync=1",
        writes: true,
        parameters: Parameters { fsync_each: Some(1), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Consecutive writes, and one fsync at the end, whose time counts. The size is that of the drive's requests:
    /// where a page cache merges dd's blocks, the size after merging.
    pub const DD: Self = Self {
        name: "dd",
        about: "Large sequential writes, with one fsync at the end",
        writes: true,
        ends_with_fsync: true,
        usual_size: 1 << 20,
        usual_limits: (Some(1024), None),
        ..Self::SEQUENTIAL_READ
    };

    /// Reads of random blocks, chosen as in [`Self::RANDOM_WRITE`].
    pub const RANDOM_READ: Self = Self {
        name: "random-read",
        about: "4 KiB reads of random blocks",
        is_random: true,
        usual_limits: (Some(1000), None),
        parameters: Parameters { blocks: Some(RANDOM_BLOCKS), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Consecutive reads.
    pub const SEQUENTIAL_READ: Self = Self {
        name: "sequential-read",
        about: "Sequential 4 KiB reads",
        writes: false,
        is_random: false,
        ends_with_fsync: false,
        usual_size: 4096,
        // fio's `runtime` in the published job.
        usual_limits: (None, Some(60.0)),
        parameters: Parameters::NONE,
    };

    /// All patterns, with their default parameters.
    pub const ALL: &'static [Self] = &[
        Self::RANDOM_WRITE,
        Self::STRIDED_WRITE,
        Self::SEQUENTIAL_WRITE,
        Self::DD,
        Self::RANDOM_READ,
        Self::SEQUENTIAL_READ,
    ];

    /// Returns the pattern with this name, with its default parameters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|pattern| pattern.name == name)
    }

    /// Returns the pattern with these parameters. The first parameter that it does not have is an error.
    pub fn with(mut self, given: Parameters) -> Result<Self, ForeignParameter> {
        if let Some((parameter, _)) = given.named().into_iter().find(|(name, is)| *is && !self.has(name)) {
            return Err(ForeignParameter { parameter, pattern: self.name });
        }
        let own = self.parameters;
        self.parameters = Parameters {
            stride: given.stride.or(own.stride),
            blocks: given.blocks.or(own.blocks),
            seed: given.seed.or(own.seed),
            sync: given.sync.or(own.sync),
            fsync_each: given.fsync_each.or(own.fsync_each),
        };
        Ok(self)
    }

    fn has(self, parameter: &str) -> bool {
        parameter == "seed" && self.is_random || self.parameters.named().contains(&(parameter, true))
    }
}

/// The parameters that only some patterns have. In a pattern, `None` means that it has no such parameter, or
/// that no seed was specified. In a request, `None` keeps the default value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parameters {
    /// The distance from the start of one request to the start of the next, in bytes.
    #[serde(rename = "stride_bytes", skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    /// The requested number of blocks; fewer are used if the target is too small.
    #[serde(rename = "blocks_requested", skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// The seed requested for the random offsets; absent if none was, so that each arm has its own `seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// What makes each write durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// The number of writes per fsync; 0 for no fsync.
    #[serde(rename = "writes_per_fsync", skip_serializing_if = "Option::is_none")]
    pub fsync_each: Option<u64>,
}

impl Parameters {
    const NONE: Self = Self { stride: None, blocks: None, seed: None, sync: None, fsync_each: None };

    /// As in files, and whether there is a value.
    const fn named(&self) -> [(&'static str, bool); 5] {
        [
            ("stride", self.stride.is_some()),
            ("blocks", self.blocks.is_some()),
            ("seed", self.seed.is_some()),
            ("sync", self.sync.is_some()),
            ("fsync_each", self.fsync_each.is_some()),
        ]
    }
}

/// A parameter that a pattern does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} {}", self.reason())]
pub struct ForeignParameter {
    /// The parameter's name, as in files.
    pub parameter: &'static str,
    pattern: &'static str,
}

impl ForeignParameter {
    /// Returns the reason, such as `applies only to random-write and random-read, not to dd`.
    pub fn reason(&self) -> String {
        let of = Pattern::ALL.iter().filter(|pattern| pattern.has(self.parameter));
        let names: Vec<&str> = of.map(|pattern| pattern.name).collect();
        format!("applies only to {}, not to {}", names.join(" and "), self.pattern)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) operation: Operation,
    pub(crate) size: u64,
    pub(crate) places: Places,
    pub(crate) count: Option<u64>,
    pub(crate) time: Option<Nanos>,
    /// Whether a flush after each write counts as part of it.
    pub(crate) flush_each: bool,
    /// Writes after which to flush, with nothing else outstanding; zero for never.
    pub(crate) fsync_each: u64,
    pub(crate) fsync_last: bool,
    pub(crate) depth: u32,
    /// Requests after the count, which keep the queue full until the last that counts is done.
    pub(crate) tail: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Places {
    Random { generator: GlibcRandom, blocks: u64, size: u64, first: u64 },
    Sequential { next: u64, stride: u64, left: u64 },
}

impl Places {
    pub(crate) fn next(&mut self) -> Option<u64> {
        match self {
            Self::Random { generator, blocks, size, first } => {
                Some(*first + (u64::from(generator.next()) % *blocks) * *size)
            }
            Self::Sequential { next, stride, left } => {
                *left = left.checked_sub(1)?;
                let place = *next;
                *next = place.saturating_add(*stride);
                Some(place)
            }
        }
    }
}

impl Workload {
    /// Checks that every request is inside a target of `capacity` bytes and of whole sectors.
    pub(crate) fn program(&self, capacity: ByteCount, sector: u64) -> Result<Program, WorkloadError> {
        let (count, seconds) = self.limits();
        self.check(sector)?;
        let time = seconds.map(|seconds| {
            Nanos::from_seconds(seconds)
                .filter(|time| *time > Nanos::ZERO)
                .ok_or(WorkloadError::Seconds { seconds })
        });
        let places = self.places(count, capacity.get(), sector)?;
        let parameters = self.pattern.parameters;
        let sync = parameters.sync.unwrap_or_default();
        let operation = match (self.pattern.writes, sync) {
            (false, _) => Operation::Read,
            (true, Sync::Fua) => Operation::WriteFua,
            (true, Sync::None | Sync::Flush) => Operation::Write,
        };
        Ok(Program {
            operation,
            size: self.size,
            places,
            count,
            time: time.transpose()?,
            flush_each: sync == Sync::Flush,
            fsync_each: parameters.fsync_each.unwrap_or(0),
            fsync_last: self.pattern.ends_with_fsync,
            depth: self.queue_depth,
            tail: 0,
        })
    }

    fn places(&self, count: Option<u64>, capacity: u64, sector: u64) -> Result<Places, WorkloadError> {
        let size = self.size;
        if let (Some(seed), Some(blocks)) = (self.seed(sector), self.blocks(capacity)) {
            if self.pattern.parameters.blocks == Some(0) {
                return Err(WorkloadError::Zero { what: "blocks" });
            }
            if blocks == 0 {
                let needed = u128::from(size) + u128::from(self.offset.max(ROOM));
                return Err(WorkloadError::DoesNotFit { first: self.start, needed, capacity });
            }
            // Within the capacity, because there is at least one block.
            let first = self.start + self.offset;
            return Ok(Places::Random { generator: GlibcRandom::new(seed), blocks, size, first });
        }
        let (first, stride) = (self.start.saturating_add(self.offset), self.stride());
        let left = capacity.saturating_sub(first).checked_sub(size).map_or(0, |rest| rest / stride + 1);
        let wanted = count.unwrap_or(1);
        if left < wanted {
            let needed = u128::from(wanted - 1) * u128::from(stride) + u128::from(size);
            return Err(WorkloadError::DoesNotFit { first, needed, capacity });
        }
        Ok(Places::Sequential { next: first, stride, left })
    }

    fn check(&self, sector: u64) -> Result<(), WorkloadError> {
        let Self { size, start, offset, queue_depth, .. } = *self;
        let stride = self.stride();
        let (depth, count) = (u64::from(queue_depth), self.count.unwrap_or(1));
        let zeros = [("size", size), ("stride", stride), ("queue depth", depth), ("count", count)];
        if let Some((what, _)) = zeros.into_iter().find(|(_, value)| *value == 0) {
            return Err(WorkloadError::Zero { what });
        }
        let sizes = [("size", size), ("stride", stride), ("start", start), ("offset", offset)];
        match sizes.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(sector)) {
            Some((what, bytes)) => Err(WorkloadError::NotWholeSectors { what, bytes, sector }),
            None => Ok(()),
        }
    }
}
