//! An interrupted probe reports what it has found so far.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use common::{Trouble, Troubled};
use straddle_measure::bench::{Modelled, Silent, TargetError};
use straddle_measure::probe::{Budget, Claims, Report, probe};

/// Interrupts the probe after so many requests.
struct Cut(u64);

impl Trouble for Cut {
    fn submit(&mut self) -> Result<(), TargetError> {
        self.0 = self.0.checked_sub(1).ok_or(TargetError::Interrupted)?;
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), TargetError> {
        if self.0 == 0 { Err(TargetError::Interrupted) } else { Ok(()) }
    }
}

#[test]
fn what_is_known_by_then_is_reported() {
    for seed in 1..=4 {
        let (profile, _) = common::drive(seed);
        let after = |left: u64| -> Report {
            let mut cut = Troubled { drive: Modelled::new("random", &profile), trouble: Cut(left) };
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
