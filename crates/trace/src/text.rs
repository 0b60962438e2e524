//! Traces of lines. A block of them is in memory at a time, and each is read quickly or as text alike.

use std::io::{self, Read};

use memchr::{memchr, memrchr};

use crate::error::{LineError, TraceError};
use crate::format::{Format, How, Lines, tracefs};
use crate::reader::{Numbered, Source};
use crate::record::Sink;
use crate::scan::PADDING;

/// The longest line accepted, in bytes.
const LONGEST: usize = 64 * 1024;
/// How much is read at a time: what stays in the processor's second cache.
const CHUNK: usize = 256 * 1024;
const BUFFER: usize = CHUNK + LONGEST + PADDING;

pub(crate) struct Block<'a> {
    /// The lines, and [`PADDING`] bytes.
    bytes: &'a [u8],
    end: usize,
    at: usize,
    /// The number of the line that was read last.
    line: u64,
}

#[inline]
pub(crate) fn parse<L: Lines + ?Sized>(
    lines: &mut L,
    block: &mut Block<'_>,
    sink: &mut Sink,
) -> Result<(), LineError> {
    while block.at < block.end && !sink.is_full() {
        let Some(quick) = lines.quick(block.bytes, block.at).filter(|quick| quick.next - block.at <= LONGEST)
        else {
            slowly(lines, block, sink)?;
            continue;
        };
        block.line += 1;
        match quick.request {
            None => sink.others += 1,
            Some(request) => {
                let volume = sink.volumes.of_token(request.volume)?;
                let what = (request.operation, request.offset, request.length);
                sink.request(block.line, volume, what, request.time)?;
            }
        }
        block.at = quick.next;
    }
    Ok(())
}

#[inline(never)]
fn slowly<L: Lines + ?Sized>(lines: &mut L, block: &mut Block<'_>, sink: &mut Sink) -> Result<(), LineError> {
    let (text, next) = block.next()?;
    if let Some(text) = text {
        match lines.line(text)? {
            Some(request) => sink.line(block.line, &request)?,
            None => sink.others += u64::from(lines.has_others()),
        }
    }
    block.at = next;
    Ok(())
}

impl<'a> Block<'a> {
    /// Trimmed; `None` for a line that is empty or a comment.
    fn next(&mut self) -> Result<(Option<&'a str>, usize), LineError> {
        let rest = self.bytes.get(self.at..self.end).unwrap_or_default();
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        self.line += 1;
        if length > LONGEST {
            return Err(LineError::Long { limit: LONGEST });
        }
        let line = rest.get(..length).unwrap_or_default().trim_ascii();
        let text = match line {
            [] | [b'#', ..] => None,
            line => Some(std::str::from_utf8(line).map_err(|_| LineError::NotText)?.trim()),
        };
        Ok((text, self.at + length + 1))
    }
}

pub(crate) struct Text<R> {
    input: R,
    name: String,
    how: How,
    parser: Option<Box<dyn Lines>>,
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
            let format = match block.next() {
                Ok((None, next)) => {
                    (self.from, self.line) = (next, block.line);
                    continue;
                }
                // The line stays where it is, to be parsed.
                Ok((Some(line), _)) => Format::of_line(line, &self.how).ok_or(LineError::Unknown),
                Err(error) => Err(error),
            };
            self.how.format = Some(format.map_err(|error| self.wrong(self.line + 1, self.from, error))?);
            return Ok(self.how.format);
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

    /// False at the end.
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
