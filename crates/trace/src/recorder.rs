//! Writes what happens to requests as blktrace does: one file, all processors merged by time. An event is counted as
//! it will be read. Late ones are put in order within a window; none is dropped.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::io::{Nanos, Operation, Requests};

use crate::blktrace as format;
use crate::format::Event;
use crate::origin::Origin;

const WINDOW: usize = 1 << 17;
/// Processes of which the names that were written last are known: a power of two.
const PROCESSES: usize = 256;
const NAME: usize = 16;

/// What a request is: blktrace's categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks(u32);

impl Marks {
    /// Those of a request to a modelled drive.
    pub const fn of(operation: Operation) -> Self {
        let marks = match operation {
            Operation::Read => format::READ,
            Operation::Write => format::WRITE,
            Operation::WriteFua => format::WRITE | format::FUA | format::SYNC,
            // As in blktrace: what has no data is not a write.
            Operation::Flush => format::READ | format::FLUSH,
            Operation::Discard => format::WRITE | format::DISCARD,
        };
        Self(marks | format::FILE_SYSTEM)
    }

    /// Those of the letters of the kernel's block events (`blk_fill_rwbs`). `N` is a command of the device if it has no
    /// sectors; otherwise it writes zeroes, or appends to a zone.
    pub fn of_letters(letters: &[u8], sectors: u64) -> Self {
        let end = letters.iter().position(|letter| *letter == 0).unwrap_or(letters.len());
        let letters = letters.get(..end).unwrap_or_default();
        // A flush before a request precedes its letter.
        let is_before =
            letters.first() == Some(&b'F') && letters.get(1).is_some_and(|next| b"RWDFN".contains(next));
        let (kind, rest) = letters.get(usize::from(is_before)..).unwrap_or_default().split_first().unzip();
        let mut marks = match kind {
            Some(b'R') => format::READ | format::FILE_SYSTEM,
            Some(b'W') => format::WRITE | format::FILE_SYSTEM,
            Some(b'D') => format::WRITE | format::DISCARD | format::FILE_SYSTEM,
            Some(b'F') => format::READ | format::FLUSH | format::FILE_SYSTEM,
            Some(b'N') if is_before && sectors == 0 => format::READ | format::FILE_SYSTEM,
            _ if sectors > 0 => format::WRITE | format::FILE_SYSTEM,
            _ => format::READ | format::DEVICE_COMMAND,
        };
        if is_before {
            marks |= format::FLUSH;
        }
        for letter in rest.unwrap_or_default() {
            marks |= match letter {
                b'F' => format::FUA,
                b'S' => format::SYNC,
                b'M' => format::META,
                b'A' => format::AHEAD,
                _ => 0,
            };
        }
        Self(marks)
    }
}

/// Something that happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// What.
    pub event: Event,
    /// When, by the clock of the recording.
    pub time: Nanos,
    /// The device, by the kernel's number: the major number from bit 20 on.
    pub device: u32,
    /// What the request is.
    pub marks: Marks,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// The error that it ended with, as the kernel numbers them; 0 if it succeeded.
    pub error: u16,
    /// The process that the event happened in.
    pub process: u32,
    /// Its name, if it is known; filled with zeros.
    pub name: Option<[u8; NAME]>,
    /// The processor.
    pub processor: u32,
}

/// Requests as they will be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Asked {
    /// Reads, writes, flushes and discards.
    #[serde(flatten)]
    pub requests: Requests,
    /// The number of other commands to the device, which were recorded but are not counted as requests.
    #[serde(rename = "device_commands")]
    pub commands: u64,
}

impl Asked {
    fn add(&mut self, action: u32, bytes: u32) {
        let is_command = action & format::DEVICE_COMMAND != 0;
        match format::operation(action, bytes).filter(|_| !is_command) {
            Some(operation) => self.requests.add(operation, bytes.into()),
            None => self.commands += 1,
        }
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    origin: Origin,
    devices: Vec<u32>,
    waiting: BTreeMap<(Nanos, u64), Happened>,
    /// Events added, and the time of the last one written.
    added: u64,
    last: Nanos,
    sequences: HashMap<u32, u32>,
    processes: Vec<Option<(u32, [u8; NAME])>>,
    asked: Asked,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording of devices, in the order of the drives of `origin`, at this time by its clock and since 1970.
    pub fn new(
        mut out: W,
        origin: Origin,
        devices: &[u32],
        start: Nanos,
        since_epoch: Duration,
    ) -> io::Result<Self> {
        let first = devices.first().copied().unwrap_or_default();
        let seconds = u32::try_from(since_epoch.as_secs()).unwrap_or(u32::MAX);
        let clock = [seconds.to_le_bytes(), since_epoch.subsec_nanos().to_le_bytes()].concat();
        out.write_all(&note(format::WALL_CLOCK, first, start, 0, &clock))?;
        for (index, line) in origin.head() {
            let device = devices.get(index).copied().unwrap_or(first);
            out.write_all(&message(device, start, &line))?;
        }
        Ok(Self {
            out,
            origin,
            devices: devices.to_vec(),
            waiting: BTreeMap::new(),
            added: 0,
            last: start,
            sequences: HashMap::new(),
            processes: vec![None; PROCESSES],
            asked: Asked::default(),
        })
    }

    /// Adds an event.
    pub fn add(&mut self, happened: Happened) -> io::Result<()> {
        if happened.event != Event::Complete {
            self.asked.add(happened.marks.0, happened.bytes);
        }
        self.added += 1;
        self.waiting.insert((happened.time, self.added), happened);
        while self.waiting.len() > WINDOW {
            self.write()?;
        }
        Ok(())
    }

    /// Writes all events up to and including `until`: nothing earlier is to come.
    pub fn settle(&mut self, until: Nanos) -> io::Result<()> {
        while self.waiting.first_key_value().is_some_and(|((time, _), _)| *time <= until) {
            self.write()?;
        }
        Ok(())
    }

    /// Passes on what has been written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns what has been asked so far.
    pub const fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Ends the recording; `lost` is the number of events that could not be recorded.
    pub fn finish(&mut self, lost: u64) -> io::Result<()> {
        self.settle(Nanos::new(u64::MAX))?;
        self.origin.requests = Some(self.asked.requests.count());
        self.origin.lost_events = Some(lost);
        let device = self.devices.first().copied().unwrap_or_default();
        for line in self.origin.tail() {
            self.out.write_all(&message(device, self.last, &line))?;
        }
        self.out.flush()
    }

    /// Returns what it was written to. Events not yet written are lost.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn write(&mut self) -> io::Result<()> {
        let Some((_, happened)) = self.waiting.pop_first() else { return Ok(()) };
        self.last = happened.time;
        if let Some(name) = happened.name {
            self.name(&happened, name)?;
        }
        let sequence = self.sequences.entry(happened.processor).or_default();
        *sequence = sequence.wrapping_add(1);
        let action = format::action(happened.event) | happened.marks.0;
        self.out.write_all(&record(*sequence, action, &happened, &[]))
    }

    /// Writes the name of the event's process, unless it was written last.
    fn name(&mut self, happened: &Happened, name: [u8; NAME]) -> io::Result<()> {
        let process = happened.process;
        let place = usize::try_from(process).unwrap_or_default() & (PROCESSES - 1);
        let Some(known) = self.processes.get_mut(place) else { return Ok(()) };
        if known.replace((process, name)) == Some((process, name)) {
            return Ok(());
        }
        self.out.write_all(&note(format::NAME_OF_PROCESS, happened.device, happened.time, process, &name))
    }
}

fn message(device: u32, time: Nanos, line: &str) -> Vec<u8> {
    note(format::MESSAGE, device, time, 0, format!("{}{line}", format::OWN).as_bytes())
}

fn note(what: u32, device: u32, time: Nanos, process: u32, payload: &[u8]) -> Vec<u8> {
    let happened = Happened {
        event: Event::Queue,
        time,
        device,
        marks: Marks(0),
        sector: 0,
        bytes: 0,
        error: 0,
        process,
        name: None,
        processor: 0,
    };
    record(0, what | format::NOTIFY, &happened, payload)
}

/// With the lowest byte first, and what follows it.
fn record(sequence: u32, action: u32, happened: &Happened, payload: &[u8]) -> Vec<u8> {
    let fields: [&[u8]; 12] = [
        &format::MAGIC.to_le_bytes(),
        &sequence.to_le_bytes(),
        &happened.time.get().to_le_bytes(),
        &happened.sector.to_le_bytes(),
        &happened.bytes.to_le_bytes(),
        &action.to_le_bytes(),
        &happened.process.to_le_bytes(),
        &happened.device.to_le_bytes(),
        &happened.processor.to_le_bytes(),
        &happened.error.to_le_bytes(),
        &u16::try_from(payload.len()).unwrap_or_default().to_le_bytes(),
        payload,
    ];
    fields.concat()
}

#[cfg(test)]
mod tests;
