//! Trace file formats.

pub(crate) mod csv;
pub(crate) mod disksim;

use std::fmt;

use straddle_io::{Nanos, Operation};

use crate::error::LineError;

/// Parses the lines of one trace, in order.
pub(crate) trait Lines: fmt::Debug + Send {
    /// Parses one line: a request, or `None` for a line that only describes those that follow, such as a
    /// header.
    fn line(&mut self, line: &str) -> Result<Option<Line>, LineError>;
}

/// Defines `Format` and its methods from one list. Each entry gives the documentation, the variant, its name
/// on the command line, its help text, a test that recognises a first line, and the parser of the lines.
macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $variant:ident, $name:literal: $about:literal, $shows:path, $lines:expr;)+) => {
        /// A trace file format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Format {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name used on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns a one-line description for the help.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => $about,)+
                }
            }

            /// Whether the first line of a trace is in this format.
            fn shows(self, line: &str) -> bool {
                match self {
                    $(Self::$variant => $shows(line),)+
                }
            }

            /// Returns a parser for the lines of a trace.
            pub(crate) fn lines(self) -> Box<dyn Lines> {
                match self {
                    $(Self::$variant => Box::new($lines),)+
                }
            }
        }
    };
}

formats! {
    /// A header, then one line per request. The columns `time`, `op`, `offset` and `length` are in any order,
    /// among others.
    Csv, "csv": "Comma-separated values with a header", csv::is_header, csv::Csv::default();

    /// DiskSim's validation traces: `R|W Hit|Miss first_block blocks service_us delay_us`.
    DiskSim, "disksim": "DiskSim's validation traces", disksim::is_line, disksim::DiskSim;
}

impl Format {
    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// Returns the format that the first line of a trace is in, if any.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.shows(line))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A request as given on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) when: When,
}

/// When a request arrived, as far as its line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// At this time, counted from any origin.
    At(Nanos),
    /// Not given: the request took `measured`, and the next one arrived `then` after its completion.
    Took { measured: Nanos, then: Nanos },
}

/// Returns the error for an invalid field.
pub(crate) fn wrong(column: &'static str, value: &str, reason: &'static str) -> LineError {
    const SHOWN: usize = 40;
    let value = value.chars().take(SHOWN).collect();
    LineError::Field { column, value, reason }
}

pub(crate) fn whole(column: &'static str, value: &str) -> Result<u64, LineError> {
    value.parse().map_err(|_| wrong(column, value, "must be a whole number below 2^64"))
}

/// Parses a decimal number of units of `unit` nanoseconds. The result is exact; digits below a nanosecond are
/// dropped.
pub(crate) fn time(column: &'static str, value: &str, unit: u64) -> Result<Nanos, LineError> {
    let no_time = || wrong(column, value, "must be a time: digits, and a point where need be");
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return Err(no_time());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| no_time())? };
    let mut nanos = whole.checked_mul(unit).ok_or_else(no_time)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.checked_add(place * u64::from(digit - b'0')).ok_or_else(no_time)?;
    }
    Ok(Nanos::new(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        let nanos = |value, unit| time("time", value, unit).map(Nanos::get);
        assert_eq!(nanos("1.000000001", 1_000_000_000), Ok(1_000_000_001));
        assert_eq!(nanos("1585699200.123456789", 1_000_000_000), Ok(1_585_699_200_123_456_789));
        assert_eq!(nanos("15362.0009", 1000), Ok(15_362_000));
        assert_eq!(nanos(".5", 1000), Ok(500));
        assert_eq!(nanos("7", 1), Ok(7));
        for bad in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999", "nan"] {
            assert!(nanos(bad, 1000).is_err(), "{bad}");
        }
    }

    #[test]
    fn formats_are_distinguished() {
        assert_eq!(Format::of_line("R Hit  1975456 4 15362.0 56074.0"), Some(Format::DiskSim));
        assert_eq!(Format::of_line("time_us,op,offset,length"), Some(Format::Csv));
        assert_eq!(Format::of_line("length,offset,OP,Time"), Some(Format::Csv));
        assert_eq!(Format::of_line("1,R,0,4096"), None);
        assert_eq!(Format::of_line("R"), None);
        for format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(*format));
        }
    }
}
