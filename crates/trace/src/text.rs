//! Traces that are lines of text.
//!
//! Invariants: a block of lines is in memory at a time, and a line that is not over is read on until it
//! is. Each line is read quickly or as text, with the same result.

use std::fmt;
use std::io::{self, Read};

use memchr::{memchr, memrchr};

use crate::error::{LineError, TraceError};
use crate::format::{Format, Lines, When, tracefs};
use crate::how::How;
use crate::reader::{Numbered, Source};
use crate::record::Sink;
use crate::scan::PADDING;

/// The longest line accepted, in bytes.
const LONGEST: usize = 64 * 1024;
/// How much is read at a time: what stays in the processor's second cache.
const CHUNK: usize = 256 * 1024;
const BUFFER: usize = CHUNK + LONGEST + PADDING;

/// Parses the lines of a block.
pub(crate) trait Blocks: fmt::Debug + Send {
    /// Parses lines until the block is over or the sink is full.
    fn block(&mut self, block: &mut Block<'_>, sink: &mut Sink) -> Result<(), LineError>;
}

/// Complete lines, of which some are read.
pub(crate) struct Block<'a> {
    /// The lines, and [`PADDING`] bytes.
    bytes: &'a [u8],
    /// The end of the lines.
    end: usize,
    /// The place of the next line.
    at: usize,
    /// The number of the line that was read last.
    line: u64,
}

/// A parser of lines.
#[derive(Debug)]
pub(crate) struct Parsed<L>(pub(crate) L);

impl<L: Lines> Blocks for Parsed<L> {
    fn block(&mut self, block: &mut Block<'_>, sink: &mut Sink) -> Result<(), LineError> {
        while block.at < block.end && !sink.is_full() {
            let from = block.at;
            self.one(block, sink).inspect_err(|_| block.at = from)?;
        }
        Ok(())
    }
}

impl<L: Lines> Parsed<L> {
    #[inline]
    fn one(&mut self, block: &mut Block<'_>, sink: &mut Sink) -> Result<(), LineError> {
        if let Some(quick) = self.0.quick(block.bytes, block.at)
            && quick.next - block.at <= LONGEST
        {
            block.line += 1;
            block.at = quick.next;
            let Some(request) = quick.request else {
                sink.others += 1;
                return Ok(());
            };
            let volume = sink.volumes.of_token(request.volume)?;
            let what = (request.operation, request.offset, request.length);
            return sink.request(block.line, volume, what, When::At(request.time));
        }
        self.slowly(block, sink)
    }

    #[inline(never)]
    fn slowly(&mut self, block: &mut Block<'_>, sink: &mut Sink) -> Result<(), LineError> {
        let Some(line) = block.take()? else { return Ok(()) };
        match self.0.line(line)? {
            Some(request) => sink.line(block.line, &request)?,
            None => sink.others += u64::from(self.0.has_others()),
        }
        Ok(())
    }
}

impl<'a> Block<'a> {
    /// Takes the next line as text, without the blanks around it; `None` if it is empty or a comment.
    fn take(&mut self) -> Result<Option<&'a str>, LineError> {
        let rest = self.bytes.get(self.at..self.end).unwrap_or_default();
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        self.line += 1;
        if length > LONGEST {
            return Err(LineError::Long { limit: LONGEST });
        }
        let line = rest.get(..length).unwrap_or_default().trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            self.at += length + 1;
            return Ok(None);
        }
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotText)?;
        self.at += length + 1;
        Ok(Some(text.trim()))
    }
}

/// A trace of lines.
pub(crate) struct Text<R> {
    input: R,
    name: String,
    how: How,
    parser: Option<Box<dyn Blocks>>,
    buffer: Vec<u8>,
    /// What is in the buffer and not yet read, and where its complete lines end.
    from: usize,
    to: usize,
    complete: usize,
    ended: bool,
    line: u64,
    /// The place of the buffer's beginning in the trace.
    base: u64,
}

impl<R: Read + Send> Source for Text<R> {
    fn detect(&mut self) -> Result<Option<Format>, TraceError> {
        if self.how.format.is_some() {
            return Ok(self.how.format);
        }
        while self.fill()? {
            let mut block = self.block();
            if self.how.columns.is_empty() && block.bytes.get(block.at..).is_some_and(tracefs::is_head) {
                self.how.format = Some(Format::Tracefs);
                return Ok(self.how.format);
            }
            // The first line stays where it is, to be parsed.
            let (before, line) = ((block.at, block.line), block.take());
            match line {
                Ok(None) => (self.from, self.line) = (block.at, block.line),
                Ok(Some(line)) => {
                    let format = Format::of_line(line, &self.how).ok_or(LineError::Unknown);
                    (self.from, self.line) = before;
                    let format = format.map_err(|error| self.wrong(self.line + 1, self.from, error))?;
                    self.how.format = Some(format);
                    return Ok(Some(format));
                }
                Err(error) => return Err(self.wrong(self.line + 1, self.from, error)),
            }
        }
        Ok(None)
    }

    fn batch(&mut self, sink: &mut Sink) -> Result<bool, TraceError> {
        let Some(format) = self.detect()? else { return Ok(false) };
        let Some(mut parser) = self.parser.take().or_else(|| format.lines(&self.how)) else {
            return Err(self.wrong(1, 0, LineError::NotBinary { format: format.name() }));
        };
        while !sink.is_full() {
            if !self.fill()? {
                return Ok(false);
            }
            let mut block = self.block();
            let parsed = parser.block(&mut block, sink);
            let (at, line) = (block.at, block.line);
            if let Err(error) = parsed {
                return Err(self.wrong(line, at, error));
            }
            (self.from, self.line) = (at, line);
        }
        self.parser = Some(parser);
        Ok(true)
    }

    fn place(&self) -> Numbered {
        Numbered::Line
    }
}

impl<R: Read> Text<R> {
    pub(crate) fn new(input: R, name: &str, how: How) -> Self {
        Self {
            input,
            name: name.to_owned(),
            how,
            parser: None,
            buffer: vec![0; BUFFER],
            from: 0,
            to: 0,
            complete: 0,
            ended: false,
            line: 0,
            base: 0,
        }
    }

    fn block(&self) -> Block<'_> {
        let bytes = self.buffer.get(..self.complete + PADDING).unwrap_or(&self.buffer);
        Block { bytes, end: self.complete, at: self.from, line: self.line }
    }

    fn wrong(&self, line: u64, at: usize, source: LineError) -> TraceError {
        let byte = Some(self.base + at as u64);
        TraceError::Line { name: self.name.clone(), place: Numbered::Line, line, byte, source }
    }

    /// Reads on if no complete line is left; false at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        while self.from >= self.complete {
            if self.ended {
                return Ok(false);
            }
            self.buffer.copy_within(self.from..self.to, 0);
            self.base += self.from as u64;
            (self.from, self.to) = (0, self.to - self.from);
            // What is left is a line that is not over.
            if self.to > LONGEST {
                return Err(self.wrong(self.line + 1, 0, LineError::Long { limit: LONGEST }));
            }
            let room = self.buffer.get_mut(self.to..BUFFER - PADDING).unwrap_or_default();
            let read = match self.input.read(room) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    let (name, byte) = (self.name.clone(), Some(self.base + self.to as u64));
                    return Err(TraceError::Read { name, byte, source });
                }
            };
            if read == 0 {
                self.ended = true;
                if self.to > 0
                    && let Some(end) = self.buffer.get_mut(self.to)
                {
                    *end = b'\n';
                    self.to += 1;
                }
            }
            self.to += read;
            if self.base == 0 && self.to >= BYTE_ORDER.len() && self.buffer.starts_with(BYTE_ORDER) {
                self.from = BYTE_ORDER.len();
            }
            let unread = self.buffer.get(..self.to).unwrap_or_default();
            self.complete = memrchr(b'\n', unread).map_or(0, |last| last + 1);
        }
        Ok(true)
    }
}

/// The byte order mark that spreadsheets write.
const BYTE_ORDER: &[u8] = "\u{feff}".as_bytes();
