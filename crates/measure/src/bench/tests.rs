//! Tests the engine, the workloads and the statistics on the mock.

mod mock;

use std::collections::HashMap;
use std::io;

use proptest::prelude::*;
use straddle_units::io::{Completion, Counters, Latency, Nanos, Operation, Request, RequestId, Time};
use straddle_units::{ByteCount, ByteOffset};

use crate::bench::random::GlibcRandom;
use crate::bench::*;

pub(crate) use mock::Mock;

const GIB: u64 = 1 << 30;
const MILLISECOND: Nanos = Nanos::new(1_000_000);

fn mock() -> Mock {
    Mock::new(GIB, MILLISECOND)
}

fn ran(target: &mut Mock, workload: &Workload) -> Samples {
    run(target, workload, Host::default(), &mut Silent).unwrap()
}

fn random_write(offset: u64) -> Workload {
    Workload { offset, ..Pattern::RANDOM_WRITE.into() }
}

fn with(pattern: Pattern, parameters: Parameters) -> Workload {
    pattern.with(parameters).unwrap().into()
}

/// Random writes at offset 0, made durable by `sync`.
fn synced(sync: Sync) -> Workload {
    with(Pattern::RANDOM_WRITE, Parameters { sync: Some(sync), ..Parameters::default() })
}

fn offsets(target: &Mock) -> Vec<u64> {
    target.log().iter().map(|(_, request)| request.offset.get()).collect()
}

fn operations(target: &Mock) -> Vec<Operation> {
    target.log().iter().map(|(_, request)| request.operation).collect()
}

#[test]
fn random_writes_go_where_the_published_program_puts_them() {
    let mut target = Mock::new(1 << 40, MILLISECOND);
    let samples = ran(&mut target, &random_write(512));
    // srandom(1); random() = 1804289383, 846930886, …
    let expected = [1_804_289_383_u64, 846_930_886, 1_681_692_777];
    let expected = expected.map(|number| (number % 200_000_000) * 4096 + 512);
    assert_eq!(offsets(&target)[..3], expected);
    assert_eq!((samples.requests, samples.bytes, samples.flushes), (1000, 4_096_000, 0));
    assert_eq!(samples.elapsed.get(), 1_000_000_000);
    assert!((samples.iops() - 1000.0).abs() < 1e-9);
}

#[test]
fn blocks_are_capped_to_what_fits_and_alike_for_all_small_offsets() {
    for sectors in 0..=127 {
        let workload = random_write(sectors * 512);
        assert_eq!(workload.blocks(GIB), Some((GIB - (1 << 20)) / 4096));
        assert_eq!(workload.seed(512), Some(u32::try_from(sectors).unwrap()));
        let mut target = mock();
        ran(&mut target, &workload);
        assert!(offsets(&target).iter().all(|offset| offset % 4096 == (sectors * 512) % 4096));
    }
    let small = run(&mut Mock::new(1 << 20, MILLISECOND), &random_write(0), Host::default(), &mut Silent);
    assert!(matches!(small, Err(RunError::Workload(WorkloadError::DoesNotFit { .. }))), "{small:?}");
}

#[test]
fn o_sync_sends_a_flush_after_each_write_or_writes_with_fua() {
    let with = |sync| Workload { count: Some(3), ..synced(sync) };
    let mut target = mock();
    let samples = ran(&mut target, &with(Sync::Flush));
    assert_eq!(operations(&target), [Operation::Write, Operation::Flush].repeat(3));
    assert_eq!(samples.flushes, 3);
    assert_eq!(samples.latency.mean().get(), 2_000_000, "the program waits for both");
    assert_eq!(samples.flush_latency.mean().get(), 1_000_000);
    let mut target = mock();
    ran(&mut target, &with(Sync::Fua));
    assert_eq!(operations(&target), [Operation::WriteFua; 3]);
}

#[test]
fn strides_are_kept_and_must_fit() {
    let workload = Workload { count: Some(4), start: 8192, offset: 512, ..Pattern::STRIDED_WRITE.into() };
    let mut target = mock();
    ran(&mut target, &workload);
    assert_eq!(offsets(&target), [8704, 25_088, 41_472, 57_856]);
    let long = Workload { count: Some(GIB / 16_384 + 1), ..Pattern::STRIDED_WRITE.into() };
    let error = run(&mut mock(), &long, Host::default(), &mut Silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the workload needs {} bytes from byte 0 on, but the target ends at byte {GIB}", GIB + 4096)
    );
    let full = Workload { count: Some(GIB / 16_384), ..Pattern::STRIDED_WRITE.into() };
    assert_eq!(ran(&mut mock(), &full).requests, 65_536);
}

#[test]
fn an_fsync_comes_after_every_k_writes_with_nothing_else_on_the_way() {
    let workload = Workload {
        count: Some(7),
        queue_depth: 8,
        ..with(Pattern::SEQUENTIAL_WRITE, Parameters { fsync_each: Some(3), ..Parameters::default() })
    };
    let mut target = mock().with_channels(8);
    let samples = ran(&mut target, &workload);
    use Operation::{Flush, Write};
    assert_eq!(operations(&target), [Write, Write, Write, Flush, Write, Write, Write, Flush, Write]);
    assert_eq!(samples.elapsed.get(), 5_000_000, "three writes at a time, then the flush by itself");
    assert_eq!((samples.flushes, samples.flush_latency.count()), (2, 2));
}

#[test]
fn time_bounds_are_of_the_targets_time() {
    let mut target = mock();
    let samples = ran(&mut target, &Pattern::SEQUENTIAL_WRITE.into());
    assert_eq!((samples.requests, samples.flushes, samples.stop), (30_000, 30_000, Stop::Time));
    assert_eq!(samples.elapsed.get(), 60_000_000_000);
    let mut small = Mock::new(40_960, MILLISECOND);
    let samples = ran(&mut small, &Pattern::SEQUENTIAL_READ.into());
    assert_eq!((samples.requests, samples.stop), (10, Stop::End));
    assert!(operations(&small).iter().all(|operation| *operation == Operation::Read));
}

#[test]
fn dd_ends_with_one_fsync_that_counts() {
    let mut target = mock();
    let samples = ran(&mut target, &Workload { count: Some(5), ..Pattern::DD.into() });
    assert_eq!(operations(&target)[4..], [Operation::Write, Operation::Flush]);
    assert_eq!((samples.elapsed.get(), samples.flushes), (6_000_000, 1));
}

#[test]
fn queue_depth_is_what_is_outstanding() {
    let workload = Workload { count: Some(64), queue_depth: 4, ..Pattern::RANDOM_READ.into() };
    let mut target = mock().with_channels(4);
    let samples = ran(&mut target, &workload.clone());
    assert_eq!(samples.elapsed.get(), 16_000_000);
    assert_eq!(samples.latency.max(), MILLISECOND);
    let samples = ran(&mut mock(), &workload);
    assert_eq!(samples.elapsed.get(), 64_000_000);
    assert_eq!(samples.latency.max().get(), 4_000_000, "three others first");
}

#[test]
fn the_host_takes_its_time_between_requests_but_not_after_the_last() {
    let host = Host { overhead_ns: 500_000 };
    let workload = Workload { count: Some(10), ..random_write(0) };
    let samples = run(&mut mock(), &workload, host, &mut Silent).unwrap();
    assert_eq!(samples.elapsed.get(), 14_500_000);
    assert_eq!(samples.latency.mean(), MILLISECOND);
}

#[test]
fn impossible_workloads_are_refused() {
    let error = |workload| run(&mut mock(), &workload, Host::default(), &mut Silent).unwrap_err().to_string();
    assert_eq!(error(Workload { size: 0, ..random_write(0) }), "size must not be zero");
    assert_eq!(
        error(with(Pattern::RANDOM_WRITE, Parameters { blocks: Some(0), ..Parameters::default() })),
        "blocks must not be zero"
    );
    assert_eq!(error(Workload { count: Some(0), ..random_write(0) }), "count must not be zero");
    assert_eq!(error(Workload { queue_depth: 0, ..random_write(0) }), "queue depth must not be zero");
    assert_eq!(
        error(random_write(100)),
        "offset = 100 bytes is not a multiple of the target's 512-byte logical sector"
    );
    let forever = Workload { seconds: Some(f64::NAN), ..Pattern::SEQUENTIAL_READ.into() };
    assert_eq!(error(forever), "the run time (NaN s) is not valid");
}

#[test]
fn a_failure_tells_which_request() {
    let workload = random_write(0);
    let error = run(&mut mock().failing_at(3), &workload, Host::default(), &mut Silent).unwrap_err();
    assert!(matches!(error, RunError::Target { index: 3, source: TargetError::Failed { .. } }), "{error:?}");
}

/// A mock on which one request, or the flush after it, fails on completion rather than on submission.
struct Late {
    mock: Mock,
    /// How many requests of this operation are still to be submitted before the failing one.
    left: u64,
    operation: Operation,
    /// The failing request, and its index or, for a flush, that of the write before it.
    failing: Option<(Request, u64)>,
    /// The number of writes so far, and the index of the last write with each id.
    writes: u64,
    indexes: HashMap<RequestId, u64>,
}

impl Target for Late {
    fn description(&self) -> &Description {
        self.mock.description()
    }

    fn capacity(&self) -> ByteCount {
        self.mock.capacity()
    }

    fn logical_sector(&self) -> u64 {
        self.mock.logical_sector()
    }

    fn now(&self) -> Time {
        self.mock.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        if request.operation == Operation::Write {
            self.indexes.insert(request.id, self.writes);
            self.writes += 1;
        }
        if request.operation == self.operation {
            if self.left == 0 {
                self.failing = self.failing.or(Some((request, self.indexes[&request.id])));
            }
            self.left = self.left.saturating_sub(1);
        }
        self.mock.submit(request)
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        let completion = self.mock.wait()?;
        match self.failing.filter(|(request, _)| request.id == completion.id) {
            Some((request, _)) => {
                Err(TargetError::Failed { request, source: io::Error::other("a bad sector") })
            }
            None => Ok(completion),
        }
    }

    fn pause(&mut self, length: Nanos) {
        self.mock.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        self.mock.counters()
    }
}

proptest! {
    /// Other requests have been submitted since, and some have completed, because each misaligned write takes
    /// longer.
    #[test]
    fn a_failure_at_any_queue_depth_names_its_request(
        depth in 1_u32..40, failing in 0_u64..200, channels in 1_usize..9, flush in any::<bool>(), offset in 0_u64..8,
    ) {
        let sync = if flush { Sync::Flush } else { Sync::None };
        let workload = Workload { count: Some(200), queue_depth: depth, offset: offset * 512, ..synced(sync) };
        let operation = if flush { Operation::Flush } else { Operation::Write };
        let mock = mock().with_channels(channels).with_penalty(MILLISECOND);
        let (left, indexes) = (failing, HashMap::new());
        let mut target = Late { mock, left, operation, failing: None, writes: 0, indexes };
        let error = run(&mut target, &workload, Host::default(), &mut Silent).unwrap_err();
        let RunError::Target { index, source: TargetError::Failed { .. } } = error else {
            return Err(TestCaseError::fail(format!("{error:?}")));
        };
        prop_assert_eq!(Some(index), target.failing.map(|(_, index)| index));
        prop_assert!(flush || index == failing, "{index}, not {failing}");
    }
}

#[test]
fn a_sweep_finds_the_cheapest_offset_and_what_the_others_cost() {
    let fresh = || mock().with_penalty(MILLISECOND);
    let workload = random_write(0);
    let result =
        sweep(fresh, &workload, &[0, 1, 2, 8], Host::default(), WarmUp::Runs(0), &mut Silent).unwrap();
    assert!(result.differs());
    assert_eq!(result.best().offset, 0);
    assert_eq!(result.cheapest(), [0, 8]);
    assert!((result.worst_ratio().value - 3.0).abs() < 1e-9, "two partial sectors a write");
    let counters = result.arms()[1].samples.counters.unwrap();
    assert_eq!(counters.host_writes, 1000);
    let reads = Pattern::RANDOM_READ.into();
    let result = sweep(fresh, &reads, &[0, 1], Host::default(), WarmUp::Runs(0), &mut Silent).unwrap();
    assert!(!result.differs());
    assert!(matches!(
        sweep(fresh, &reads, &[], Host::default(), WarmUp::Runs(0), &mut Silent),
        Err(RunError::NoOffsets)
    ));
    let far = sweep(fresh, &reads, &[u64::MAX], Host::default(), WarmUp::Runs(0), &mut Silent);
    assert!(matches!(far, Err(RunError::Offset { .. })));
}

#[test]
fn warm_up_runs_reach_the_target_and_do_not_count() {
    let mut measured = Vec::new();
    for warmup in [0_u64, 3] {
        let workload = Workload { count: Some(50), ..random_write(0) };
        let log = std::cell::RefCell::new(Vec::new());
        // The first requests on each target are slow.
        let fresh = || Logged { mock: mock(), slow: 100, log: &log };
        let host = Host::default();
        let runs = WarmUp::Runs(u32::try_from(warmup).unwrap());
        let result = sweep(fresh, &workload, &[0, 8], host, runs, &mut Silent).unwrap();
        let writes = log.borrow().iter().filter(|operation| **operation == Operation::Write).count();
        assert_eq!(writes as u64, 2 * 50 * (1 + warmup));
        let arm = &result.arms()[1];
        assert_eq!((arm.samples.requests, arm.samples.counters.unwrap().host_writes), (50, 50));
        measured.push(arm.samples.elapsed);
    }
    assert_eq!(measured, [Nanos::new(50 * 11 * MILLISECOND.get()), Nanos::new(50 * MILLISECOND.get())]);
}

/// A mock whose first `slow` requests take ten milliseconds more, and a log of all mocks' requests.
struct Logged<'a> {
    mock: Mock,
    slow: u32,
    log: &'a std::cell::RefCell<Vec<Operation>>,
}

impl Target for Logged<'_> {
    fn description(&self) -> &Description {
        self.mock.description()
    }

    fn capacity(&self) -> ByteCount {
        self.mock.capacity()
    }

    fn logical_sector(&self) -> u64 {
        self.mock.logical_sector()
    }

    fn now(&self) -> Time {
        self.mock.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        self.log.borrow_mut().push(request.operation);
        if self.slow > 0 {
            self.slow -= 1;
            self.mock.pause(Nanos::new(10 * MILLISECOND.get()));
        }
        self.mock.submit(request)
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        self.mock.wait()
    }

    fn pause(&mut self, length: Nanos) {
        self.mock.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        self.mock.counters()
    }
}

#[test]
fn progress_rises_to_the_whole() {
    struct Seen(Vec<f64>);
    impl Progress for Seen {
        fn advance(&mut self, share: f64) {
            self.0.push(share);
        }
    }
    let mut seen = Seen(Vec::new());
    let workload = Workload { count: Some(50), ..random_write(0) };
    sweep(mock, &workload, &[0, 1], Host::default(), WarmUp::Runs(0), &mut seen).unwrap();
    assert!(seen.0.is_sorted() && seen.0.len() == 100);
    assert!((seen.0[99] - 1.0).abs() < 1e-12);
}

#[test]
fn the_spread_of_equal_times_is_nought_and_few_requests_tell_nothing() {
    let samples = ran(&mut mock(), &random_write(0));
    assert_eq!(samples.relative_error, Some(0.0));
    let few = Workload { count: Some(7), ..random_write(0) };
    assert_eq!(ran(&mut mock(), &few).relative_error, None);
}

#[test]
fn the_standard_error_is_that_of_the_mean() {
    use crate::bench::run::Batches;
    use straddle_units::io::Time;
    // Uniform times of 0 to 2 s have a standard deviation of 1/√3 of the mean.
    let mut generator = GlibcRandom::new(1);
    let (mut batches, mut now, count) = (Batches::from(Time::ZERO, None), Time::ZERO, 1 << 16);
    for _ in 0..count {
        now += Nanos::new(u64::from(generator.next()));
        batches.record(now, || None);
    }
    let expected = (1.0 / 3.0_f64).sqrt() / f64::from(count).sqrt();
    let error = batches.relative_error().unwrap();
    assert!((0.6..1.6).contains(&(error / expected)), "{error} against {expected}");
}

#[test]
fn workloads_are_values_that_can_be_written_down() {
    let text = "kind = \"random-write\"\noffset = 512\nsync = \"flush\"\n";
    let workload: Workload = toml::from_str(text).unwrap();
    assert_eq!(workload, synced(Sync::Flush).at(512));
    for workload in Pattern::ALL.iter().copied().map(Workload::from) {
        let text = format!("kind = \"{}\"\n", workload.name());
        assert_eq!(toml::from_str::<Workload>(&text).unwrap(), workload);
    }
}

/// Every parameter is accepted by the patterns that have it, refused by the others, and never ignored.
#[test]
fn a_parameter_is_taken_or_refused_by_name() {
    let parameters = [
        ("stride", "4096", &["strided-write"][..]),
        ("blocks", "7", &["random-write", "random-read"]),
        ("seed", "7", &["random-write", "random-read"]),
        ("sync", "\"fua\"", &["random-write", "strided-write"]),
        ("fsync_each", "7", &["sequential-write"]),
    ];
    for pattern in Pattern::ALL {
        let name = pattern.name;
        for (parameter, value, of) in parameters {
            let read = toml::from_str::<Workload>(&format!("kind = \"{name}\"\n{parameter} = {value}\n"));
            if of.contains(&name) {
                assert_ne!(read.unwrap().pattern, *pattern, "{name}, {parameter}");
                continue;
            }
            let error = read.unwrap_err().to_string();
            let expected = format!("{parameter} applies only to {}, not to {name}", of.join(" and "));
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_workload_keeps_its_line_and_names_what_there_is() {
    let error = |text: &str| toml::from_str::<Workload>(text).unwrap_err().to_string();
    let size = error("kind = \"dd\"\n\nsize = -1\n");
    assert!(size.contains("line 3"), "{size}");
    let misspelt = error("kind = \"dd\"\noffest = 512\n");
    assert!(misspelt.contains("line 2") && misspelt.contains("`offset`"), "{misspelt}");
    let unknown = error("kind = \"write\"\n");
    for pattern in Pattern::ALL {
        assert!(unknown.contains(&format!("`{}`", pattern.name)), "{unknown}");
    }
}

#[test]
fn waiting_for_nothing_is_an_error_and_a_completion_is_of_its_request() {
    let mut target = mock();
    assert!(matches!(target.wait(), Err(TargetError::Idle)));
    let completion =
        complete(&mut target, Request::new(77, Operation::Write, ByteOffset::ZERO, ByteCount::new(4096)))
            .unwrap();
    assert_eq!((completion.id.0, completion.at), (77, target.now()));
}

proptest! {
    /// The histogram compared with the sorted list: counts, sum and extremes are exact, quantiles to a
    /// thousandth.
    #[test]
    fn latencies_are_those_recorded(times in proptest::collection::vec(1_u64..40_000_000_000, 1..400)) {
        let mut latency = Latency::new();
        times.iter().for_each(|time| latency.record(Nanos::new(*time)));
        let mut sorted = times;
        sorted.sort_unstable();
        prop_assert_eq!(latency.count(), sorted.len() as u64);
        prop_assert_eq!(latency.min().get(), sorted[0]);
        prop_assert_eq!(latency.max().get(), sorted[sorted.len() - 1]);
        prop_assert_eq!(latency.mean().get(), sorted.iter().sum::<u64>() / sorted.len() as u64);
        for percent in [50_u32, 90, 99] {
            let rank = (sorted.len() * percent as usize).div_ceil(100).max(1) - 1;
            let (reported, exact) = (latency.quantile(f64::from(percent) / 100.0).get(), sorted[rank]);
            prop_assert!(reported.abs_diff(exact) <= exact / 1000 + 1, "{reported} for {exact}");
        }
    }

    /// For any workload and size, either the workload is refused, or every request is inside the target and
    /// of whole sectors, and each request sent is waited for.
    #[test]
    fn every_request_fits(
        kind in 0..Pattern::ALL.len(),
        capacity in (1_u64 << 12..1 << 22).prop_map(|sectors| sectors * 512),
        size in (1_u64..64).prop_map(|sectors| sectors * 512),
        start in (0_u64..1 << 22).prop_map(|sectors| sectors * 512),
        offset in (0_u64..4096).prop_map(|sectors| sectors * 512),
        depth in 1_u32..20,
        limit in (proptest::option::of(1_u64..300), proptest::option::of(0.001..0.2_f64)),
    ) {
        let (count, seconds) = limit;
        let seconds = if count.is_none() && seconds.is_none() { Some(0.1) } else { seconds };
        let pattern = Pattern::ALL[kind];
        // With flushes, where the pattern supports them.
        let pattern = pattern.with(Parameters { sync: Some(Sync::Flush), ..Parameters::default() }).unwrap_or(pattern);
        let pattern = pattern.with(Parameters { fsync_each: Some(5), ..Parameters::default() }).unwrap_or(pattern);
        let workload = Workload { pattern, count, seconds, size, start, offset, queue_depth: depth };
        let mut target = Mock::new(capacity, MILLISECOND).with_channels(3);
        match run(&mut target, &workload, Host::default(), &mut Silent) {
            Err(error) => prop_assert!(matches!(error, RunError::Workload(WorkloadError::DoesNotFit { .. })), "{error}"),
            Ok(samples) => {
                let flush = |request: &Request| request.operation == Operation::Flush;
                for (_, request) in target.log().iter().filter(|(_, request)| !flush(request)) {
                    prop_assert!(request.offset.get() + request.length.get() <= capacity);
                    prop_assert!(request.offset.get() >= start + offset && request.offset.get() % 512 == 0);
                }
                let flushes = target.log().iter().filter(|(_, request)| flush(request)).count() as u64;
                prop_assert_eq!(samples.requests + samples.flushes, target.log().len() as u64);
                prop_assert_eq!(samples.flushes, flushes);
                prop_assert_eq!(samples.latency.count(), samples.requests);
                prop_assert!(count.is_none_or(|count| samples.requests <= count));
                prop_assert!(matches!(target.wait(), Err(TargetError::Idle)));
            }
        }
    }
}
