//! blktrace's binary files, one for each processor, merged by time. A record is in the byte order of its magic
//! number. Late ones are put in order within a window; none is dropped.
//!
//! | byte | field of `struct blk_io_trace` |
//! |---|---|
//! | 0 | magic, `0x65617400` and version 7 |
//! | 4 | sequence |
//! | 8 | time in nanoseconds |
//! | 16 | sector of 512 bytes |
//! | 24 | bytes |
//! | 28 | action: what happened in the low bits, categories from bit 16 on |
//! | 32 | process |
//! | 36 | device: major number from bit 20 on |
//! | 40 | processor |
//! | 44 | error, 16 bits |
//! | 46 | bytes that follow the record, 16 bits |

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, BufReader, Read};

use straddle_units::io::{Nanos, Operation};

use crate::error::{LineError, TraceError};
use crate::format::{Event, Format, How, Volume};
use crate::histogram::SECTOR;
use crate::origin::Origin;
use crate::reader::{Numbered, Source};
use crate::record::Sink;

/// `BLK_IO_TRACE_MAGIC` with `BLK_IO_TRACE_VERSION`.
pub(crate) const MAGIC: u32 = 0x6561_7407;
/// Without what follows it.
pub(crate) const RECORD: usize = 48;
const CHUNK: usize = 256 * 1024;
/// Records put in order of each file, or of a single one for all processors, each with buffers of 512 KiB.
const WINDOW: usize = 256;
const WINDOW_OF_ONE: usize = 1 << 16;

/// The low bits of an action that say what happened (`enum blktrace_act`).
const ACTION: u32 = 0xff;

/// Categories (`enum blktrace_cat`), shifted by `BLK_TC_SHIFT`.
pub(crate) const READ: u32 = 1 << 16;
pub(crate) const WRITE: u32 = 1 << 17;
pub(crate) const FLUSH: u32 = 1 << 18;
pub(crate) const SYNC: u32 = 1 << 19;
pub(crate) const FILE_SYSTEM: u32 = 1 << 24;
pub(crate) const DEVICE_COMMAND: u32 = 1 << 25;
pub(crate) const NOTIFY: u32 = 1 << 26;
pub(crate) const AHEAD: u32 = 1 << 27;
pub(crate) const META: u32 = 1 << 28;
pub(crate) const DISCARD: u32 = 1 << 29;
pub(crate) const FUA: u32 = 1 << 31;

/// What a note says (`enum blktrace_notify`).
pub(crate) const NAME_OF_PROCESS: u32 = 0;
pub(crate) const WALL_CLOCK: u32 = 1;
pub(crate) const MESSAGE: u32 = 2;
/// How the messages of a recording by this program begin.
pub(crate) const OWN: &str = "straddle: ";
const LONGEST_MESSAGE: usize = 1024;
const NAMES: usize = 1 << 12;

pub(crate) const MINOR_BITS: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    time: u64,
    sequence: u32,
    stream: usize,
    number: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
}

struct Stream<'a> {
    input: BufReader<Box<dyn Read + Send + 'a>>,
    name: String,
    is_swapped: bool,
    number: u64,
    byte: u64,
    ended: bool,
    payload: Vec<u8>,
}

pub(crate) struct Blktrace<'a> {
    streams: Vec<Stream<'a>>,
    event: u32,
    any_order: bool,
    window: BinaryHeap<Reverse<Request>>,
    begun: bool,
    device: Option<(u32, usize)>,
    origin: Origin,
    names: HashMap<u32, String>,
}

impl<'a> Blktrace<'a> {
    pub(crate) fn is_one(first: &[u8]) -> bool {
        first == MAGIC.to_le_bytes() || first == MAGIC.to_be_bytes()
    }

    pub(crate) fn new(files: Vec<(String, Box<dyn Read + Send + 'a>)>, how: &How) -> Self {
        let stream = |(name, input)| Stream {
            input: BufReader::with_capacity(CHUNK, input),
            name,
            is_swapped: false,
            number: 0,
            byte: 0,
            ended: false,
            payload: Vec::new(),
        };
        Self {
            streams: files.into_iter().map(stream).collect(),
            event: action(how.event) & ACTION,
            any_order: !how.timed,
            window: BinaryHeap::new(),
            begun: false,
            device: None,
            origin: Origin::default(),
            names: HashMap::new(),
        }
    }

    fn next_of(&mut self, index: usize, sink: &mut Sink) -> Result<Option<Request>, TraceError> {
        let Some(stream) = self.streams.get_mut(index) else { return Ok(None) };
        while let Some(request) = stream.record(index)? {
            let what = request.action & ACTION;
            if what == self.event && request.action & (NOTIFY | DEVICE_COMMAND) == 0 {
                return Ok(Some(request));
            }
            if request.action & NOTIFY != 0
                && what == MESSAGE
                && stream.payload.len() <= LONGEST_MESSAGE
                && let Ok(text) = std::str::from_utf8(&stream.payload)
                && let Some(line) = text.strip_prefix(OWN)
            {
                self.origin.take(line);
                if let Some(name) = line.strip_prefix("volume: ")
                    && self.names.len() < NAMES
                {
                    self.names.insert(request.device, name.trim().to_owned());
                }
            }
            sink.others += 1;
        }
        Ok(None)
    }

    fn take(&mut self, index: usize, count: usize, sink: &mut Sink) -> Result<(), TraceError> {
        for _ in 0..count {
            let Some(request) = self.next_of(index, sink)? else { break };
            self.window.push(Reverse(request));
        }
        Ok(())
    }

    fn next(&mut self, sink: &mut Sink) -> Result<Option<Request>, TraceError> {
        if !self.begun {
            self.begun = true;
            let count = if self.streams.len() == 1 { WINDOW_OF_ONE } else { WINDOW };
            for index in 0..self.streams.len() {
                self.take(index, count, sink)?;
            }
        }
        let Some(Reverse(request)) = self.window.pop() else { return Ok(None) };
        self.take(request.stream, 1, sink)?;
        Ok(Some(request))
    }

    fn next_of_any(&mut self, sink: &mut Sink) -> Result<Option<Request>, TraceError> {
        for index in 0..self.streams.len() {
            if let Some(request) = self.next_of(index, sink)? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }

    fn hand_on(&mut self, request: Request, sink: &mut Sink) -> Result<(), TraceError> {
        let Some(operation) = operation(request.action, request.bytes) else {
            sink.others += 1;
            return Ok(());
        };
        self.line(request, operation, sink).map_err(|source| {
            let name = self.streams.get(request.stream).map(|stream| stream.name.clone()).unwrap_or_default();
            TraceError::Line { name, place: Numbered::Record, line: request.number, byte: None, source }
        })
    }

    fn line(&mut self, request: Request, operation: Operation, sink: &mut Sink) -> Result<(), LineError> {
        let volume = match self.device {
            Some((device, index)) if device == request.device => index,
            _ => {
                let (major, minor) = (request.device >> MINOR_BITS, request.device & ((1 << MINOR_BITS) - 1));
                let index = match self.names.get(&request.device) {
                    Some(name) => sink.volumes.index(Volume(name, ""))?,
                    None => sink.volumes.index(Volume(&format!("{major},{minor}"), ""))?,
                };
                self.device = Some((request.device, index));
                index
            }
        };
        let too_large = LineError::TooFar { offset: u64::MAX, length: u64::from(request.bytes) };
        let (offset, length) = match operation {
            Operation::Flush => (0, 0),
            _ => (request.sector.checked_mul(SECTOR).ok_or(too_large)?, u64::from(request.bytes)),
        };
        sink.request(request.number, volume, (operation, offset, length), Nanos::new(request.time))
    }
}

impl Source for Blktrace<'_> {
    fn detect(&mut self) -> Result<Option<Format>, TraceError> {
        Ok(Some(Format::Blktrace))
    }

    fn batch(&mut self, sink: &mut Sink) -> Result<bool, TraceError> {
        while !sink.is_full() {
            let next = if self.any_order { self.next_of_any(sink)? } else { self.next(sink)? };
            let Some(request) = next else { return Ok(false) };
            self.hand_on(request, sink)?;
        }
        Ok(true)
    }

    fn place(&self) -> Numbered {
        Numbered::Record
    }

    fn origin(&self) -> Option<&Origin> {
        Some(&self.origin)
    }
}

impl Stream<'_> {
    fn record(&mut self, index: usize) -> Result<Option<Request>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let mut record = [0; RECORD];
        match self.fill(&mut record, 0)? {
            0 => {
                self.ended = true;
                return Ok(None);
            }
            RECORD => {}
            _ => return Err(self.wrong(LineError::Cut)),
        }
        let magic = four(&record, 0);
        if self.number == 0 {
            self.is_swapped = magic == MAGIC.swap_bytes();
        }
        let swap = |value: u32| if self.is_swapped { value.swap_bytes() } else { value };
        if swap(magic) != MAGIC {
            return Err(self.wrong(LineError::Magic { magic: u32::from_be(magic.to_be()) }));
        }
        let wide = |at: usize| {
            let (low, high) = (four(&record, at), four(&record, at + 4));
            let (low, high) = if self.is_swapped { (swap(high), swap(low)) } else { (low, high) };
            u64::from(high) << 32 | u64::from(low)
        };
        let request = Request {
            time: wide(8),
            sequence: swap(four(&record, 4)),
            stream: index,
            number: self.number + 1,
            sector: wide(16),
            bytes: swap(four(&record, 24)),
            action: swap(four(&record, 28)),
            device: swap(four(&record, 36)),
        };
        // The last four bytes are two numbers of 16 bits.
        let ends = four(&record, 44);
        let length = if self.is_swapped { (ends >> 16).swap_bytes() >> 16 } else { ends >> 16 };
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(length as usize, 0);
        if self.fill(&mut payload, RECORD)? < payload.len() {
            return Err(self.wrong(LineError::Cut));
        }
        self.payload = payload;
        self.number += 1;
        self.byte += RECORD as u64 + u64::from(length);
        Ok(Some(request))
    }

    /// Returns how much of the buffer was filled, less than all at the end only.
    fn fill(&mut self, buffer: &mut [u8], from: usize) -> Result<usize, TraceError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let byte = Some(self.byte + (from + filled) as u64);
                    return Err(TraceError::Read { name: self.name.clone(), byte, source });
                }
            }
        }
        Ok(filled)
    }

    fn wrong(&self, source: LineError) -> TraceError {
        let (name, line) = (self.name.clone(), self.number + 1);
        TraceError::Line { name, place: Numbered::Record, line, byte: Some(self.byte), source }
    }
}

fn four(record: &[u8; RECORD], at: usize) -> u32 {
    let bytes = record.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

pub(crate) const fn action(event: Event) -> u32 {
    match event {
        Event::Queue => 1 | 1 << 20,
        Event::Issue => 7 | 1 << 22,
        Event::Complete => 8 | 1 << 23,
    }
}

/// Returns the operation of an action, as blkparse's letters name it; `None` if it has no data and is not a flush.
pub(crate) fn operation(action: u32, bytes: u32) -> Option<Operation> {
    let has = |category: u32| action & category != 0;
    match () {
        () if has(DISCARD) => Some(Operation::Discard),
        () if bytes == 0 => has(FLUSH).then_some(Operation::Flush),
        () if has(WRITE) && has(FUA) => Some(Operation::WriteFua),
        () if has(WRITE) => Some(Operation::Write),
        () => Some(Operation::Read),
    }
}
