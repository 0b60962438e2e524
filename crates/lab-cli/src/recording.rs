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

/// Returns the effect of a power cut that was asked for.
pub(crate) fn tear(name: TearName) -> Tear {
    match name {
        TearName::Garbage => Tear::Garbage,
        TearName::Nothing => Tear::Nothing,
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
        let shared = Arc::new(Mutex::new(Shared { recorder: Some(recorder), failed: None }));
        Ok(Self { shared, path: path.to_owned() })
    }

    /// Returns what sees the requests of the drive at this place.
    pub(crate) fn watch(&self, index: usize) -> Box<dyn Watch> {
        let device = number(index);
        Box::new(Watching { shared: Arc::clone(&self.shared), device, outstanding: HashMap::new() })
    }

    /// Ends the recording: what the drives do from now on is not in it.
    pub(crate) fn finish(self) -> Result<()> {
        let (recorder, failed) = {
            let mut shared = locked(&self.shared);
            (shared.recorder.take(), shared.failed.take())
        };
        let Some(mut recorder) = recorder else { return Ok(()) };
        let finished = failed.map_or_else(|| recorder.finish(0), Err);
        let kept = recorder.into_inner().keep();
        finished.and(kept).with_context(|| format!("{}: cannot write", self.path.display()))
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
