//! The rotating platters: angles, and when a given angle is next under the heads.

use straddle_units::io::{Nanos, Time};

/// A fraction of a revolution, in units of 2^-32, so that addition wraps as the platter does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Angle(pub(super) u32);

impl Angle {
    /// The angle of `revolutions`, of which only the fraction counts; `None` if it is not a finite number.
    pub fn from_revolutions(revolutions: f64) -> Option<Self> {
        const WHOLE: f64 = 4_294_967_296.0;
        if !revolutions.is_finite() {
            return None;
        }
        let fraction = revolutions - revolutions.floor();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 <= fraction <= 1; 2^32 wraps"
        )]
        let angle = (fraction * WHOLE) as u64 as u32;
        Some(Self(angle))
    }

    /// The angle in revolutions, for printing and drawing.
    pub fn revolutions(self) -> f64 {
        f64::from(self.0) / 4_294_967_296.0
    }

    pub(super) const fn advanced(self, step: Self, times: u32) -> Self {
        Self(self.0.wrapping_add(step.0.wrapping_mul(times)))
    }
}

/// A spindle turning at a constant rate, at angle 0 at power-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spindle {
    revolution: Nanos,
    /// 2^64 over the nanoseconds of a revolution; times the clock, wrapping, the phase in 2^-64 revolutions.
    rate: u64,
}

impl Spindle {
    /// `None` for zero nanoseconds per revolution, or more than 2^32 (4.3 s).
    pub fn new(revolution: Nanos) -> Option<Self> {
        let nanos = revolution.get();
        (nanos > 1 && nanos <= u64::from(u32::MAX)).then(|| Self { revolution, rate: u64::MAX / nanos })
    }

    /// A spindle of `rpm` revolutions per minute, rounded to a whole nanosecond per revolution.
    pub fn from_rpm(rpm: f64) -> Option<Self> {
        Nanos::from_seconds(60.0 / rpm).and_then(Self::new)
    }

    /// The time of one revolution.
    pub const fn revolution(self) -> Nanos {
        self.revolution
    }

    /// The angle under the heads at `time`.
    pub const fn angle_at(self, time: Time) -> Angle {
        #[allow(clippy::cast_possible_truncation, reason = "the high half, 32 bits")]
        let phase = (time.get().wrapping_mul(self.rate) >> 32) as u32;
        Angle(phase)
    }

    /// The time from `time` until `angle` is under the heads: less than a revolution.
    pub const fn until(self, angle: Angle, time: Time) -> Nanos {
        self.turning(Angle(angle.0.wrapping_sub(self.angle_at(time).0)))
    }

    /// How long the platter takes to turn by `angle`.
    pub const fn turning(self, angle: Angle) -> Nanos {
        Nanos::new((angle.0 as u64 * self.revolution.get()) >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_under_the_head_when_the_wait_is_over() {
        let spindle = Spindle::from_rpm(5400.0).unwrap();
        for step in 0..10_000_u64 {
            let now = Time::from_nanos(step * 1_234_567_891);
            let target = Angle::from_revolutions(f64::from(u32::try_from(step).unwrap()) * 0.37).unwrap();
            let wait = spindle.until(target, now);
            assert!(wait < spindle.revolution());
            let error = spindle.angle_at(now + wait).0.wrapping_sub(target.0).cast_signed();
            // Times are whole nanoseconds: a wait is truncated by less than one, in which the platter turns
            // by 387 units.
            assert!((-400..=400).contains(&error), "{error}");
        }
    }

    #[test]
    fn impossible_speeds_are_none() {
        assert!(Spindle::from_rpm(0.0).is_none() && Spindle::from_rpm(-7200.0).is_none());
        assert!(Spindle::from_rpm(f64::NAN).is_none() && Spindle::from_rpm(1e12).is_none());
    }
}
