//! Trace file formats.

pub(crate) mod blkparse;
pub(crate) mod cloud;
pub(crate) mod csv;
pub(crate) mod disksim;
pub(crate) mod fiu;
pub(crate) mod iolog;
pub(crate) mod tracefs;

use std::fmt;

use straddle_io::{Nanos, Operation};

use crate::error::LineError;
use crate::histogram::SECTOR;

/// Parses the lines of one trace, in order.
pub(crate) trait Lines: fmt::Debug + Send {
    /// Parses one line: a request, or `None` for a line that is none: a header, or an event of another kind.
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError>;
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

    /// DiskSim's own input: `arrival_ms device first_block blocks flags`, where bit 0 of the flags is a read.
    DiskSimAscii, "disksim-ascii": "DiskSim's input in ASCII", disksim::is_ascii, disksim::Ascii;

    /// MQSim's input: `time_ns device first_sector sectors type`, where type 0 is a write.
    MqSim, "mqsim": "MQSim's input in ASCII", disksim::is_mqsim, disksim::MqSim;

    /// MSR Cambridge: `timestamp,host,disk,type,offset,size,response`, times in 100 ns since 1601.
    Msr, "msr": "MSR Cambridge (SNIA)", cloud::is_msr, cloud::Msr;

    /// Alibaba's block traces of 2020: `device,opcode,offset,length,timestamp`, times in microseconds.
    Alibaba, "alibaba": "Alibaba's block traces of 2020", cloud::is_alibaba, cloud::Alibaba;

    /// Tencent CBS: `timestamp,offset,size,type,volume`, offset and size in sectors, times in seconds.
    Tencent, "tencent": "Tencent CBS (SNIA)", cloud::is_tencent, cloud::Tencent;

    /// SYSTOR '17: a header, then `timestamp,response,type,lun,offset,size`.
    Systor, "systor": "SYSTOR '17 (Fujitsu VDI, SNIA)", cloud::is_systor, cloud::Systor;

    /// FIU: `time_ns pid process lba blocks W|R major minor md5`, in blocks of 512 bytes.
    Fiu, "fiu": "FIU IODedup (SNIA)", fiu::is_line, fiu::Fiu;

    /// What blkparse prints by default. The events that count are those given to the driver (`D`).
    Blkparse, "blkparse": "Text printed by blkparse", blkparse::is_line, blkparse::Blkparse;

    /// The kernel's trace file, with the event `block_rq_issue`.
    Tracefs, "tracefs": "Text of the kernel's tracefs (block_rq_issue)", tracefs::is_line, tracefs::Tracefs;

    /// fio's I/O log, version 2 or 3: a line of its version, then `[time_ms] file action [offset length]`.
    Iolog, "iolog": "fio's I/O log, version 2 or 3", iolog::is_first, iolog::Iolog::default();
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
pub(crate) struct Line<'a> {
    /// The volume.
    pub(crate) volume: Volume<'a>,
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) when: When,
}

/// The name of a volume, in the one or two parts in which a line gives it; empty if the trace is of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume<'a>(pub(crate) &'a str, pub(crate) &'a str);

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

/// Parses a number of sectors as bytes.
pub(crate) fn sectors(column: &'static str, value: &str) -> Result<u64, LineError> {
    let too_many = || wrong(column, value, "no disk is so large");
    whole(column, value)?.checked_mul(SECTOR).ok_or_else(too_many)
}

/// The fields of a line.
pub(crate) struct Fields<'a, const N: usize> {
    fields: [&'a str; N],
    count: usize,
}

impl<'a, const N: usize> Fields<'a, N> {
    /// Takes the first fields.
    pub(crate) fn of(parts: impl Iterator<Item = &'a str>) -> Self {
        let mut fields = [""; N];
        let mut count = 0;
        for part in parts {
            if let Some(field) = fields.get_mut(count) {
                *field = part;
            }
            count += 1;
        }
        Self { fields, count }
    }

    /// Returns the number of fields that the line has.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Returns a field, or the error that it is missing.
    pub(crate) fn get(&self, column: &'static str, index: usize) -> Result<&'a str, LineError> {
        let field = self.fields.get(index).filter(|_| index < self.count);
        field.copied().ok_or(LineError::Missing { column, fields: self.count })
    }
}

/// Whether a field is a whole number.
pub(crate) fn is_whole(field: &str) -> bool {
    !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit())
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
