//! What `bench --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_measure::bench::{
    Arm, Clock, Description, Ended, Host, Measured, Order, Parameters, Reached, Stop, Sweep, Sync, WarmUp,
    Workload,
};
use straddle_measure::real::Io;
use straddle_units::io::{Counters, Latency};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle bench --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle bench")]
pub(crate) struct BenchReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// What was measured.
    target: TargetReport,
    /// The workload that was run.
    workload: WorkloadReport,
    /// The time between the completion of a request and the next submission, in nanoseconds.
    host_overhead_ns: u64,
    /// The number of runs at each offset that came first and do not count; with turns, of such rounds.
    warmups: u32,
    /// The bytes written first at each offset to fill the buffer of a modelled SSD, which do not count; absent if that
    /// was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup_bytes: Option<u64>,
    /// One run for each offset, in the order of the offsets.
    arms: Vec<ArmReport>,
    /// The offset with the least time per request, in logical sectors.
    best_offset_sectors: u64,
    /// The offset with the greatest time per request, in logical sectors.
    worst_offset_sectors: u64,
    /// Whether the offset matters for the time: false if the best and the worst are within 1 %, or within the statistical
    /// error (3 standard errors; in turns, the confidence intervals). Null if a real drive ran each offset once (fio).
    differs: Option<bool>,
    /// All offsets that do not differ significantly from the best, in logical sectors.
    cheapest_offsets_sectors: Vec<u64>,
    /// How the arms took turns; absent if each was run by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<TurnsReport>,
}

/// How arms took turns.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Turns")]
struct TurnsReport {
    /// The number of complete rounds, each with two turns of every arm.
    rounds: usize,
    /// The number of requests in a turn.
    requests: u64,
    /// Why no further round was begun.
    ended: EndedReport,
    /// The precision that was asked for, as a fraction of each ratio.
    precision: f64,
    /// The seed of the order of turns and of all places.
    seed: u64,
    /// How data was transferred.
    io: IoReport,
    /// What happened to the previous contents of the target.
    contents: String,
    /// The areas of the target that were used.
    areas: Vec<AreaReport>,
    /// Conditions under which the figures may be misleading.
    warnings: Vec<String>,
}

/// Why no further round was begun.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ended")]
enum EndedReport {
    /// Every ratio was known with the precision asked for.
    Precise,
    /// The time limit or the maximum number of rounds was reached.
    Limit,
    /// The run was interrupted (Ctrl-C).
    Interrupted,
}

/// How data is transferred.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Io")]
enum IoReport {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache.
    Buffered,
}

/// A part of a target.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Area")]
struct AreaReport {
    /// The offset of its first byte.
    start_bytes: u64,
    /// The size in bytes.
    size_bytes: u64,
}

/// A target.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Target")]
struct TargetReport {
    /// The target as named on the command line.
    name: String,
    /// Manufacturer, model and size.
    title: String,
    /// The clock of all times.
    clock: ClockReport,
    /// The size in bytes; null if it is not known, as of a run of fio.
    capacity_bytes: Option<u64>,
    /// The logical sector size in bytes, which is the unit of `offset_sectors`.
    logical_sector_bytes: u64,
}

/// The clock of all times.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Clock")]
enum ClockReport {
    /// That of a model: the figures are modelled.
    Virtual,
    /// Real time: the figures were measured.
    Wall,
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
    /// The distance from the start of one request to the start of the next, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    stride_bytes: Option<u64>,
    /// The number of blocks that were chosen from.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    /// The number of blocks asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_requested: Option<u64>,
    /// How each write was made durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<SyncReport>,
    /// The number of writes per fsync; 0 if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes_per_fsync: Option<u64>,
    /// The number of outstanding requests at a time.
    queue_depth: u32,
}

/// How each write is made durable.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Sync")]
enum SyncReport {
    /// It is not.
    None,
    /// By a flush after each write.
    Flush,
    /// By force unit access (FUA).
    Fua,
}

/// A run at one offset.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Arm")]
struct ArmReport {
    /// The offset in logical sectors.
    offset_sectors: u64,
    /// The offset in bytes.
    offset_bytes: u64,
    /// The seed of its random numbers; absent if the workload has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    /// The number of reads or writes done.
    requests: u64,
    /// The number of bytes read or written.
    bytes: u64,
    /// The number of flushes done.
    flushes: u64,
    /// The time from the first submission to the last completion, in nanoseconds.
    elapsed_ns: u64,
    /// Why it ended.
    stop: StopReport,
    /// Requests per second.
    iops: f64,
    /// Bytes per second.
    bytes_per_second: f64,
    /// The latency of requests. With a flush after each write, it includes the flush.
    latency: LatencyReport,
    /// The latency of flushes alone; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    flush_latency: Option<LatencyReport>,
    /// The time per request in nanoseconds, by which arms are compared; with several rounds, the median.
    ns_per_request: f64,
    /// The time per request relative to the best offset.
    ratio: f64,
    /// The lower end of the 95 % confidence interval of `ratio`; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_low: Option<f64>,
    /// The upper end of the 95 % confidence interval of `ratio`; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_high: Option<f64>,
    /// The greater distance from `ratio` to an end of its 95 % confidence interval; absent if the interval is
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_margin: Option<f64>,
    /// What the writes reached; absent if that is not known (real targets), or nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<ReachedReport>,
    /// Bytes written to the medium per byte of the host; on an SSD its wear. Absent if that is not known, or nothing
    /// was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<f64>,
    /// Counters from inside the drive; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<CountersReport>,
}

/// What the writes of a run reached.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Reached")]
enum ReachedReport {
    /// The drive's buffer took them: the figures say nothing about the medium.
    Buffer,
    /// The medium of an SSD, but its buffer was filling, or the bytes written to flash per byte of the host changed
    /// during the run.
    Unsteady,
    /// The medium; on an SSD in a steady state.
    Steady,
}

/// Why a run ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Stop")]
enum StopReport {
    /// All requests were done.
    Count,
    /// The time limit was reached.
    Time,
    /// The end of the drive was reached.
    End,
}

/// Latencies in nanoseconds. Percentiles are accurate to 0.1 %, the other values are exact.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Latency")]
pub struct LatencyReport {
    mean_ns: u64,
    min_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

/// Counters from inside a drive during a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Counters")]
pub struct CountersReport {
    /// Reads that the drive completed.
    host_reads: u64,
    /// Writes that it completed.
    host_writes: u64,
    /// Flushes that it completed.
    host_flushes: u64,
    /// Discards that it completed.
    host_discards: u64,
    /// Bytes that the host read.
    host_read_bytes: u64,
    /// Bytes that the host wrote.
    host_write_bytes: u64,
    /// The number of physical sectors or indirection units that were read because only part of them was
    /// written.
    rmw_reads: u64,
    /// Bytes read from the medium.
    media_read_bytes: u64,
    /// Bytes written to the medium.
    media_write_bytes: u64,
    /// Reads answered from the cache.
    cache_hits: u64,
    /// Writes that were merged with others in the cache.
    merged_writes: u64,
    /// Destages: writes from the cache to the medium.
    destages: u64,
    /// Seeks to a track other than the next.
    seeks: u64,
    /// The time spent in seeks, in nanoseconds.
    seek_ns: u64,
    /// The time spent waiting for a sector to pass the head, in nanoseconds.
    rotation_wait_ns: u64,
    /// The same in revolutions; 0 if nothing rotates.
    revolutions_waited: f64,
    /// Bytes written for the host's data, in whole indirection units.
    unit_write_bytes: u64,
    /// Bytes moved by garbage collection.
    gc_write_bytes: u64,
    /// The number of flash blocks erased.
    erases: u64,
}

/// A sweep and the conditions of its measurement.
pub(crate) struct Bench<'a> {
    pub(crate) target: &'a Description,
    pub(crate) capacity: u64,
    pub(crate) logical_sector: u64,
    pub(crate) workload: &'a Workload,
    pub(crate) host: Host,
    /// The number of runs, or rounds, that do not count.
    pub(crate) warm_up: WarmUp,
    pub(crate) sweep: &'a Sweep,
    /// How the arms took turns, if they did.
    pub(crate) turns: Option<&'a InTurns<'a>>,
}

impl Bench<'_> {
    /// Whether a real drive ran each offset once, so that nothing tells a difference from chance.
    pub(crate) fn is_single(&self) -> bool {
        self.turns.is_none() && self.target.clock == Clock::Wall && self.sweep.arms().len() > 1
    }
}

/// How the arms took turns on a real target.
pub(crate) struct InTurns<'a> {
    pub(crate) measured: &'a Measured,
    pub(crate) order: &'a Order,
    pub(crate) io: Io,
    /// What happened to the target's contents.
    pub(crate) kept: &'static str,
    pub(crate) warnings: &'a [String],
}

impl BenchReport {
    pub(crate) fn of(bench: &Bench<'_>) -> Self {
        let sweep = bench.sweep;
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            target: TargetReport {
                name: bench.target.name.clone(),
                title: bench.target.title.clone(),
                clock: match bench.target.clock {
                    Clock::Virtual => ClockReport::Virtual,
                    Clock::Wall => ClockReport::Wall,
                },
                capacity_bytes: Some(bench.capacity).filter(|capacity| *capacity < u64::MAX),
                logical_sector_bytes: bench.logical_sector,
            },
            workload: workload(bench.workload, bench.capacity),
            host_overhead_ns: bench.host.overhead_ns,
            warmups: match bench.warm_up {
                WarmUp::Runs(runs) => runs,
                WarmUp::Bytes(_) => 0,
            },
            warmup_bytes: match bench.warm_up {
                WarmUp::Runs(_) => None,
                WarmUp::Bytes(bytes) => Some(bytes),
            },
            arms: sweep.arms().iter().map(|arm| arm_report(arm, bench)).collect(),
            best_offset_sectors: sweep.best().offset,
            worst_offset_sectors: sweep.worst().offset,
            differs: (!bench.is_single()).then(|| sweep.differs()),
            cheapest_offsets_sectors: sweep.cheapest(),
            turns: bench.turns.map(turns),
        }
    }
}

fn turns(turns: &InTurns<'_>) -> TurnsReport {
    TurnsReport {
        rounds: turns.measured.rounds,
        requests: turns.measured.requests,
        ended: match turns.measured.ended {
            Ended::Precise => EndedReport::Precise,
            Ended::Limit => EndedReport::Limit,
            Ended::Interrupted => EndedReport::Interrupted,
        },
        precision: turns.order.precision,
        seed: turns.order.seed,
        io: match turns.io {
            Io::Direct => IoReport::Direct,
            Io::Buffered => IoReport::Buffered,
        },
        contents: turns.kept.to_owned(),
        areas: turns
            .order
            .regions
            .iter()
            .map(|area| AreaReport { start_bytes: area.start().get(), size_bytes: area.len().get() })
            .collect(),
        warnings: turns.warnings.to_vec(),
    }
}

fn sync_report(sync: Sync) -> SyncReport {
    match sync {
        Sync::None => SyncReport::None,
        Sync::Flush => SyncReport::Flush,
        Sync::Fua => SyncReport::Fua,
    }
}

pub(crate) fn workload(workload: &Workload, capacity: u64) -> WorkloadReport {
    let (count, seconds) = workload.limits();
    let Parameters { stride, blocks, seed: _, sync, fsync_each } = workload.pattern.parameters();
    WorkloadReport {
        kind: workload.name(),
        requests: count,
        time_limit_seconds: seconds,
        size_bytes: workload.size,
        start_bytes: workload.start,
        stride_bytes: stride,
        blocks: workload.blocks(capacity),
        blocks_requested: blocks,
        sync: sync.map(sync_report),
        writes_per_fsync: fsync_each,
        queue_depth: workload.queue_depth,
    }
}

fn arm_report(arm: &Arm, bench: &Bench<'_>) -> ArmReport {
    let (samples, ratio) = (&arm.samples, bench.sweep.ratio(arm));
    ArmReport {
        offset_sectors: arm.offset,
        // A completed run was below the capacity, so this does not overflow.
        offset_bytes: arm.offset.saturating_mul(bench.logical_sector),
        seed: arm.workload.seed(bench.logical_sector),
        requests: samples.requests,
        bytes: samples.bytes,
        flushes: samples.flushes,
        elapsed_ns: samples.elapsed.get(),
        stop: match samples.stop {
            Stop::Count => StopReport::Count,
            Stop::Time => StopReport::Time,
            Stop::End => StopReport::End,
        },
        iops: arm.iops(),
        bytes_per_second: arm.bytes_per_second(),
        latency: latency(&samples.latency),
        flush_latency: (samples.flushes > 0).then(|| latency(&samples.flush_latency)),
        ns_per_request: arm.seconds_per_request() * 1e9,
        ratio: ratio.value,
        ratio_low: ratio.interval.map(|interval| interval.low),
        ratio_high: ratio.interval.map(|interval| interval.high),
        ratio_margin: ratio.margin(),
        reached: samples.reached.map(|reached| match reached {
            Reached::Buffer => ReachedReport::Buffer,
            Reached::Unsteady { .. } => ReachedReport::Unsteady,
            Reached::Steady => ReachedReport::Steady,
        }),
        write_amplification: samples.write_amplification(),
        counters: samples.counters.as_ref().map(counters),
    }
}

/// Returns what is printed of latencies.
pub fn latency(latency: &Latency) -> LatencyReport {
    LatencyReport {
        mean_ns: latency.mean().get(),
        min_ns: latency.min().get(),
        p50_ns: latency.quantile(0.5).get(),
        p90_ns: latency.quantile(0.9).get(),
        p99_ns: latency.quantile(0.99).get(),
        p999_ns: latency.quantile(0.999).get(),
        max_ns: latency.max().get(),
    }
}

/// Returns what is printed of a drive's counters.
pub fn counters(counters: &Counters) -> CountersReport {
    CountersReport {
        host_reads: counters.host_reads,
        host_writes: counters.host_writes,
        host_flushes: counters.host_flushes,
        host_discards: counters.host_discards,
        host_read_bytes: counters.host_read_bytes,
        host_write_bytes: counters.host_write_bytes,
        rmw_reads: counters.rmw_reads,
        media_read_bytes: counters.media_read_bytes,
        media_write_bytes: counters.media_write_bytes,
        cache_hits: counters.cache_hits,
        merged_writes: counters.merged_writes,
        destages: counters.destages,
        seeks: counters.seeks,
        seek_ns: counters.seek_time,
        rotation_wait_ns: counters.rotation_wait,
        revolutions_waited: counters.revolutions_waited(),
        unit_write_bytes: counters.unit_write_bytes,
        gc_write_bytes: counters.gc_write_bytes,
        erases: counters.erases,
    }
}
