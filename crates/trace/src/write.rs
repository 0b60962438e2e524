//! Writes traces in another format. What it cannot hold is counted; what would read as another is an error.

#[cfg(feature = "parquet")]
mod table;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use straddle_units::io::{Nanos, Operation};

#[cfg(feature = "parquet")]
use self::table::TableWriter;
use crate::columns::letter;
use crate::error::{TraceError, WriteError};
use crate::record::Record;

/// A format that traces are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values with a header.
    Csv,
    /// fio's I/O log, version 3.
    Fio,
}

impl Target {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Parquet, Self::Csv, Self::Fio];

    /// Returns the name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Fio => "fio",
        }
    }
}

/// What was written, and what the format cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Requests.
    pub requests: u64,
    /// Requests whose time was cut to milliseconds.
    pub times: u64,
    /// Writes through the cache that became plain ones.
    pub through: u64,
}

/// Writes a trace.
pub struct Writer<W: Write + Send> {
    name: String,
    format: Output<W>,
    written: Written,
}

enum Output<W: Write + Send> {
    #[cfg(feature = "parquet")]
    Table(Box<TableWriter<W>>),
    Csv(W),
    Fio(Fio<W>),
}

struct Fio<W> {
    out: W,
    names: BTreeSet<String>,
    times: Option<(Nanos, Nanos)>,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a trace. `name` is what errors call it.
    pub fn new(target: Target, mut out: W, name: &str) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Write { name: name.to_owned(), source };
        let begun = |written: io::Result<()>| written.map_err(|error| failed(error.into()));
        let format = match target {
            #[cfg(feature = "parquet")]
            Target::Parquet => Output::Table(Box::new(TableWriter::new(out).map_err(failed)?)),
            #[cfg(not(feature = "parquet"))]
            Target::Parquet => {
                return Err(failed(WriteError::Parquet(Box::new(crate::ParquetError::NotBuilt))));
            }
            Target::Csv => {
                begun(out.write_all(b"time_ns,volume,op,offset,length\n"))?;
                Output::Csv(out)
            }
            Target::Fio => {
                begun(out.write_all(b"fio version 3 iolog\n"))?;
                Output::Fio(Fio { out, names: BTreeSet::new(), times: None })
            }
        };
        Ok(Self { name: name.to_owned(), format, written: Written::default() })
    }

    /// Writes requests; `volumes` are the names of their volumes.
    pub fn write(&mut self, records: &[Record], volumes: &[String]) -> Result<(), TraceError> {
        for record in records {
            let volume = volumes.get(record.volume).map_or("", String::as_str);
            self.one(record, volume)
                .map_err(|source| TraceError::Write { name: self.name.clone(), source })?;
        }
        Ok(())
    }

    fn one(&mut self, record: &Record, volume: &str) -> Result<(), WriteError> {
        self.written.requests += 1;
        match &mut self.format {
            #[cfg(feature = "parquet")]
            Output::Table(table) => table.add(record, volume),
            Output::Csv(out) => {
                let (time, name, op) = (record.time.get(), csv_name(volume)?, letter(record.operation));
                writeln!(out, "{time},{name},{op},{},{}", record.offset, record.length)?;
                Ok(())
            }
            Output::Fio(fio) => {
                self.written.through += u64::from(record.operation == Operation::WriteFua);
                self.written.times += u64::from(fio.add(record, volume, self.written.requests)?);
                Ok(())
            }
        }
    }

    /// Ends the trace; returns the output and what was written.
    pub fn finish(self) -> Result<(W, Written), TraceError> {
        let Self { name, format, written } = self;
        let out = match format {
            #[cfg(feature = "parquet")]
            Output::Table(table) => table.finish(),
            Output::Csv(mut out) => out.flush().map(|()| out).map_err(Into::into),
            Output::Fio(fio) => fio.finish(),
        };
        out.map(|out| (out, written)).map_err(|source| TraceError::Write { name, source })
    }
}

const MILLI: u64 = 1_000_000;

impl<W: Write> Fio<W> {
    /// Returns whether the request's time was cut.
    fn add(&mut self, record: &Record, volume: &str, number: u64) -> Result<bool, WriteError> {
        let (first, last) = self.times.unwrap_or((record.time, record.time));
        if record.time < last {
            return Err(WriteError::Backwards { line: number });
        }
        self.times = Some((first, record.time));
        let time = record.time.saturating_sub(first).get();
        let at = time / MILLI;
        // fio needs a name.
        let volume = if volume.is_empty() { "volume" } else { volume };
        if !self.names.contains(volume) {
            if volume.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
                let why = "fio's log separates fields with spaces, so a name cannot contain spaces";
                return Err(WriteError::Name { name: volume.to_owned(), why });
            }
            self.names.insert(volume.to_owned());
            writeln!(self.out, "{at} {volume} add\n{at} {volume} open")?;
        }
        let (offset, length) = (record.offset, record.length);
        match record.operation {
            Operation::Read => writeln!(self.out, "{at} {volume} read {offset} {length}")?,
            Operation::Write | Operation::WriteFua => {
                writeln!(self.out, "{at} {volume} write {offset} {length}")?;
            }
            Operation::Discard => writeln!(self.out, "{at} {volume} trim {offset} {length}")?,
            Operation::Flush => writeln!(self.out, "{at} {volume} sync")?,
        }
        Ok(!time.is_multiple_of(MILLI))
    }

    fn finish(mut self) -> Result<W, WriteError> {
        let end = self.times.map_or(0, |(first, last)| last.saturating_sub(first).get() / MILLI);
        for name in &self.names {
            writeln!(self.out, "{end} {name} close")?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Returns a volume's name as a field, if it is read back as it is.
fn csv_name(name: &str) -> Result<Cow<'_, str>, WriteError> {
    let is_kept = name.trim() == name && !name.contains(|letter: char| letter == '"' || letter.is_control());
    if !is_kept {
        let why = "the name contains a quotation mark or a control character, or begins or ends with a space";
        return Err(WriteError::Name { name: name.to_owned(), why });
    }
    Ok(if name.contains(',') { format!("\"{name}\"").into() } else { name.into() })
}
