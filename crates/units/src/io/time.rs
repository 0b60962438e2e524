//! Virtual time, in whole nanoseconds since power-on.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// A moment, in nanoseconds since power-on.
///
/// A sum ends at [`Time::NEVER`], some 584 years after power-on. There is no `-`: before power-on is `None`.
///
/// ```
/// # use straddle_units::io::{Nanos, Time};
/// let (at, length) = (Time::from_nanos(5), Nanos::new(7));
/// assert_eq!(at.checked_back(length), None);
/// assert_eq!((at + length).checked_back(length), Some(at));
/// assert_eq!(Time::NEVER + length, Time::NEVER);
/// ```
///
/// ```compile_fail,E0369
/// # use straddle_units::io::{Nanos, Time};
/// let early = Time::from_nanos(5) - Nanos::new(7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A duration, in nanoseconds. Sums saturate at 2^64 - 1, some 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Nanos(u64);

/// Serialises a duration as nanoseconds, up to 2^64 - 1.
///
/// # Errors
///
/// Those of the serialiser.
pub fn nanos<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)).serialize(to)
}

impl Time {
    /// The moment of power-on.
    pub const ZERO: Self = Self(0);
    /// A moment later than any event.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` after power-on.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since power-on.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The moment `length` earlier; `None` if that is before power-on.
    pub const fn checked_back(self, length: Nanos) -> Option<Self> {
        match self.0.checked_sub(length.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// The time since `earlier`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Nanos {
    /// A duration of zero.
    pub const ZERO: Self = Self(0);

    /// A duration of `nanos` nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The duration in nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `seconds` rounded to whole nanoseconds; `None` if negative, not a number, or more than 366 days.
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        const YEAR: f64 = 366.0 * 86_400.0;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within a year, and not negative"
        )]
        let nanos = |value: f64| (value * 1e9).round() as u64;
        (0.0..=YEAR).contains(&seconds).then(|| Self(nanos(seconds)))
    }

    /// `milliseconds` rounded to whole nanoseconds; `None` as for [`Nanos::from_seconds`].
    pub fn from_millis(milliseconds: f64) -> Option<Self> {
        Self::from_seconds(milliseconds / 1e3)
    }

    /// `microseconds` rounded to whole nanoseconds; `None` as for [`Nanos::from_seconds`].
    pub fn from_micros(microseconds: f64) -> Option<Self> {
        Self::from_seconds(microseconds / 1e6)
    }

    /// The duration in seconds, for printing and statistics.
    #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The duration in milliseconds, for printing and statistics.
    pub fn millis(self) -> f64 {
        self.seconds() * 1e3
    }

    /// This duration less `other`; zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Nanos> for Time {
    type Output = Self;

    fn add(self, length: Nanos) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl AddAssign<Nanos> for Time {
    fn add_assign(&mut self, length: Nanos) {
        *self = *self + length;
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Shows three significant digits.
impl fmt::Display for Nanos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(formatter, "{} ns", self.0),
            1_000..999_500 => write!(formatter, "{} µs", rounded(self.seconds() * 1e6)),
            999_500..999_500_000 => write!(formatter, "{} ms", rounded(self.millis())),
            _ => write!(formatter, "{} s", rounded(self.seconds())),
        }
    }
}

/// Formats a positive number to three significant digits, or to two decimals below 1, or whole from 100 on.
pub fn rounded(number: f64) -> String {
    match number {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.9} s", Nanos(self.0).seconds())
    }
}
