//! What `bench --json` prints, and the measurement behind it.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::FirmwareRange;
use straddle_measure::bench::{
    Arm, Description, Ended, Host, Parameters, Ratio, Samples, Sweep, WarmUp, Workload,
};
use straddle_measure::real::Io;
use straddle_units::Span;

/// What `straddle bench --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BenchReport<'a> {
    /// The target that was measured.
    target: Target<'a>,
    /// The workload that was run.
    workload: WorkloadReport,
    /// The time between the completion of a request and the next submission, in nanoseconds.
    host_overhead_ns: u64,
    /// The number of warm-up runs at each offset or, with turns, of warm-up rounds. Their results are
    /// discarded.
    warmups: u32,
    /// The number of bytes written before each run to fill the buffer of a modelled SSD, not included in any
    /// result; absent if the buffer was not filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup_bytes: Option<u64>,
    /// One run for each offset, in the order of the offsets.
    arms: Vec<ArmReport<'a>>,
    /// The offset with the least time per request, in logical sectors.
    best_offset_sectors: u64,
    /// The offset with the greatest time per request, in logical sectors.
    worst_offset_sectors: u64,
    /// Whether the offset affects the time; false if the best and the worst offset differ by at most 1 %, or by
    /// no more than the statistical error (3 standard errors or, with turns, the confidence intervals).
    differs: bool,
    /// The range, over the plausible firmware of a modelled disk, of the ratio of the time per request at the
    /// worst offset to that at the best (at the second to that at the first, if `differs` is false); absent
    /// if the firmware makes no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    firmware_range: Option<FirmwareRange>,
    /// All offsets whose time per request does not differ significantly from the least, in logical sectors.
    cheapest_offsets_sectors: Vec<u64>,
    /// How the arms took turns; absent if each was run once, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<&'a Turns<'a>>,
}

/// How arms took turns.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Turns<'a> {
    /// The number of complete rounds, each with two turns of every arm.
    pub(crate) rounds: usize,
    /// The number of requests in a turn.
    pub(crate) requests: u64,
    /// Why no further round of turns was started.
    pub(crate) ended: Ended,
    /// The requested precision, as a fraction of each ratio.
    pub(crate) precision: f64,
    /// The seed for the order of turns and for all random offsets.
    pub(crate) seed: u64,
    /// How data was transferred: "direct" bypasses the page cache (`O_DIRECT`), "buffered" goes through it.
    #[schemars(with = "String")]
    pub(crate) io: Io,
    /// What happened to the previous contents of the target.
    pub(crate) contents: &'static str,
    /// The areas of the target that requests were sent to.
    pub(crate) areas: &'a [Span],
    /// Conditions under which the figures may be misleading.
    pub(crate) warnings: &'a [String],
}

/// The target of a measurement.
#[derive(Debug, Serialize, JsonSchema)]
struct Target<'a> {
    #[serde(flatten)]
    description: &'a Description,
    /// The size in bytes.
    capacity_bytes: u64,
    /// The logical sector size in bytes, which is the unit of `offset_sectors`.
    logical_sector_bytes: u64,
}

/// A workload. Parameters that it does not have are absent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Workload")]
pub(crate) struct WorkloadReport {
    /// The name of the workload.
    kind: &'static str,
    /// The number of requests in each run, unless the time limit is reached first.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    /// The maximum duration of each run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_limit_seconds: Option<f64>,
    /// The size of each request in bytes.
    size_bytes: u64,
    /// The position of offset 0 on the target, in bytes.
    start_bytes: u64,
    /// The number of blocks from which random requests were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    /// The number of requests outstanding at a time.
    queue_depth: u32,
    #[serde(flatten)]
    parameters: Parameters,
}

/// A run at one offset.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Arm")]
struct ArmReport<'a> {
    /// The offset in logical sectors.
    offset_sectors: u64,
    /// The offset in bytes.
    offset_bytes: u64,
    /// The seed of the random offsets in this run; absent if the workload has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    #[serde(flatten)]
    samples: &'a Samples,
    /// Requests per second.
    iops: f64,
    /// Bytes per second.
    bytes_per_second: f64,
    /// The time per request in nanoseconds, by which arms are compared; with several rounds, the median.
    ns_per_request: f64,
    #[serde(flatten)]
    ratio: Ratio,
    /// Bytes written to the medium per byte that the host writes; on an SSD, this is its wear. Absent if
    /// unknown, or if nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<f64>,
}

/// What the time per request at one offset relative to another may be with other firmware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairRange {
    pub(crate) offset: u64,
    pub(crate) relative_to: u64,
    pub(crate) range: FirmwareRange,
}

pub(crate) struct Bench<'a> {
    pub(crate) target: &'a Description,
    pub(crate) capacity: u64,
    pub(crate) logical_sector: u64,
    pub(crate) workload: &'a Workload,
    pub(crate) host: Host,
    pub(crate) warm_up: WarmUp,
    pub(crate) sweep: &'a Sweep,
    /// What the ratio of the worst offset may be with other firmware.
    pub(crate) firmware: Option<PairRange>,
    pub(crate) turns: Option<&'a Turns<'a>>,
}

impl<'a> BenchReport<'a> {
    pub(crate) fn of(bench: &Bench<'a>) -> Self {
        let sweep = bench.sweep;
        let (warmups, warmup_bytes) = match bench.warm_up {
            WarmUp::Runs(runs) => (runs, None),
            WarmUp::Bytes(bytes) => (0, Some(bytes)),
        };
        Self {
            target: Target {
                description: bench.target,
                capacity_bytes: bench.capacity,
                logical_sector_bytes: bench.logical_sector,
            },
            workload: workload(bench.workload, bench.capacity),
            host_overhead_ns: bench.host.overhead_ns,
            warmups,
            warmup_bytes,
            arms: sweep.arms().iter().map(|arm| arm_report(arm, bench)).collect(),
            best_offset_sectors: sweep.best().offset,
            worst_offset_sectors: sweep.worst().offset,
            differs: sweep.differs(),
            firmware_range: bench.firmware.map(|of| of.range),
            cheapest_offsets_sectors: sweep.cheapest(),
            turns: bench.turns,
        }
    }
}

pub(crate) fn workload(workload: &Workload, capacity: u64) -> WorkloadReport {
    let (requests, time_limit_seconds) = workload.limits();
    WorkloadReport {
        kind: workload.name(),
        requests,
        time_limit_seconds,
        size_bytes: workload.size,
        start_bytes: workload.start,
        blocks: workload.blocks(capacity),
        queue_depth: workload.queue_depth,
        parameters: workload.pattern.parameters,
    }
}

fn arm_report<'a>(arm: &'a Arm, bench: &Bench<'_>) -> ArmReport<'a> {
    ArmReport {
        offset_sectors: arm.offset,
        // A completed run was below the capacity, so this does not overflow.
        offset_bytes: arm.offset.saturating_mul(bench.logical_sector),
        seed: arm.workload.seed(bench.logical_sector),
        samples: &arm.samples,
        iops: arm.iops(),
        bytes_per_second: arm.bytes_per_second(),
        ns_per_request: arm.seconds_per_request() * 1e9,
        ratio: bench.sweep.ratio(arm),
        write_amplification: arm.samples.write_amplification(),
    }
}
