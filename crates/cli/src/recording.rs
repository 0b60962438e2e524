//! Recordings: files in blktrace's format, of what a disk or a modelled drive was asked.
//!
//! The law of this module: a recording that ends early ends with a whole record.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use straddle_drive::Profile;
use straddle_io::{Completion, Nanos, Request, RequestId, Time};
use straddle_media::Watch;
use straddle_trace::{Event, Happened, Marks, Origin, Recorded, Recorder, SECTOR};

use crate::keep::{Over, Pending};

/// Bytes that are written at a time.
const CHUNK: usize = 1 << 18;
/// Bytes of which all or none are kept when there is no more room.
const PIECE: usize = 1 << 12;
/// The first of the block devices' major numbers that Linux leaves to local use.
const LOCAL: u32 = 240;

/// The clock of recordings of modelled drives.
pub(crate) const CLOCK: &str = "the drive's time";

/// Says what a recording is of.
pub(crate) fn origin(clock: &str, drives: Vec<Recorded>) -> Origin {
    Origin {
        recorder: Some(concat!("straddle ", env!("CARGO_PKG_VERSION")).to_owned()),
        clock: Some(clock.to_owned()),
        drives,
        requests: None,
        lost_events: None,
    }
}

/// A file that whole records are written to.
pub(crate) struct Whole {
    pending: Pending,
    buffer: Vec<u8>,
    /// Where records end in the buffer, one in each few KiB: as many as there is room for are kept.
    ends: Vec<usize>,
    /// Bytes of whole records in the file.
    written: u64,
    /// Why records were lost, if they could not be written.
    failed: Option<io::Error>,
}

impl Whole {
    /// Begins a file for `path`, which is none of `inputs`.
    pub(crate) fn begin(path: &Path, inputs: &[&Path], over: Over<'_>) -> Result<Self> {
        Ok(Self {
            pending: Pending::begin(path, inputs, over)?,
            buffer: Vec::with_capacity(CHUNK * 2),
            ends: Vec::new(),
            written: 0,
            failed: None,
        })
    }

    /// Puts the file in its place, with the whole records that there is room for.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        // What could not be written was lost with its buffer, and a part of it may be in the file.
        let flushed = self.flush();
        self.pending.cut(self.written)?;
        match &self.failed {
            Some(why) => self.pending.commit_part(why).and(flushed),
            None => self.pending.commit().map(drop),
        }
    }
}

impl Write for Whole {
    /// Takes a record, or several.
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
            if let Err(error) = self.pending.write_all(piece).and_then(|()| self.pending.flush()) {
                self.failed.get_or_insert_with(|| io::Error::new(error.kind(), error.to_string()));
                return Err(error);
            }
            self.written += piece.len() as u64;
            from = end;
        }
        self.buffer = records;
        self.buffer.clear();
        Ok(())
    }
}

/// The recording of modelled drives, which each of them adds to.
#[derive(Clone, Debug)]
pub(crate) struct Modelled {
    shared: Arc<Mutex<Shared>>,
    path: PathBuf,
}

#[derive(Debug)]
struct Shared {
    /// `None` once it has ended.
    recorder: Option<Recorder<Whole>>,
    failed: Option<io::Error>,
}

impl std::fmt::Debug for Whole {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Whole").field("written", &self.written).finish_non_exhaustive()
    }
}

impl Modelled {
    /// Begins a recording of drives, each with the name of its volume and its specification.
    pub(crate) fn begin(
        path: &Path,
        drives: &[(String, String, &Profile)],
        inputs: &[&Path],
    ) -> Result<Self> {
        let describe = |(volume, device, profile): &(String, String, &Profile)| Recorded {
            volume: volume.clone(),
            device: Some(device.clone()),
            model: Some(profile.title.clone()),
            capacity: Some(profile.claims.capacity),
            logical_sector: Some(profile.claims.logical_sector),
            physical_sector: Some(profile.claims.physical_sector),
            partition: None,
        };
        let numbers: Vec<u32> = (0..drives.len()).map(number).collect();
        let origin = origin(CLOCK, drives.iter().map(describe).collect());
        // The same guest can be recorded again.
        let out = Whole::begin(path, inputs, Over::Recording)?;
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let recorder = Recorder::new(out, origin, &numbers, Nanos::ZERO, since_epoch)
            .with_context(|| format!("{}: cannot write", path.display()))?;
        let shared = Arc::new(Mutex::new(Shared { recorder: Some(recorder), failed: None }));
        Ok(Self { shared, path: path.to_owned() })
    }

    /// Returns what sees the requests of the drive at this place.
    pub(crate) fn watch(&self, index: usize) -> Box<dyn Watch> {
        let device = number(index);
        Box::new(Watching { shared: Arc::clone(&self.shared), device, outstanding: HashMap::new() })
    }

    /// Ends the recording: what the drives do from now on is not in it. If it ended early, a former file stays.
    pub(crate) fn finish(self, ended_early: Option<&io::Error>) -> Result<()> {
        let failure = || format!("{}: cannot write", self.path.display());
        let (recorder, failed) = {
            let mut shared = locked(&self.shared);
            (shared.recorder.take(), shared.failed.take())
        };
        let Some(mut recorder) = recorder else { return Ok(()) };
        let finished = match failed {
            Some(error) => Err(error),
            None => recorder.finish(0),
        };
        let mut out = recorder.into_inner();
        if let Some(why) = ended_early {
            out.failed.get_or_insert_with(|| io::Error::new(why.kind(), why.to_string()));
        }
        let kept = out.keep();
        // Where the file is that could not be put in its place is said first.
        kept.and(finished).with_context(failure)
    }
}

/// The kernel's number of the drive at this place.
fn number(index: usize) -> u32 {
    (LOCAL << 20).saturating_add(u32::try_from(index).unwrap_or(u32::MAX))
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records one drive.
#[derive(Debug)]
struct Watching {
    shared: Arc<Mutex<Shared>>,
    device: u32,
    outstanding: HashMap<RequestId, Happened>,
}

impl Watching {
    fn add(&self, happened: Happened) {
        let Shared { recorder, failed } = &mut *locked(&self.shared);
        // After an error nothing more is written, so that the file ends where it was whole.
        if let (Some(recorder), None) = (recorder, &failed) {
            *failed = recorder.add(happened).err();
        }
    }
}

impl Watch for Watching {
    fn issued(&mut self, at: Time, request: &Request) {
        let happened = Happened {
            event: Event::Issue,
            time: at.since(Time::ZERO),
            device: self.device,
            marks: Marks::of(request.operation),
            sector: request.offset.get() / SECTOR,
            bytes: u32::try_from(request.length.get()).unwrap_or(u32::MAX),
            error: 0,
            process: 0,
            name: None,
            processor: 0,
        };
        self.outstanding.insert(request.id, happened);
        self.add(happened);
    }

    fn completed(&mut self, completion: &Completion) {
        if let Some(issued) = self.outstanding.remove(&completion.id) {
            self.add(Happened { event: Event::Complete, time: completion.at.since(Time::ZERO), ..issued });
        }
    }
}
