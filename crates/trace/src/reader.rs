//! Reads a trace line by line.

use std::io::{BufRead, Read};

use straddle_io::{Nanos, Operation, Time};

use crate::error::{LineError, TraceError};
use crate::format::{Format, Line, Lines, When};
use crate::volumes::Volumes;

/// The longest line accepted, in bytes.
const LONGEST: usize = 64 * 1024;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its line, from 1.
    pub line: u64,
    /// The index of its volume in [`Reader::volumes`].
    pub volume: usize,
    /// The operation.
    pub operation: Operation,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// When it arrived, counted from the start of the trace. Zero for what is before that, if the order does not
    /// matter.
    pub arrival: Time,
    /// How long after the completion of the previous request it arrived, if the trace says so.
    pub after: Option<Nanos>,
    /// How long it took on a real drive, if the trace says so.
    pub measured: Option<Nanos>,
}

/// Whether requests have to be in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One that is earlier than the one before is an error.
    ByTime,
    /// They may come in any order.
    Any,
}

/// Reads a trace. Holds one line at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    name: String,
    format: Option<Format>,
    order: Order,
    lines: Option<Box<dyn Lines>>,
    volumes: Volumes,
    others: u64,
    buffer: Vec<u8>,
    line: u64,
    /// The first arrival; the others are counted from it.
    origin: Option<Nanos>,
    /// The last arrival. In DiskSim's format: the next arrival.
    arrival: Time,
    after: Nanos,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader. `name` is what errors call the trace; without a `format`, the first line decides.
    pub fn new(input: R, name: &str, format: Option<Format>) -> Self {
        let (arrival, after) = (Time::ZERO, Nanos::ZERO);
        let (lines, buffer, line, origin) = (None, Vec::new(), 0, None);
        let (volumes, others, order, name) = (Volumes::default(), 0, Order::ByTime, name.to_owned());
        Self { input, name, format, order, lines, volumes, others, buffer, line, origin, arrival, after }
    }

    /// Sets whether requests have to be in the order of their times, which is the default.
    #[must_use]
    pub fn ordered(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Returns the names of the volumes in the order in which they occurred. A trace of one volume may give none.
    pub fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    /// Returns the number of lines that were no requests: headers, and events of other kinds.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// Returns the name of the trace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format: the one asked for, or the one that the first line showed.
    pub const fn format(&self) -> Option<Format> {
        self.format
    }

    /// Reads up to the first line and detects the format. `None` if the trace is empty and no format was
    /// asked for.
    pub fn detect(&mut self) -> Result<Option<Format>, TraceError> {
        if self.format.is_none() && self.fill()? {
            let format = text(&self.buffer).and_then(|text| Format::of_line(text).ok_or(LineError::Unknown));
            let format = format.map_err(|error| self.wrong(error))?;
            self.format = Some(format);
        }
        Ok(self.format)
    }

    /// Reads the next request; `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        self.detect()?;
        loop {
            if !self.fill()? {
                return Ok(None);
            }
            let read = self.read_line();
            self.buffer.clear();
            match read? {
                Some(record) => return Ok(Some(record)),
                None => self.others += 1,
            }
        }
    }

    /// Parses the line in the buffer: a request, or `None` for a line that is none.
    fn read_line(&mut self) -> Result<Option<Record>, TraceError> {
        // There is a line, so the format is known.
        let Some(format) = self.format else { return Ok(None) };
        let mut lines = self.lines.take().unwrap_or_else(|| format.lines());
        let buffer = std::mem::take(&mut self.buffer);
        let read = text(&buffer).and_then(|text| match lines.line(text)? {
            Some(line) => self.record(line).map(Some),
            None => Ok(None),
        });
        (self.lines, self.buffer) = (Some(lines), buffer);
        read.map_err(|error| self.wrong(error))
    }

    fn record(&mut self, line: Line<'_>) -> Result<Record, LineError> {
        let Line { volume, operation, offset, length, when } = line;
        let volume = self.volumes.index(volume)?;
        let (arrival, after, measured) = match when {
            When::At(at) => {
                let origin = *self.origin.get_or_insert(at);
                let arrival = Time::from_nanos(at.get().saturating_sub(origin.get()));
                if self.order == Order::ByTime && (at < origin || arrival < self.arrival) {
                    return Err(LineError::Backwards);
                }
                self.arrival = arrival;
                (arrival, None, None)
            }
            When::Took { measured, then } => {
                let (arrival, after) = (self.arrival, self.after);
                (self.arrival, self.after) = (arrival + measured + then, then);
                (arrival, Some(after), Some(measured))
            }
        };
        Ok(Record { line: self.line, volume, operation, offset, length, arrival, after, measured })
    }

    /// Reads the next line into the buffer; false at the end. Skips empty lines and comments (`#`).
    fn fill(&mut self) -> Result<bool, TraceError> {
        while self.buffer.is_empty() {
            let limit = LONGEST as u64 + 1;
            let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|source| TraceError::Read { name: self.name.clone(), source })?;
            if read == 0 {
                return Ok(false);
            }
            self.line += 1;
            if read > LONGEST {
                return Err(self.wrong(LineError::Long { limit: LONGEST }));
            }
            let trimmed = self.buffer.trim_ascii();
            if trimmed.is_empty() || trimmed.starts_with(b"#") {
                self.buffer.clear();
            }
        }
        Ok(true)
    }

    /// Returns an error for the line that was read last.
    fn wrong(&self, source: LineError) -> TraceError {
        self.wrong_at(self.line, source)
    }

    pub(crate) fn wrong_at(&self, line: u64, source: LineError) -> TraceError {
        TraceError::Line { name: self.name.clone(), line, source }
    }
}

/// Returns a line as text, without the spaces around it.
fn text(line: &[u8]) -> Result<&str, LineError> {
    let text = std::str::from_utf8(line).map_err(|_| LineError::NotText)?;
    // Spreadsheets write a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').trim())
}
