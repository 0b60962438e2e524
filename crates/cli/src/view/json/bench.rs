//! What `bench --json` prints.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_bench::{
    Arm, Clock, Description, Ended, Host, Measured, Order, Parameters, Stop, Sweep, Sync, Workload,
};
use straddle_io::{Counters, Latency};
use straddle_real::Io;

/// The version of this form. It increases when a field changes its meaning or is removed, not when one is
/// added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle bench --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle bench")]
pub(crate) struct BenchReport {
    /// The version of this form.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// What was measured.
    target: TargetReport,
    /// What was run.
    workload: WorkloadReport,
    /// What the host took from the end of a request to the next submission, in nanoseconds.
    host_overhead_ns: u64,
    /// A run for each offset, in the order of the offsets.
    arms: Vec<ArmReport>,
    /// The offset that took the least time per request, in logical sectors.
    best_offset_sectors: u64,
    /// The offset that took the most.
    worst_offset_sectors: u64,
    /// Whether the offset matters: false where best and worst are within 1 % or 3 standard errors.
    differs: bool,
    /// Every offset that cannot be told from the best.
    cheapest_offsets_sectors: Vec<u64>,
    /// How the arms took turns; absent where each was run by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<TurnsReport>,
}

/// How arms took turns.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Turns")]
struct TurnsReport {
    /// Complete rounds, each with two turns of every arm.
    rounds: usize,
    /// Requests of a turn.
    requests: u64,
    /// Why no further round was begun.
    ended: EndedReport,
    /// Wanted of every ratio, as a share of it.
    precision: f64,
    /// Where the order of turns and all places come from.
    seed: u64,
    /// How bytes went to the target.
    io: IoReport,
    /// What became of what the target held.
    contents: String,
    /// Where on the target, in bytes.
    areas: Vec<AreaReport>,
    /// What may make the figures mean something else than they seem to.
    warnings: Vec<String>,
}

/// Why a run of rounds ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ended")]
enum EndedReport {
    /// Every ratio was known as well as was wanted.
    Precise,
    /// The time was up.
    Limit,
    /// By Ctrl-C.
    Interrupted,
}

/// How bytes go to a target.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Io")]
enum IoReport {
    /// Past the page cache.
    Direct,
    /// Through it.
    Buffered,
}

/// A part of a target.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Area")]
struct AreaReport {
    /// Its first byte.
    start_bytes: u64,
    /// Its bytes.
    size_bytes: u64,
}

/// A target.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Target")]
struct TargetReport {
    /// As it was named.
    name: String,
    /// Maker, model, size.
    title: String,
    /// Whose time all figures are in.
    clock: ClockReport,
    /// Size in bytes.
    capacity_bytes: u64,
    /// Logical sector in bytes: the unit of `offset_sectors`.
    logical_sector_bytes: u64,
}

/// Whose time.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Clock")]
enum ClockReport {
    /// A model's: the figures are modelled.
    Virtual,
    /// The wall's: the figures were measured.
    Wall,
}

/// A workload; sizes in bytes. What a workload does not have is absent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Workload")]
struct WorkloadReport {
    /// Its name.
    kind: &'static str,
    /// Requests in each run, unless the time is up earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    /// Longest time of each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_limit_seconds: Option<f64>,
    /// Bytes of each request.
    size_bytes: u64,
    /// The byte of offset 0.
    start_bytes: u64,
    /// Bytes from the start of one request to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    stride_bytes: Option<u64>,
    /// Blocks that were chosen from.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    /// Blocks that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_requested: Option<u64>,
    /// What made each write durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<SyncReport>,
    /// Writes from one fsync to the next; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes_per_fsync: Option<u64>,
    /// Requests outstanding at a time.
    queue_depth: u32,
}

/// What makes a write durable.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Sync")]
enum SyncReport {
    /// Nothing.
    None,
    /// A flush after each write.
    Flush,
    /// Force unit access.
    Fua,
}

/// A run at one offset.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Arm")]
struct ArmReport {
    /// Its offset, in logical sectors.
    offset_sectors: u64,
    /// The same in bytes.
    offset_bytes: u64,
    /// The seed of its random numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    /// Reads or writes done.
    requests: u64,
    /// Their bytes.
    bytes: u64,
    /// Flushes done.
    flushes: u64,
    /// From the first submission to the last completion, in nanoseconds.
    elapsed_ns: u64,
    /// Why it ended.
    stop: StopReport,
    /// Requests a second.
    iops: f64,
    /// Bytes a second.
    bytes_per_second: f64,
    /// Each request, in nanoseconds; with a flush after each write, to that flush's end.
    latency: LatencyReport,
    /// Each flush by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    flush_latency: Option<LatencyReport>,
    /// What arms are compared by: of several rounds the median, in nanoseconds.
    ns_per_request: f64,
    /// The time per request over the best offset's.
    ratio: f64,
    /// Where `ratio` lies with 95 %, from here; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_low: Option<f64>,
    /// To here.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_high: Option<f64>,
    /// Half the width of the 95 % interval of `ratio`; absent where there were too few requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_margin: Option<f64>,
    /// What happened inside the drive; absent where it cannot tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<CountersReport>,
}

/// Why a run ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Stop")]
enum StopReport {
    /// All requests were done.
    Count,
    /// The time was up.
    Time,
    /// The end of the drive was reached before.
    End,
}

/// Times in nanoseconds; percentiles to a thousandth, the others exact.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Latency")]
pub(crate) struct LatencyReport {
    mean_ns: u64,
    min_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

/// What happened inside a drive during a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Counters")]
pub(crate) struct CountersReport {
    /// Physical sectors, or indirection units, that were read because only a part of them was written.
    rmw_reads: u64,
    /// Bytes read from the medium.
    media_read_bytes: u64,
    /// Bytes written to the medium.
    media_write_bytes: u64,
    /// Reads answered from the cache.
    cache_hits: u64,
    /// Writes that joined others in the cache.
    merged_writes: u64,
    /// Writes from the cache to the medium.
    destages: u64,
    /// Moves of the arm to another track than the next.
    seeks: u64,
    /// Nanoseconds spent in them.
    seek_ns: u64,
    /// Nanoseconds spent waiting for a sector to come round.
    rotation_wait_ns: u64,
    /// The same in revolutions; 0 where nothing spins.
    revolutions_waited: f64,
    /// Bytes written for the host's data in whole indirection units.
    unit_write_bytes: u64,
    /// Bytes moved by garbage collection.
    gc_write_bytes: u64,
    /// Erased flash blocks.
    erases: u64,
}

/// A sweep and the conditions of its measurement.
pub(crate) struct Bench<'a> {
    pub(crate) target: &'a Description,
    pub(crate) capacity: u64,
    pub(crate) logical_sector: u64,
    pub(crate) workload: &'a Workload,
    pub(crate) host: Host,
    pub(crate) sweep: &'a Sweep,
    /// How the arms took turns, if they did.
    pub(crate) turns: Option<&'a InTurns<'a>>,
}

/// How the arms took turns on a real target.
pub(crate) struct InTurns<'a> {
    pub(crate) measured: &'a Measured,
    pub(crate) order: &'a Order,
    pub(crate) io: Io,
    /// What became of the target's contents.
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
                capacity_bytes: bench.capacity,
                logical_sector_bytes: bench.logical_sector,
            },
            workload: workload(bench.workload, bench.capacity),
            host_overhead_ns: bench.host.overhead_ns,
            arms: sweep.arms().iter().map(|arm| arm_report(arm, bench)).collect(),
            best_offset_sectors: sweep.best().offset,
            worst_offset_sectors: sweep.worst().offset,
            differs: sweep.differs(),
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

fn workload(workload: &Workload, capacity: u64) -> WorkloadReport {
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
        counters: samples.counters.as_ref().map(counters),
    }
}

pub(crate) fn latency(latency: &Latency) -> LatencyReport {
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

pub(crate) fn counters(counters: &Counters) -> CountersReport {
    CountersReport {
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
