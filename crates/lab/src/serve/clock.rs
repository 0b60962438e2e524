//! The wall clock as the source of the drive's time.

use std::time::{Duration, Instant};

use straddle_units::io::{Nanos, Time};

/// How the drive's time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// This many times as fast as the wall's time; 1 is a real drive.
    Real(f64),
    /// Without waiting: a completion is sent as soon as it is known, and the drive's time moves only with its
    /// requests.
    NoDelay,
}

/// The drive's time.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Instant,
    speed: f64,
}

impl Clock {
    /// Starts the clock now, `speed` times as fast as the wall's.
    pub(crate) fn new(speed: f64) -> Self {
        Self { start: Instant::now(), speed }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative; it saturates"
    )]
    #[allow(clippy::cast_precision_loss, reason = "exact to the nanosecond for a hundred days")]
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos((self.start.elapsed().as_nanos() as f64 * self.speed) as u64)
    }

    /// Returns the wall's time for this much of the drive's time.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative; it saturates"
    )]
    #[allow(clippy::cast_precision_loss, reason = "a time to wait, not to calculate on with")]
    pub(crate) fn wall(&self, time: Nanos) -> Duration {
        Duration::from_nanos((time.get() as f64 / self.speed).ceil() as u64)
    }
}
