//! Runs jobs in real guests.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::guest::{Charges, GuestDrive, Kernel, Limits, Partition, Task};
use crate::reproduce::lab::job::{Ended, Job, JobDrive, LabError, Machine};
use crate::reproduce::policy;

/// How many guests of this much memory run at once: one per processor, if they and their drives' contents (a quarter
/// as much) fit into the host's.
pub fn at_once(memory: u64) -> NonZeroUsize {
    let info = rustix::system::sysinfo();
    let host = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let fitting = usize::try_from(host / (memory + memory / 4).max(1)).ok().and_then(NonZeroUsize::new);
    let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    processors.min(fitting.unwrap_or(NonZeroUsize::MIN))
}

/// User-Mode Linux guests, each bound to a processor of its own as long as there are enough.
pub struct Guests<'a> {
    kernel: Kernel,
    charges: Charges,
    host_limit: Duration,
    stop: &'a AtomicBool,
    unconfined: bool,
    free: Mutex<BTreeSet<usize>>,
}

impl<'a> Guests<'a> {
    /// Finds the guests' kernel. Setting `stop` ends every running guest. If `unconfined`, a guest may do to the host
    /// all that its caller may, on a host where nothing can confine it.
    pub fn new(
        charges: Charges,
        host_limit: Duration,
        stop: &'a AtomicBool,
        unconfined: bool,
    ) -> Result<Self, LabError> {
        let free = Mutex::new(crate::guest::processors().into_iter().collect());
        Ok(Self { kernel: Kernel::find()?, charges, host_limit, stop, unconfined, free })
    }
}

impl Machine for Guests<'_> {
    fn run(&self, job: &Job) -> Result<Ended, LabError> {
        let drive = |drive: &JobDrive| {
            let profile = policy::open(&drive.spec, drive.policy, drive.queue_depth)?;
            let start = drive.partition.start.unwrap_or(0);
            let fits =
                |size: &u64| start.checked_add(*size).is_some_and(|end| end <= profile.claims.capacity);
            let partition = Partition { size: drive.partition.size.filter(fits), ..drive.partition };
            Ok(GuestDrive { profile, partition, store: None })
        };
        let drives = job.drives.iter().map(drive).collect::<Result<_, LabError>>()?;
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let processor = free().pop_first();
        let guest_job = crate::guest::Job {
            task: Task { unconfined: self.unconfined, processor, ..job.task.clone() },
            drives,
            seed: job.seed,
            charges: self.charges,
            limits: Limits { host: self.host_limit, ..Limits::default() },
            ..crate::guest::Job::default()
        };
        let ended = crate::guest::run(&self.kernel, &guest_job, &|_, _| (), self.stop);
        free().extend(processor);
        let ended = ended?;
        Ok(Ended {
            status: ended.status,
            measures: ended.measures.into_iter().map(Into::into).collect(),
            output: ended.output,
            virtual_seconds: ended.guest.as_secs_f64(),
            wall_seconds: ended.host.as_secs_f64(),
            requests: ended.requests,
            counters: ended.counters,
            charges: self.charges.to_string(),
        })
    }
}
