//! Whether the writes of a run have reached the medium, and the runs that reach that of an SSD.
//!
//! An SSD takes writes into its buffer at the speed of the link; what they cost shows once the buffer is full. So on
//! a modelled SSD random writes are those of its own unit, many at a time, with the buffer full.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::profile::Body;
use straddle_drive::{FirmwareRange, Profile};
use straddle_units::io::Counters;

use crate::bench::run::float;
use crate::bench::target::Target;
use crate::bench::workload::Workload;
use crate::bench::{Arm, Host, Modelled, Parameters, Pattern, Progress, Silent, Sweep, Sync, sweep};

/// Several hundred times what an SSD's dies program at a time, for two digits.
const SSD_WRITES: u64 = 50_000;
/// With one at a time, the host is slower than flash.
const SSD_DEPTH: u32 = 32;
/// The warm-up of an SSD writes its buffer's size this number of times.
const FILLS: u64 = 2;

const STEADY: f64 = 0.05;
/// The fraction of its writes above which a run has ended in a buffer.
const ABSORBED: f64 = 0.5;

/// Whether the writes of a run reached the medium or only a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Reached {
    /// Only a buffer: less than half of the writes reached the medium.
    Buffer,
    /// The medium, but not a steady state: the buffer was still filling, or the bytes written to the medium
    /// per host byte differed between the two halves of the run.
    Unsteady {
        /// Bytes written to the medium per host byte, in the first half of the run.
        #[serde(rename = "first_write_amplification")]
        first: f64,
        /// Bytes written to the medium per host byte, in the second half of the run.
        #[serde(rename = "second_write_amplification")]
        second: f64,
    },
    /// The medium, in a steady state.
    Steady,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    host: u64,
    medium: u64,
    buffered: Option<u64>,
}

impl Mark {
    pub(crate) fn of(target: &dyn Target) -> Option<Self> {
        let Counters { host_write_bytes: host, media_write_bytes: medium, .. } = target.counters()?;
        Some(Self { host, medium, buffered: target.buffered().map(straddle_units::ByteCount::get) })
    }

    /// Bytes written to the medium per byte of the host since `before`.
    fn factor(self, before: Self) -> f64 {
        float(self.medium - before.medium) / float((self.host - before.host).max(1))
    }
}

impl Reached {
    /// Judges a run by its marks, which are about equally far apart. `None` for one that does not write.
    pub(crate) fn of(marks: &[Mark]) -> Option<Self> {
        let [start, .., end] = *marks else { return None };
        let middle = marks[marks.len() / 2];
        if end.host == start.host {
            return None;
        }
        let medium = end.medium - start.medium;
        // A disk does not report the state of its buffer: it holds what has not come out.
        let Some(grown) = end.buffered.zip(start.buffered).map(|(end, start)| end.saturating_sub(start))
        else {
            return Some(if end.factor(start) < ABSORBED { Self::Buffer } else { Self::Steady });
        };
        let share = float(grown) / float((grown + medium).max(1));
        let (first, second) = (middle.factor(start), end.factor(middle));
        let changed = (second - first).abs() > STEADY * first.max(second);
        Some(if share > ABSORBED || end.factor(start) < ABSORBED {
            Self::Buffer
        } else if share > STEADY || changed {
            Self::Unsteady { first, second }
        } else {
            Self::Steady
        })
    }
}

/// What is run at each offset, but elsewhere, before the workload, and does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// This number of runs of the workload.
    Runs(u32),
    /// As many of its requests as have this many bytes.
    Bytes(u64),
}

impl WarmUp {
    /// The usual warm-up of `workload`: writes fill the buffer of an SSD.
    pub fn usual(workload: &Workload, profile: &Profile) -> Self {
        match profile.ssd_buffer() {
            Some(buffer) if workload.writes() => Self::Bytes(FILLS * buffer),
            _ => Self::Runs(0),
        }
    }

    pub(crate) fn runs(self, workload: &Workload, capacity: u64, sector: u64) -> Vec<Workload> {
        match self {
            Self::Runs(runs) => (0..runs).map(|run| workload.elsewhere(run, capacity, sector)).collect(),
            Self::Bytes(bytes) => {
                let most = (capacity / 4).checked_div(workload.stride()).unwrap_or(0);
                let count = bytes.div_ceil(workload.size.max(1)).min(most).max(1);
                let filling = Workload { count: Some(count), seconds: None, ..workload.clone() };
                vec![filling.elsewhere(0, capacity, sector)]
            }
        }
    }
}

impl Workload {
    /// The workload with the defaults for this drive: random writes of an SSD's unit that keep its flash busy.
    #[must_use]
    pub fn on(self, profile: &Profile) -> Self {
        match &profile.body {
            Body::Ssd(ssd) if self.pattern.is_random && self.writes() => {
                let size = self.size.max(ssd.indirection_unit());
                Self { size, count: Some(SSD_WRITES), queue_depth: SSD_DEPTH, ..self }
            }
            _ => self,
        }
    }
}

/// Writes per workload on a disk: enough for two digits, in a few milliseconds.
const COUNT: u64 = 400;
/// The same for a disk that logs parts of sectors: enough to fill its log more than twice.
const LOGGED_COUNT: u64 = 40_000;
/// The seed of both arms of a comparison, so that they write the same blocks.
const SEED: u32 = 1;

/// What writes off a drive's boundaries cost, compared with writes on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffBoundary {
    /// Bytes of each write: as given, or else 4096, or the indirection unit of an SSD if that is larger.
    pub size: u64,
    /// How many times as long random writes take; on an SSD in the steady state of random writes.
    pub random_write: f64,
    /// The same over the plausible firmware of a disk.
    pub firmware: Option<FirmwareRange>,
    /// How many times as long sequential writes take, each flushed; `None` on an SSD, which joins them.
    pub sequential_write: Option<f64>,
    /// How many times as many bytes are written to flash (wear); `None` on a disk.
    pub wear: Option<f64>,
}

impl OffBoundary {
    /// Runs the workloads on a boundary of the drive `name` and `past` bytes after it, with writes of `size` bytes;
    /// on a disk, each is flushed, as a database does. `None` if the drive has no such position or takes no such
    /// writes.
    pub fn modelled(
        name: &str,
        profile: &Profile,
        past: u64,
        size: Option<u64>,
        progress: &mut dyn Progress,
    ) -> Option<Self> {
        // What a buffer or spare flash hides for a while has to be paid in the end.
        let profile = &profile.clone().steady();
        let is_logged =
            matches!(&profile.body, Body::Disk(disk) if disk.log.is_some_and(|log| log.band.is_none()));
        let count = if is_logged { LOGGED_COUNT } else { COUNT };
        let counted = |pattern: Pattern| Workload { count: Some(count), ..pattern.into() };
        let sized = |workload: Workload| Workload { size: size.unwrap_or(workload.size), ..workload };
        let sync = size.filter(|_| matches!(profile.body, Body::Disk(_))).map(|_| Sync::Flush);
        let random = Pattern::RANDOM_WRITE.with(Parameters { sync, ..Parameters::default() }).ok()?;
        let workload = sized(counted(random).seeded(SEED).on(profile));
        let sequential = sized(counted(Pattern::SEQUENTIAL_WRITE));
        let size = workload.size;
        let compared = compared(name, profile, &workload, past, progress)?;
        let slowdown = |sweep: &Sweep| ratio(sweep, |arm| Some(arm.seconds_per_request()));
        let random_write = slowdown(&compared)?;
        match profile.body {
            Body::Ssd(_) => {
                let wear = ratio(&compared, |arm| arm.samples.write_amplification());
                Some(Self { size, random_write, firmware: None, sequential_write: None, wear })
            }
            Body::Disk(_) => {
                let sequential = self::compared(name, profile, &sequential, past, &mut Silent)?;
                let sequential_write = Some(slowdown(&sequential)?);
                let firmware = FirmwareRange::of(name, |other| {
                    slowdown(&self::compared(name, other, &workload, past, &mut Silent)?)
                });
                Some(Self { size, random_write, firmware, sequential_write, wear: None })
            }
        }
    }
}

fn compared(
    name: &str,
    profile: &Profile,
    workload: &Workload,
    past: u64,
    progress: &mut dyn Progress,
) -> Option<Sweep> {
    let logical = profile.claims.logical_sector;
    let first = profile.first_boundary();
    if !first.is_multiple_of(logical) || !past.is_multiple_of(logical) {
        return None;
    }
    let offsets = [first / logical, (first + past) / logical];
    let (fresh, warm_up) = (|| Modelled::new(name, profile), WarmUp::usual(workload, profile));
    sweep(fresh, workload, &offsets, Host::default(), warm_up, progress).ok()
}

fn ratio(sweep: &Sweep, of: impl Fn(&Arm) -> Option<f64>) -> Option<f64> {
    let [on, off] = sweep.arms() else { return None };
    Some(of(off)? / of(on)?).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Arm, Host, Modelled, Parameters, Pattern, Silent, Sweep, sweep};

    fn random(size: u64, drive: &Profile) -> Workload {
        let usual = Workload::from(Pattern::RANDOM_WRITE).on(drive);
        Workload { size: if size == 0 { usual.size } else { size }, ..usual }
    }

    fn swept(name: &str, workload: &Workload, offsets: &[u64], warm_up: Option<WarmUp>) -> Sweep {
        let drive = Profile::open(name).unwrap();
        let warm_up = warm_up.unwrap_or(WarmUp::usual(workload, &drive));
        let fresh = || Modelled::new(name, &drive);
        sweep(fresh, workload, offsets, Host::default(), warm_up, &mut Silent).unwrap()
    }

    /// The units that a random write changes, over the writes of one period of the blocks.
    fn units(offset: u64, size: u64, unit: u64) -> f64 {
        let blocks = (unit / size).max(1);
        let touched = |block: u64| {
            let first = offset + block * size;
            (first + size - 1) / unit - first / unit + 1
        };
        float((0..blocks).map(touched).sum()) / float(blocks)
    }

    #[test]
    fn a_usual_run_is_steady_and_wears_by_the_units_that_its_writes_touch() {
        for (name, unit) in [("ssd-sata-4k", 4096_u64), ("qlc-16k", 16_384), ("qlc-64k", 65_536)] {
            let drive = Profile::open(name).unwrap();
            for size in [0, 4096, 16_384, 2 * unit] {
                let workload = random(size, &drive);
                let size = workload.size;
                for arm in swept(name, &workload, &[0, 1, 63], None).arms() {
                    let expected = units(arm.offset * 512, size, unit) * float(unit) / float(size);
                    let wear = arm.samples.write_amplification().unwrap();
                    assert!(
                        (wear / expected - 1.0).abs() < 0.03 && arm.samples.reached == Some(Reached::Steady),
                        "{name}, {size} at {}: {wear} for {expected}, {:?}",
                        arm.offset,
                        arm.samples.reached
                    );
                }
            }
        }
    }

    #[test]
    fn a_run_that_ends_in_the_buffer_or_before_it_is_full_is_not_a_steady_one() {
        let drive = Profile::open("qlc-16k").unwrap();
        let usual = random(0, &drive);
        let reached = |workload: &Workload, offset, warm_up| {
            let sweep = swept("qlc-16k", workload, &[offset], Some(warm_up));
            sweep.best().samples.reached.unwrap()
        };
        let cold = WarmUp::Runs(0);
        for (size, depth, count) in [(4096, 1, 1000), (16_384, 1, 100), (16_384, 32, 3000), (512, 8, 2000)] {
            let workload = Workload { size, count: Some(count), queue_depth: depth, ..usual.clone() };
            assert_eq!(reached(&workload, 63, cold), Reached::Buffer, "{size}, {count}");
        }
        // The buffer holds 4096 units.
        let filling = Workload { count: Some(20_000), ..usual.clone() };
        assert!(matches!(reached(&filling, 0, cold), Reached::Unsteady { .. }));
        // The same blocks again and again never leave the buffer.
        let blocks = Parameters { blocks: Some(100), ..Parameters::default() };
        let few = Workload { pattern: usual.pattern.with(blocks).unwrap(), ..usual.clone() };
        assert_eq!(reached(&few, 0, WarmUp::usual(&few, &drive)), Reached::Buffer);
    }

    /// Garbage collection begins when the spare flash, 14.5 % of 7.8 million units, has been written.
    #[test]
    fn a_run_in_which_garbage_collection_begins_is_not_steady() {
        let workload =
            Workload { count: Some(1_600_000), ..random(0, &Profile::open("ssd-sata-4k").unwrap()) };
        let sweep = swept("ssd-sata-4k", &workload, &[0], None);
        let samples = &sweep.best().samples;
        assert!(samples.counters.unwrap().gc_write_bytes > 0);
        assert!(matches!(samples.reached, Some(Reached::Unsteady { first, second }) if second > first));
    }

    #[test]
    fn a_warm_up_goes_elsewhere() {
        let capacity = 1 << 30;
        for pattern in Pattern::ALL {
            let workload = Workload { count: Some(100), offset: 4096, ..Workload::from(*pattern) };
            let places = |workload: &Workload| {
                let mut places =
                    workload.program(straddle_units::ByteCount::new(capacity), 512).unwrap().places;
                (0..100).map_while(|_| places.next()).collect::<std::collections::BTreeSet<_>>()
            };
            let own = places(&workload);
            for run in WarmUp::Runs(3).runs(&workload, capacity, 512) {
                let shared = places(&run).intersection(&own).count();
                assert!(shared <= 1, "{}: {shared} of {}", pattern.name, own.len());
            }
        }
    }

    /// A cold run is faster than one behind a full buffer, however it was filled.
    #[test]
    fn a_warm_up_makes_no_drive_faster() {
        let drive = Profile::open("qlc-16k").unwrap();
        let workload = Workload { count: Some(20_000), ..random(0, &drive) };
        let time = |warm_up| {
            let sweep = swept("qlc-16k", &workload, &[63], Some(warm_up));
            sweep.arms().iter().map(Arm::seconds_per_request).sum::<f64>()
        };
        let cold = time(WarmUp::Runs(0));
        for warm in [WarmUp::Runs(1), WarmUp::Runs(3), WarmUp::usual(&workload, &drive)] {
            assert!(time(warm) > cold, "{warm:?}");
        }
    }

    #[test]
    fn only_what_is_off_costs_more() {
        let drive = Profile::open("wd10ears").unwrap();
        let on = OffBoundary::modelled("wd10ears", &drive, 0, None, &mut Silent).unwrap();
        assert_eq!((on.size, on.random_write, on.sequential_write, on.wear), (4096, 1.0, Some(1.0), None));
        let off = OffBoundary::modelled("wd10ears", &drive, 512, None, &mut Silent).unwrap();
        assert!(off.random_write > 1.5 && off.sequential_write > Some(1.5), "{off:?}");
        assert_eq!(
            OffBoundary::modelled("wd10ears", &drive, 100, None, &mut Silent),
            None,
            "inside a logical sector"
        );
    }

    /// A write of a whole unit off the boundaries is parts of two units, and both are programmed.
    #[test]
    fn off_the_boundaries_an_ssd_programs_two_units_for_one() {
        for (name, unit) in
            [("ssd-sata-4k", 4096), ("nvme-tlc-4k", 4096), ("qlc-16k", 16_384), ("qlc-64k", 65_536)]
        {
            let drive = Profile::open(name).unwrap();
            for past in [0, 512, unit / 2, unit - 512] {
                let found = OffBoundary::modelled(name, &drive, past, None, &mut Silent).unwrap();
                let expected = if past == 0 { 1.0 } else { 2.0 };
                let wear = found.wear.unwrap();
                assert!((wear / expected - 1.0).abs() < 0.03, "{name}, {past}: {found:?}");
                assert_eq!((found.size, found.sequential_write), (unit, None));
                assert_eq!(found.random_write > 1.5, past > 0, "{name}, {past}: {found:?}");
            }
        }
    }
}
