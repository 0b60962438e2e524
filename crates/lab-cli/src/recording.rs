//! What the lab and the server do alike: recordings of modelled drives, and the effect of a power cut.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use straddle_cli::args::TearName;
use straddle_cli::recording::{CLOCK, Whole, origin};
use straddle_drive::Profile;
use straddle_lab::media::{Tear, Watch};
use straddle_trace::{Event, Happened, Marks, Recorded, Recorder, SECTOR};
use straddle_units::io::{Completion, Nanos, Request, RequestId, Time};

/// The first of the block devices' major numbers that Linux leaves to local use.
const LOCAL: u32 = 240;

pub(crate) fn tear(name: TearName) -> Tear {
    match name {
        TearName::Garbage => Tear::Garbage,
        TearName::Nothing => Tear::Nothing,
    }
}

/// The recorder, and whether all was written so far; `None` once it has ended.
type Shared = Arc<Mutex<Option<(Recorder<Whole>, io::Result<()>)>>>;

#[derive(Clone, Debug)]
pub(crate) struct Modelled {
    shared: Shared,
    path: PathBuf,
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
        let out = Whole::begin(path, inputs)?;
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let recorder = Recorder::new(out, origin, &numbers, Nanos::ZERO, since_epoch)
            .with_context(|| format!("{}: cannot write", path.display()))?;
        Ok(Self { shared: Arc::new(Mutex::new(Some((recorder, Ok(()))))), path: path.to_owned() })
    }

    pub(crate) fn watch(&self, index: usize) -> Box<dyn Watch> {
        let device = number(index);
        Box::new(Watching { shared: Arc::clone(&self.shared), device, outstanding: HashMap::new() })
    }

    /// Ends the recording: what the drives do from now on is not in it.
    pub(crate) fn finish(self) -> Result<()> {
        let Some((mut recorder, written)) = locked(&self.shared).take() else { return Ok(()) };
        let finished = written.and_then(|()| recorder.finish(0));
        let kept = recorder.into_inner().keep();
        finished.and(kept).with_context(|| format!("{}: cannot write", self.path.display()))
    }
}

fn number(index: usize) -> u32 {
    (LOCAL << 20).saturating_add(u32::try_from(index).unwrap_or(u32::MAX))
}

fn locked(shared: &Shared) -> MutexGuard<'_, Option<(Recorder<Whole>, io::Result<()>)>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Watching {
    shared: Shared,
    device: u32,
    outstanding: HashMap<RequestId, Happened>,
}

impl Watching {
    fn add(&self, happened: Happened) {
        // After an error nothing more is written, so that the file ends where it was whole.
        if let Some((recorder, written @ Ok(()))) = &mut *locked(&self.shared) {
            *written = recorder.add(happened);
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
