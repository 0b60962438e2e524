//! The formats that traces come in.

pub(crate) mod csv;
pub(crate) mod disksim;

use std::fmt;
use std::str::FromStr;

use straddle_io::{Nanos, Operation};

use crate::error::LineError;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A header, then a line for each request: `time`, `op`, `offset`, `length`, in any order and among other columns.
    Csv,
    /// DiskSim's validation traces: `R|W Hit|Miss first_block blocks service_us delay_us`.
    DiskSim,
}

impl Format {
    /// The format that this first line of a trace is in, if any.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        if disksim::is_line(line) { Some(Self::DiskSim) } else { csv::is_header(line).then_some(Self::Csv) }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "csv" => Ok(Self::Csv),
            "disksim" => Ok(Self::DiskSim),
            _ => Err(format!("{text:?} is no format of traces: csv, disksim")),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Csv => "csv",
            Self::DiskSim => "disksim",
        })
    }
}

/// A request as a line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) when: When,
}

/// What a line says of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The request arrived then, counted from anywhere.
    At(Nanos),
    /// It took the measured time, and the next one arrived so long after its completion.
    Took { measured: Nanos, then: Nanos },
}

/// A field that is wrong.
pub(crate) fn wrong(column: &'static str, value: &str, reason: &'static str) -> LineError {
    const SHOWN: usize = 40;
    let value = value.chars().take(SHOWN).collect();
    LineError::Field { column, value, reason }
}

pub(crate) fn whole(column: &'static str, value: &str) -> Result<u64, LineError> {
    value.parse().map_err(|_| wrong(column, value, "must be a whole number below 2^64"))
}

/// A decimal number of units of `unit` nanoseconds, exactly; digits below a nanosecond are cut.
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
    fn formats_are_told_apart() {
        assert_eq!(Format::of_line("R Hit  1975456 4 15362.0 56074.0"), Some(Format::DiskSim));
        assert_eq!(Format::of_line("time_us,op,offset,length"), Some(Format::Csv));
        assert_eq!(Format::of_line("length,offset,OP,Time"), Some(Format::Csv));
        assert_eq!(Format::of_line("1,R,0,4096"), None);
        assert_eq!(Format::of_line("R"), None);
    }
}
