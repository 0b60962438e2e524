//! Trace file formats, and how a trace is read.

pub(crate) mod blkparse;
pub(crate) mod csv;
pub(crate) mod fixed;
pub(crate) mod iolog;
pub(crate) mod tracefs;

use std::fmt;

use straddle_units::io::{Nanos, Operation};

use self::fixed::Fixed;
use crate::columns::Columns;
use crate::error::LineError;
use crate::histogram::SECTOR;
use crate::record::Sink;
use crate::text::{self, Block};

pub(crate) trait Lines: fmt::Debug + Send {
    /// Whether a line without a request is an event of another kind, and not a header.
    fn has_others(&self) -> bool {
        true
    }

    /// Parses one line; `None` if it is a header, or an event of another kind.
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError>;

    /// Reads the line at a place as [`Self::line`] would, if it is plainly written; `None` leaves it to that.
    fn quick<'a>(&mut self, _bytes: &'a [u8], _at: usize) -> Option<Quick<'a>> {
        None
    }

    /// Parses lines until the block is over or the sink is full. Each format has its own, with [`Self::quick`] inlined.
    fn block(&mut self, block: &mut Block<'_>, sink: &mut Sink) -> Result<(), LineError> {
        text::parse(self, block, sink)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quick<'a> {
    pub(crate) next: usize,
    pub(crate) request: Option<Request<'a>>,
}

/// A request, with its volume as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) volume: Token<'a>,
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) time: Nanos,
}

/// A volume as it is written, with what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) length: usize,
    /// Where its second part begins, after a separator of one byte, if it has two.
    pub(crate) second: Option<usize>,
}

/// Defines `Format` and its methods. Each entry gives the documentation, the variant, its name on the command line, its
/// help text, and for a format of lines a test that recognises the first one and a function that makes the parser.
macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $variant:ident, $name:literal: $about:literal $(, $shows:expr, $lines:expr)?;)+) => {
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

            fn shows(self, line: &str) -> bool {
                match self {
                    $($(Self::$variant => $shows(line),)?)+
                    _ => false,
                }
            }

            /// Returns a parser for the lines of a trace; `None` if the format is not one of lines.
            pub(crate) fn lines(self, how: &How) -> Option<Box<dyn Lines>> {
                match self {
                    $($(Self::$variant => Some(Box::new($lines(how))),)?)+
                    _ => None,
                }
            }
        }
    };
}

formats! {
    /// A header, then one line per request. The columns `time`, `op`, `offset` and `length` are in any order,
    /// among others.
    Csv, "csv": "Comma-separated values with a header", csv::is_header, csv::Csv::of;

    /// MSR Cambridge: `timestamp,host,disk,type,offset,size,response`, times in 100 ns since 1601.
    Msr, "msr": "MSR Cambridge (SNIA)", |line| fixed::MSR.shows(line), |_| Fixed::of(&fixed::MSR);

    /// Alibaba's block traces of 2020: `device,opcode,offset,length,timestamp`, times in microseconds.
    Alibaba, "alibaba": "Alibaba's block traces of 2020", |line| fixed::ALIBABA.shows(line), |_| Fixed::of(&fixed::ALIBABA);

    /// Tencent CBS: `timestamp,offset,size,type,volume`, offset and size in sectors, times in seconds.
    Tencent, "tencent": "Tencent CBS (SNIA)", |line| fixed::TENCENT.shows(line), |_| Fixed::of(&fixed::TENCENT);

    /// SYSTOR '17: a header, then `timestamp,response,type,lun,offset,size`.
    Systor, "systor": "SYSTOR '17 (Fujitsu VDI, SNIA)", |line| fixed::SYSTOR.shows(line), |_| Fixed::of(&fixed::SYSTOR);

    /// FIU: `time_ns pid process lba blocks W|R major minor md5`, in blocks of 512 bytes.
    Fiu, "fiu": "FIU IODedup (SNIA)", |line| fixed::FIU.shows(line), |_| Fixed::of(&fixed::FIU);

    /// What blkparse prints by default. The events that count are those given to the driver (`D`).
    Blkparse, "blkparse": "Text printed by blkparse", blkparse::is_line, blkparse::Blkparse::of;

    /// The kernel's trace file, with the event `block_rq_issue`.
    Tracefs, "tracefs": "Text of the kernel's tracefs (block_rq_issue)", tracefs::is_line, tracefs::Tracefs::of;

    /// fio's I/O log, version 2 or 3: a line of its version, then `[time_ms] file action [offset length]`.
    Iolog, "iolog": "fio's I/O log, version 2 or 3", iolog::is_first, |_| iolog::Iolog::default();

    /// blktrace's files, one for each processor: `struct blk_io_trace` of `<linux/blktrace_api.h>`.
    Blktrace, "blktrace": "blktrace's binary files, merged by time";

    /// Apache Parquet, with the columns of the CSV format.
    Parquet, "parquet": "Apache Parquet, with the same columns as csv";
}

impl Format {
    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    pub(crate) fn of_line(line: &str, how: &How) -> Option<Self> {
        if !how.columns.is_empty() {
            return Some(Self::Csv);
        }
        Self::ALL.iter().copied().find(|format| format.shows(line))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl serde::Serialize for Format {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) volume: Volume<'a>,
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// When it arrived, counted from any origin.
    pub(crate) at: Nanos,
}

/// The name of a volume in one or two parts; empty if the trace is of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume<'a>(pub(crate) &'a str, pub(crate) &'a str);

pub(crate) fn wrong(column: &'static str, value: &str, reason: &'static str) -> LineError {
    const SHOWN: usize = 40;
    let value = value.chars().take(SHOWN).collect();
    LineError::Field { column, value, reason }
}

pub(crate) fn whole(column: &'static str, value: &str) -> Result<u64, LineError> {
    value.parse().map_err(|_| wrong(column, value, "must be a whole number below 2^64"))
}

pub(crate) fn sectors(column: &'static str, value: &str) -> Result<u64, LineError> {
    scaled(column, value, SECTOR)
}

pub(crate) fn scaled(column: &'static str, value: &str, unit: u64) -> Result<u64, LineError> {
    whole(column, value)?.checked_mul(unit).ok_or_else(|| wrong(column, value, "no disk is that large"))
}

pub(crate) struct Fields<'a, const N: usize> {
    fields: [&'a str; N],
    count: usize,
}

impl<'a, const N: usize> Fields<'a, N> {
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

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, column: &'static str, index: usize) -> Result<&'a str, LineError> {
        let field = self.fields.get(index).filter(|_| index < self.count);
        field.copied().ok_or(LineError::Missing { column, fields: self.count })
    }
}

pub(crate) fn is_whole(field: &str) -> bool {
    !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a decimal number of units of `unit` nanoseconds exactly, without digits below a nanosecond.
pub(crate) fn time(column: &'static str, value: &str, unit: u64) -> Result<Nanos, LineError> {
    let no_time = || wrong(column, value, "must be a time: digits, with a decimal point if needed");
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

/// How a trace is read.
#[derive(Clone, Debug)]
pub struct How {
    /// Its format; `None` to detect it.
    pub format: Option<Format>,
    /// Which columns hold what, for CSV and Parquet. Those that are not named have their usual names.
    pub columns: Columns,
    /// The event that counts as a request, in traces of events.
    pub event: Event,
    /// Whether times are needed. If not, there may be no column for them, and requests may be read in any order.
    pub timed: bool,
}

impl Default for How {
    fn default() -> Self {
        let columns = Columns::default();
        Self { format: None, columns, event: Event::Issue, timed: true }
    }
}

/// What happens to a request in the kernel, and is an event of its traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// It arrives at the device (blktrace's `Q`), the only event of devices that pass requests on (md, dm).
    Queue,
    /// The driver gets it, after merging (`D`).
    #[default]
    Issue,
    /// The device has done it (`C`).
    Complete,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Issue, Self::Complete];

    /// Returns the name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Issue => "issue",
            Self::Complete => "complete",
        }
    }

    pub(crate) const fn letter(self) -> u8 {
        match self {
            Self::Queue => b'Q',
            Self::Issue => b'D',
            Self::Complete => b'C',
        }
    }
}

#[cfg(test)]
mod tests;
