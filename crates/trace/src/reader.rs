//! Reads a trace line by line.

use std::io::{BufRead, Read};

use straddle_io::{Nanos, Operation, Time};

use crate::error::{LineError, TraceError};
use crate::format::{Format, Line, Lines, When};

/// The longest line accepted, in bytes.
const LONGEST: usize = 64 * 1024;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its line, from 1.
    pub line: u64,
    /// The operation.
    pub operation: Operation,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// When it arrived, counted from the start of the trace.
    pub arrival: Time,
    /// How long after the completion of the previous request it arrived, if the trace says so.
    pub after: Option<Nanos>,
    /// How long it took on a real drive, if the trace says so.
    pub measured: Option<Nanos>,
}

/// Reads a trace. Holds one line at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    name: String,
    format: Option<Format>,
    lines: Option<Box<dyn Lines>>,
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
        Self { input, name: name.to_owned(), format, lines, buffer, line, origin, arrival, after }
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
            let format = Format::of_line(self.text()?).ok_or_else(|| self.wrong(LineError::Unknown))?;
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
            if let Some(line) = read? {
                return self.timed(line).map(Some);
            }
        }
    }

    /// Parses the line in the buffer: a request, or `None` if it is the header.
    fn read_line(&mut self) -> Result<Option<Line>, TraceError> {
        // There is a line, so the format is known.
        let Some(format) = self.format else { return Ok(None) };
        let mut lines = self.lines.take().unwrap_or_else(|| format.lines());
        let read = self.text().map(|text| lines.line(text));
        self.lines = Some(lines);
        read?.map_err(|error| self.wrong(error))
    }

    fn timed(&mut self, line: Line) -> Result<Record, TraceError> {
        let Line { operation, offset, length, when } = line;
        let (arrival, after, measured) = match when {
            When::At(at) => {
                let origin = *self.origin.get_or_insert(at);
                let arrival = Time::from_nanos(at.get().saturating_sub(origin.get()));
                if at < origin || arrival < self.arrival {
                    return Err(self.wrong(LineError::Backwards));
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
        Ok(Record { line: self.line, operation, offset, length, arrival, after, measured })
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

    fn text(&self) -> Result<&str, TraceError> {
        let text = std::str::from_utf8(&self.buffer).map_err(|_| self.wrong(LineError::NotText))?;
        // Spreadsheets write a byte order mark.
        Ok(text.trim_start_matches('\u{feff}').trim())
    }

    /// Returns an error for the line that was read last.
    fn wrong(&self, source: LineError) -> TraceError {
        self.wrong_at(self.line, source)
    }

    pub(crate) fn wrong_at(&self, line: u64, source: LineError) -> TraceError {
        TraceError::Line { name: self.name.clone(), line, source }
    }
}
