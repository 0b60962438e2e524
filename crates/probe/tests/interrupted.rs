//! An interrupted probe reports what it has found so far.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use straddle_bench::{Description, Modelled, Silent, Surface, Target, TargetError};
use straddle_io::{Completion, Counters, Nanos, Request, Time};
use straddle_probe::{Budget, Claims, Report, probe};
use straddle_units::Span;

/// A drive that interrupts the probe after `left` requests.
struct Cut {
    drive: Modelled,
    left: u64,
}

impl Target for Cut {
    fn description(&self) -> &Description {
        self.drive.description()
    }

    fn capacity(&self) -> u64 {
        self.drive.capacity()
    }

    fn logical_sector(&self) -> u64 {
        self.drive.logical_sector()
    }

    fn now(&self) -> Time {
        self.drive.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        self.left = self.left.checked_sub(1).ok_or(TargetError::Interrupted)?;
        self.drive.submit(request)
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        self.drive.wait()
    }

    fn pause(&mut self, length: Nanos) {
        self.drive.pause(length);
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Surface for Cut {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        if self.left == 0 { Err(TargetError::Interrupted) } else { self.drive.prepare(spans) }
    }
}

#[test]
fn what_is_known_by_then_is_reported() {
    for seed in 1..=4 {
        let (profile, _) = common::drive(seed);
        let after = |left: u64| -> Report {
            let mut cut = Cut { drive: Modelled::new("random", &profile), left };
            probe(&mut cut, &Budget { seed, ..Budget::default() }, Claims::default(), &mut Silent).unwrap()
        };
        let whole = after(u64::MAX);
        // Moments spread over the whole probe, and the last request but one.
        let moments = (0..20).map(|part| whole.requests * part / 20).chain([whole.requests - 1]);
        for moment in moments {
            let report = after(moment);
            let so_far = report.unit.value;
            assert!(so_far.is_none() || so_far == whole.unit.value, "seed {seed} after {moment}: {so_far:?}");
            if moment == 0 {
                assert!(so_far.is_none() && report.unit.why.contains("interrupted"), "{}", report.unit.why);
            }
        }
        // The last measurements are not the ones that show the unit.
        assert_eq!(after(whole.requests - 1).unit.value, whole.unit.value, "seed {seed}");
    }
}
