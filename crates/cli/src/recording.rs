//! Recordings: files in blktrace's format, of what a disk or a modelled drive was asked.
//!
//! Invariants: a recording that ends early ends with a whole record.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use straddle_trace::{Origin, Recorded};

use crate::output_file::OutputFile;

const CHUNK: usize = 1 << 18;
/// Bytes of which all or none are kept when there is no more room.
const PIECE: usize = 1 << 12;

/// The clock of recordings of modelled drives.
pub const CLOCK: &str = "the drive's time";

/// Says what a recording is of.
pub fn origin(clock: &str, drives: Vec<Recorded>) -> Origin {
    Origin {
        recorder: Some(concat!("straddle ", env!("CARGO_PKG_VERSION")).to_owned()),
        clock: Some(clock.to_owned()),
        drives,
        requests: None,
        lost_events: None,
    }
}

/// A file that whole records are written to.
#[derive(Debug)]
pub struct Whole {
    file: OutputFile,
    buffer: Vec<u8>,
    /// Where records end in the buffer, one in each few KiB: as many as there is room for are kept.
    ends: Vec<usize>,
    written: u64,
}

impl Whole {
    /// Begins a file for `path`, which is none of `inputs`.
    pub fn begin(path: &Path, inputs: &[&Path]) -> Result<Self> {
        Ok(Self {
            file: OutputFile::begin(path, inputs)?,
            buffer: Vec::with_capacity(CHUNK * 2),
            ends: Vec::new(),
            written: 0,
        })
    }

    /// Ends the file with the whole records that there is room for.
    pub fn keep(mut self) -> io::Result<()> {
        // What could not be written was lost with its buffer, and a part of it may be in the file.
        let flushed = self.flush();
        self.file.cut(self.written)?;
        flushed.and(self.file.finish())
    }
}

impl Write for Whole {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(record);
        if self.buffer.len() - self.ends.last().copied().unwrap_or(0) >= PIECE {
            self.ends.push(self.buffer.len());
        }
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (records, mut ends) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.ends));
        ends.push(records.len());
        let mut from = 0;
        for end in ends {
            let piece = records.get(from..end).unwrap_or_default();
            self.file.write_all(piece).and_then(|()| self.file.flush())?;
            self.written += piece.len() as u64;
            from = end;
        }
        self.buffer = records;
        self.buffer.clear();
        Ok(())
    }
}
