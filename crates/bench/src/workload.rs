//! Workloads as values: they can be saved, read, shown and run again to the same requests.
//!
//! Sizes and offsets are bytes. `start` is where the workload's world begins, such as a partition; `offset` is how far past
//! it every request is put, and is what a sweep varies. Where neither `count` nor `seconds` is given, a default holds; where
//! both are, the first to be reached ends the run.

use serde::{Deserialize, Serialize};
use straddle_io::{Nanos, Operation};

use crate::random::GlibcRandom;

/// Requests of the random workloads: what the published program was run with.
pub const RANDOM_COUNT: u64 = 1000;
/// Requests of the strided workload: what phybs was run with.
pub const STRIDED_COUNT: u64 = 32_768;
/// Requests of `dd`.
pub const DD_COUNT: u64 = 1024;
/// How long the sequential workloads run, in seconds: fio's `runtime` in the published job.
pub const SEQUENTIAL_SECONDS: f64 = 60.0;
/// Blocks of the random workloads: the modulus in the published program.
pub const RANDOM_BLOCKS: u64 = 200_000_000;
/// Left free behind the last block of a random workload, so that all arms of a sweep draw from the same blocks.
const ROOM: u64 = 1 << 20;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Nothing: it may stay in the drive's cache. O_SYNC on a raw disk did no more up to Linux 2.6.31.
    #[default]
    None,
    /// A flush of the drive's cache after each write: O_SYNC later.
    Flush,
    /// Each write goes to the medium by itself (force unit access).
    Fua,
}

/// Something to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Writes to random blocks: T. Miller's program of 2010, with its arithmetic.
    RandomWrite(RandomWrite),
    /// Writes a fixed distance apart: D. E. Smørgrav's phybs.
    StridedWrite(StridedWrite),
    /// Writes one after the other, with an fsync now and then: fio's `rw=write fsync=1`.
    SequentialWrite(SequentialWrite),
    /// Writes one after the other, and one fsync at the end.
    Dd(Dd),
    /// Reads of random blocks.
    RandomRead(RandomRead),
    /// Reads one after the other.
    SequentialRead(SequentialRead),
}

/// `count` times: block = random() % `blocks`, byte = `start` + block · `size` + `offset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomWrite {
    /// Requests; 1000 if neither this nor `seconds` is given.
    pub count: Option<u64>,
    /// Longest time on the target.
    pub seconds: Option<f64>,
    /// Bytes of a block and of each request.
    pub size: u64,
    /// Blocks to choose from; fewer if the target is too small.
    pub blocks: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// Seed of the generator; the offset in logical sectors if not given, as in the published program.
    pub seed: Option<u32>,
    /// What makes each write durable.
    pub sync: Sync,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

/// `count` times: byte = `start` + `offset` + index · `stride`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StridedWrite {
    /// Requests; 32768 if neither this nor `seconds` is given.
    pub count: Option<u64>,
    /// Longest time on the target.
    pub seconds: Option<f64>,
    /// Bytes of each request.
    pub size: u64,
    /// Bytes from the start of one to the start of the next.
    pub stride: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// What makes each write durable.
    pub sync: Sync,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

/// One write after the other, with an fsync after every `fsync_each` of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequentialWrite {
    /// Requests; as many as `seconds` allow if not given.
    pub count: Option<u64>,
    /// Longest time on the target; 60 if neither this nor `count` is given.
    pub seconds: Option<f64>,
    /// Bytes of each request.
    pub size: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// Writes from one fsync to the next; none at all if zero.
    pub fsync_each: u64,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

/// One write after the other, and one fsync at the end, which counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dd {
    /// Requests; 1024 if neither this nor `seconds` is given.
    pub count: Option<u64>,
    /// Longest time on the target.
    pub seconds: Option<f64>,
    /// Bytes of each request, as the drive sees it: where a page cache gathers dd's blocks first, what it sends.
    pub size: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

/// As [`RandomWrite`], but reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomRead {
    /// Requests; 1000 if neither this nor `seconds` is given.
    pub count: Option<u64>,
    /// Longest time on the target.
    pub seconds: Option<f64>,
    /// Bytes of a block and of each request.
    pub size: u64,
    /// Blocks to choose from; fewer if the target is too small.
    pub blocks: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// Seed of the generator; the offset in logical sectors if not given.
    pub seed: Option<u32>,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

/// One read after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SequentialRead {
    /// Requests; as many as `seconds` allow if not given.
    pub count: Option<u64>,
    /// Longest time on the target; 60 if neither this nor `count` is given.
    pub seconds: Option<f64>,
    /// Bytes of each request.
    pub size: u64,
    /// First byte.
    pub start: u64,
    /// Bytes past it.
    pub offset: u64,
    /// Requests outstanding at a time.
    pub queue_depth: u32,
}

impl Default for RandomWrite {
    fn default() -> Self {
        Self {
            count: None,
            seconds: None,
            size: 4096,
            blocks: RANDOM_BLOCKS,
            start: 0,
            offset: 0,
            seed: None,
            sync: Sync::None,
            queue_depth: 1,
        }
    }
}

impl Default for StridedWrite {
    fn default() -> Self {
        Self {
            count: None,
            seconds: None,
            size: 4096,
            stride: 16_384,
            start: 0,
            offset: 0,
            sync: Sync::None,
            queue_depth: 1,
        }
    }
}

impl Default for SequentialWrite {
    fn default() -> Self {
        Self { count: None, seconds: None, size: 4096, start: 0, offset: 0, fsync_each: 1, queue_depth: 1 }
    }
}

impl Default for Dd {
    fn default() -> Self {
        Self { count: None, seconds: None, size: 1 << 20, start: 0, offset: 0, queue_depth: 1 }
    }
}

impl Default for RandomRead {
    fn default() -> Self {
        Self {
            count: None,
            seconds: None,
            size: 4096,
            blocks: RANDOM_BLOCKS,
            start: 0,
            offset: 0,
            seed: None,
            queue_depth: 1,
        }
    }
}

impl Default for SequentialRead {
    fn default() -> Self {
        Self { count: None, seconds: None, size: 4096, start: 0, offset: 0, queue_depth: 1 }
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

/// The parts that all workloads have.
#[derive(Clone, Copy, Debug)]
struct Common {
    count: Option<u64>,
    seconds: Option<f64>,
    size: u64,
    start: u64,
    offset: u64,
    queue_depth: u32,
}

macro_rules! common {
    ($workload:expr) => {
        Common {
            count: $workload.count,
            seconds: $workload.seconds,
            size: $workload.size,
            start: $workload.start,
            offset: $workload.offset,
            queue_depth: $workload.queue_depth,
        }
    };
}

impl Workload {
    /// The name, as in files and on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RandomWrite(_) => "random-write",
            Self::StridedWrite(_) => "strided-write",
            Self::SequentialWrite(_) => "sequential-write",
            Self::Dd(_) => "dd",
            Self::RandomRead(_) => "random-read",
            Self::SequentialRead(_) => "sequential-read",
        }
    }

    /// The same, every request put `offset` bytes past the start.
    #[must_use]
    pub fn at(&self, offset: u64) -> Self {
        let mut moved = self.clone();
        match &mut moved {
            Self::RandomWrite(workload) => workload.offset = offset,
            Self::StridedWrite(workload) => workload.offset = offset,
            Self::SequentialWrite(workload) => workload.offset = offset,
            Self::Dd(workload) => workload.offset = offset,
            Self::RandomRead(workload) => workload.offset = offset,
            Self::SequentialRead(workload) => workload.offset = offset,
        }
        moved
    }

    /// The same for one turn of many: from another `start`, `count` requests and no time limit, with this seed.
    #[must_use]
    pub(crate) fn turn(&self, start: u64, count: u64, seed: u32) -> Self {
        let mut turn = self.clone();
        macro_rules! set {
            ($workload:expr) => {{
                ($workload.start, $workload.count, $workload.seconds) = (start, Some(count), None);
            }};
        }
        match &mut turn {
            Self::RandomWrite(workload) => {
                set!(workload);
                workload.seed = Some(seed);
            }
            Self::RandomRead(workload) => {
                set!(workload);
                workload.seed = Some(seed);
            }
            Self::StridedWrite(workload) => set!(workload),
            Self::SequentialWrite(workload) => set!(workload),
            Self::Dd(workload) => set!(workload),
            Self::SequentialRead(workload) => set!(workload),
        }
        turn
    }

    /// Bytes that every request is past its place.
    pub const fn offset(&self) -> u64 {
        self.common().offset
    }

    /// Whether it writes.
    pub const fn writes(&self) -> bool {
        !matches!(self, Self::RandomRead(_) | Self::SequentialRead(_))
    }

    /// Bytes from the start of a request to the start of the next, in a sequence.
    pub const fn stride(&self) -> u64 {
        if let Self::StridedWrite(workload) = self { workload.stride } else { self.size() }
    }

    /// Bytes of each request.
    pub const fn size(&self) -> u64 {
        self.common().size
    }

    /// The seed that will be used on a target with this logical sector; `None` where nothing is random.
    pub fn seed(&self, logical_sector: u64) -> Option<u32> {
        let (seed, offset) = match self {
            Self::RandomWrite(workload) => (workload.seed, workload.offset),
            Self::RandomRead(workload) => (workload.seed, workload.offset),
            _ => return None,
        };
        let sectors = offset / logical_sector.max(1);
        // A C program's argument is cut to 32 bits as well.
        Some(seed.unwrap_or(u32::try_from(sectors & u64::from(u32::MAX)).unwrap_or(0)))
    }

    /// The blocks that will be chosen from on a target of this size, where they are random: what is asked for, or as many as
    /// fit. The last MiB is left free, so that all small offsets have the same number.
    pub fn blocks(&self, capacity: u64) -> Option<u64> {
        let blocks = match self {
            Self::RandomWrite(workload) => workload.blocks,
            Self::RandomRead(workload) => workload.blocks,
            _ => return None,
        };
        let Common { size, start, offset, .. } = self.common();
        let room = capacity.saturating_sub(start).saturating_sub(offset.max(ROOM));
        Some(blocks.min(room.checked_div(size).unwrap_or(0)))
    }

    /// The byte of offset 0.
    pub const fn start(&self) -> u64 {
        self.common().start
    }

    /// Requests outstanding at a time.
    pub const fn queue_depth(&self) -> u32 {
        self.common().queue_depth
    }

    const fn common(&self) -> Common {
        match self {
            Self::RandomWrite(workload) => common!(workload),
            Self::StridedWrite(workload) => common!(workload),
            Self::SequentialWrite(workload) => common!(workload),
            Self::Dd(workload) => common!(workload),
            Self::RandomRead(workload) => common!(workload),
            Self::SequentialRead(workload) => common!(workload),
        }
    }

    /// The count and the time after which the run ends, with the defaults filled in.
    pub fn limits(&self) -> (Option<u64>, Option<f64>) {
        let Common { count, seconds, .. } = self.common();
        if count.is_some() || seconds.is_some() {
            return (count, seconds);
        }
        match self {
            Self::RandomWrite(_) | Self::RandomRead(_) => (Some(RANDOM_COUNT), None),
            Self::StridedWrite(_) => (Some(STRIDED_COUNT), None),
            Self::Dd(_) => (Some(DD_COUNT), None),
            Self::SequentialWrite(_) | Self::SequentialRead(_) => (None, Some(SEQUENTIAL_SECONDS)),
        }
    }

    /// What to send to a target of `capacity` bytes, checked: no request will be past its end or no whole sectors.
    pub(crate) fn program(&self, capacity: u64, sector: u64) -> Result<Program, WorkloadError> {
        let common = self.common();
        let (count, seconds) = self.limits();
        let stride = self.stride();
        check(&common, stride, sector)?;
        let time = seconds.map(|seconds| {
            Nanos::from_seconds(seconds)
                .filter(|time| *time > Nanos::ZERO)
                .ok_or(WorkloadError::Seconds { seconds })
        });
        let places = match (self.seed(sector), self.blocks(capacity)) {
            (Some(seed), Some(blocks)) => self.random(seed, blocks, capacity)?,
            _ => Places::sequential(&common, stride, count, capacity)?,
        };
        let sync = match self {
            Self::RandomWrite(workload) => workload.sync,
            Self::StridedWrite(workload) => workload.sync,
            _ => Sync::None,
        };
        let fsync_each = if let Self::SequentialWrite(workload) = self { workload.fsync_each } else { 0 };
        let operation = match self {
            Self::RandomRead(_) | Self::SequentialRead(_) => Operation::Read,
            _ if sync == Sync::Fua => Operation::WriteFua,
            _ => Operation::Write,
        };
        Ok(Program {
            operation,
            size: common.size,
            places,
            count,
            time: time.transpose()?,
            flush_each: sync == Sync::Flush,
            fsync_each,
            fsync_last: matches!(self, Self::Dd(_)),
            depth: common.queue_depth,
            tail: 0,
        })
    }

    fn random(&self, seed: u32, blocks: u64, capacity: u64) -> Result<Places, WorkloadError> {
        let Common { size, start, offset, .. } = self.common();
        if matches!(
            self,
            Self::RandomWrite(RandomWrite { blocks: 0, .. }) | Self::RandomRead(RandomRead { blocks: 0, .. })
        ) {
            return Err(WorkloadError::Zero { what: "blocks" });
        }
        if blocks == 0 {
            let needed = u128::from(size) + u128::from(offset.max(ROOM));
            return Err(WorkloadError::DoesNotFit { first: start, needed, capacity });
        }
        // Below the capacity, as there is at least one block.
        Ok(Places::Random { generator: GlibcRandom::new(seed), blocks, size, first: start + offset })
    }
}

fn check(common: &Common, stride: u64, sector: u64) -> Result<(), WorkloadError> {
    let zeros = [("size", common.size), ("stride", stride), ("queue depth", u64::from(common.queue_depth))];
    if let Some((what, _)) = zeros.into_iter().find(|(_, value)| *value == 0) {
        return Err(WorkloadError::Zero { what });
    }
    if common.count == Some(0) {
        return Err(WorkloadError::Zero { what: "count" });
    }
    let sizes =
        [("size", common.size), ("stride", stride), ("start", common.start), ("offset", common.offset)];
    match sizes.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(sector)) {
        Some((what, bytes)) => Err(WorkloadError::NotWholeSectors { what, bytes, sector }),
        None => Ok(()),
    }
}

/// A checked workload, being run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) operation: Operation,
    pub(crate) size: u64,
    pub(crate) places: Places,
    pub(crate) count: Option<u64>,
    pub(crate) time: Option<Nanos>,
    /// A flush after each write, as a part of it.
    pub(crate) flush_each: bool,
    /// A flush after so many writes, with nothing else outstanding; never if zero.
    pub(crate) fsync_each: u64,
    pub(crate) fsync_last: bool,
    pub(crate) depth: u32,
    /// Requests beyond the count that keep the queue full until the last one that counts is done.
    pub(crate) tail: u64,
}

/// The bytes at which requests begin.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    Random { generator: GlibcRandom, blocks: u64, size: u64, first: u64 },
    Sequential { next: u64, stride: u64, left: u64 },
}

impl Places {
    fn sequential(
        common: &Common,
        stride: u64,
        count: Option<u64>,
        capacity: u64,
    ) -> Result<Self, WorkloadError> {
        let first = common.start.saturating_add(common.offset);
        let room = capacity.saturating_sub(first);
        let fits = room.checked_sub(common.size).map_or(0, |rest| rest / stride + 1);
        let wanted = count.unwrap_or(1);
        if fits < wanted {
            let needed = u128::from(wanted - 1) * u128::from(stride) + u128::from(common.size);
            return Err(WorkloadError::DoesNotFit { first, needed, capacity });
        }
        Ok(Self::Sequential { next: first, stride, left: fits })
    }

    /// The next place; `None` when the target ends.
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
