//! Runs jobs in real guests.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::guest::{Charges, GuestDrive, GuestError, Kernel, LIBRARY, Limits, Partition, Task};

use crate::reproduce::lab::job::{Ended, Job, LabError, Machine, Measured};
use crate::reproduce::policy;

/// User-Mode Linux guests, each bound to a processor of its own as long as there are enough.
pub struct Guests<'a> {
    kernel: Kernel,
    charges: Charges,
    host_limit: Duration,
    stop: &'a AtomicBool,
    unconfined: bool,
    /// The processors to which no guest is bound at the moment.
    free: Mutex<BTreeSet<usize>>,
}

impl<'a> Guests<'a> {
    /// Finds the guests' kernel. Setting `stop` ends every running guest.
    pub fn new(charges: Charges, host_limit: Duration, stop: &'a AtomicBool) -> Result<Self, LabError> {
        let kernel = Kernel::find()?;
        let free = Mutex::new(crate::guest::processors().into_iter().collect());
        Ok(Self { kernel, charges, host_limit, stop, unconfined: false, free })
    }

    /// If true, a guest may do to the host all that its caller may, on a host where nothing can confine it.
    #[must_use]
    pub fn unconfined(mut self, unconfined: bool) -> Self {
        self.unconfined = unconfined;
        self
    }

    fn claim(&self) -> Option<usize> {
        self.free.lock().ok()?.pop_first()
    }

    fn release(&self, processor: Option<usize>) {
        if let (Some(processor), Ok(mut free)) = (processor, self.free.lock()) {
            free.insert(processor);
        }
    }
}

impl From<GuestError> for LabError {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Interrupted => Self::Interrupted,
            error => Self::Guest(error),
        }
    }
}

impl Machine for Guests<'_> {
    fn run(&self, job: &Job) -> Result<Ended, LabError> {
        let drive = |drive: &crate::reproduce::lab::job::JobDrive| {
            let profile = policy::open(&drive.spec, drive.policy, drive.queue_depth)?;
            let fits = |size: &u64| {
                drive.start.unwrap_or(0).checked_add(*size).is_some_and(|end| end <= profile.claims.capacity)
            };
            let partition =
                Partition { start: drive.start, size: drive.size.filter(fits), table: drive.table };
            Ok(GuestDrive { profile, partition, store: None })
        };
        let drives = job.drives.iter().map(drive).collect::<Result<_, LabError>>()?;
        let processor = self.claim();
        let task = Task {
            script: job.script.clone(),
            arguments: job.arguments.clone(),
            library: LIBRARY.to_owned(),
            environment: job.environment.clone(),
            input: job.input.clone(),
            output: job.output.clone(),
            unconfined: self.unconfined,
            memory: job.memory,
            processor,
            settings: job.settings.clone(),
        };
        let guest_job = crate::guest::Job {
            task,
            drives,
            seed: job.seed,
            charges: self.charges,
            limits: Limits { host: self.host_limit, ..Limits::default() },
            cut: None,
            trace: None,
            events: None,
            watching: None,
        };
        let ended = crate::guest::run(&self.kernel, &guest_job, &|_, _| (), self.stop);
        self.release(processor);
        let ended = ended?;
        let measured = |measured: crate::guest::Measured| {
            let crate::guest::Measured { name, value, requests } = measured;
            Measured { name, seconds: value, requests }
        };
        Ok(Ended {
            status: ended.status,
            measures: ended.measures.into_iter().map(measured).collect(),
            output: ended.output,
            virtual_seconds: ended.guest.as_secs_f64(),
            wall_seconds: ended.host.as_secs_f64(),
            requests: ended.requests,
            counters: ended.counters,
            charges: self.charges.to_string(),
        })
    }
}
