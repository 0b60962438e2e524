//! Runs a guest: in virtual time on modelled drives, or in the host's time on drives that other processes serve.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::CpuSet;
use straddle_units::io::Time;

use crate::guest::bay::Bay;
use crate::guest::booted::{Guest, More, on_processor, socket};
use crate::guest::folder::{CLOCK, EVENTS, Folder, Setup};
use crate::guest::host::{self, CLOCK_LIBRARY, Kernel, REAL_TIME_LIBRARY};
use crate::guest::job::{Ended, GuestError, HostedEnded, HostedJob, Job, Spent, Stream};
use crate::guest::link::{self, Message};
use crate::media::{Served, Store};

/// The latest time of power-on that the seed may choose, in nanoseconds: a few revolutions of any disk.
const LATEST_PHASE: u64 = 50_000_000;
/// The interval at which the host's time limit and `stop` are checked while the guest is silent.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Returns the memory of this machine in bytes.
pub fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// Returns the processors that this process may use.
pub fn processors() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect()
}

/// Runs the job in a new guest. Output is passed on as it arrives. `stop` may be set at any time, by any thread.
pub fn run(
    kernel: &Kernel,
    job: &Job,
    pass: &(dyn Fn(Stream, &[u8]) + Sync),
    stop: &AtomicBool,
) -> Result<Ended, GuestError> {
    on_processor(job.task.processor, || {
        let folder = Folder::new(&Setup::from(job))?;
        if let Some(path) = &job.events {
            let failed = || GuestError::io(format!("cannot write the events to {}", path.display()));
            File::create(path).map_err(failed())?;
            symlink(path, folder.path().join(EVENTS)).map_err(failed())?;
        }
        let bay = bay(job, &folder)?;
        let (clock, started) = (folder.listen(CLOCK)?, Instant::now());
        let guest = boot(kernel, job, &folder)?;
        let mut machine = Machine { job, bay, clock, started, at: Time::ZERO, spent: Spent::default() };
        let (ended, heard) = guest.heard(pass, |guest| {
            let ended = machine.answer_until_end(guest, stop);
            if ended.is_ok() && !machine.bay.is_cut {
                guest.await_exit();
            }
            ended
        })?;
        ended?;
        let Machine { bay, at, spent, .. } = machine;
        let status = match folder.status() {
            Some(status) => status,
            None if bay.is_cut => 0,
            None => return Err(host::diagnose(heard.how, &heard.console)),
        };
        let ended = Ended {
            status,
            cut: bay.is_cut,
            measures: folder.measures(),
            output: heard.output,
            guest: Duration::from_nanos(at.get()),
            host: started.elapsed(),
            requests: bay.requests,
            fingerprint: bay.fingerprint,
            counters: bay.counters(),
            spent,
        };
        bay.finish()?;
        Ok(ended)
    })
}

/// As [`run`], in the host's time.
pub fn run_hosted(
    kernel: &Kernel,
    job: &HostedJob,
    pass: &(dyn Fn(Stream, &[u8]) + Sync),
    stop: &AtomicBool,
) -> Result<HostedEnded, GuestError> {
    on_processor(job.task.processor, || {
        let folder = Folder::new(&Setup::from(job))?;
        for (number, drive) in job.drives.iter().enumerate() {
            let failed = || GuestError::io(format!("cannot find the drive {}", drive.socket.display()));
            let server = drive.socket.canonicalize().map_err(failed())?;
            symlink(server, folder.path().join(socket(number))).map_err(failed())?;
        }
        let more = More { library: &REAL_TIME_LIBRARY, arguments: &[], environment: &[], files: &[] };
        let started = Instant::now();
        let guest = Guest::boot(kernel, &job.task, &folder, job.drives.len(), &more)?;
        let (ended, heard) = guest.heard(pass, |guest| {
            let exit = guest.exit_descriptor()?;
            while !ready([exit.as_fd()].into_iter())?[0] {
                if stop.load(Ordering::Relaxed) {
                    return Err(GuestError::Interrupted);
                }
                check_host_limit(started, job.limit)?;
            }
            Ok(())
        })?;
        match (folder.status(), ended) {
            (Some(status), _) => Ok(HostedEnded { status, results: folder.results() }),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(host::diagnose(heard.how, &heard.console)),
        }
    })
}

/// Waits until one of the descriptors is ready, or for a moment. Returns which are.
fn ready<'a>(descriptors: impl Iterator<Item = BorrowedFd<'a>>) -> Result<Vec<bool>, GuestError> {
    let mut fds: Vec<PollFd<'_>> =
        descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut fds, Some(&LOOK_EVERY)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(error) => Err(GuestError::io("cannot wait for the guest")(error.into())),
    }
}

fn check_host_limit(started: Instant, limit: Duration) -> Result<(), GuestError> {
    let is_over = started.elapsed() > limit;
    if is_over { Err(GuestError::Hung { limit, whose: "the host's" }) } else { Ok(()) }
}

fn bay(job: &Job, folder: &Folder) -> Result<Bay, GuestError> {
    let mut drives = Vec::new();
    for (number, drive) in job.drives.iter().enumerate() {
        let capacity = drive.profile.claims.capacity;
        let store = match &drive.store {
            Some(path) => Store::file(path, capacity).map_err(|error| GuestError::contents(number, error))?,
            None => Store::memory(capacity).map_err(|error| GuestError::contents(number, error))?,
        };
        let mut served = Served::new(&drive.profile, store, None);
        if let Some(watching) = &job.watching {
            served.watch(watching(number));
        }
        drives.push((folder.listen(&socket(number))?, served));
    }
    Ok(Bay::new(drives, job.cut))
}

fn boot(kernel: &Kernel, job: &Job, folder: &Folder) -> Result<Guest, GuestError> {
    let charges = job.charges;
    let phase = job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LATEST_PHASE;
    let limit = u64::try_from(job.limits.guest.as_nanos()).unwrap_or(u64::MAX);
    let environment = [
        ("STRADDLE_CLOCK", CLOCK.to_owned()),
        ("STRADDLE_SEED", job.seed.to_string()),
        ("STRADDLE_PHASE", phase.to_string()),
        ("STRADDLE_LIMIT", limit.to_string()),
        ("STRADDLE_CHARGE_STOP", charges.stop.to_string()),
        ("STRADDLE_CHARGE_CLOCK", charges.clock.to_string()),
        ("STRADDLE_CHARGE_KICK", charges.kick.to_string()),
        ("STRADDLE_CHARGE_COMPUTE", charges.compute_percent.to_string()),
    ];
    let more = More {
        library: &CLOCK_LIBRARY,
        arguments: &["lpj=50000000", "norandmaps"],
        environment: &environment,
        files: job.events.as_slice(),
    };
    Guest::boot(kernel, &job.task, folder, job.drives.len(), &more)
}

struct Machine<'a> {
    job: &'a Job,
    bay: Bay,
    clock: UnixListener,
    started: Instant,
    at: Time,
    spent: Spent,
}

impl Machine<'_> {
    fn answer_until_end(&mut self, guest: &Guest, stop: &AtomicBool) -> Result<(), GuestError> {
        let failed = || GuestError::io("cannot communicate with the clock of the guest");
        let exit = guest.exit_descriptor()?;
        let mut clock: Option<UnixStream> = None;
        loop {
            let first = clock.as_ref().map_or_else(|| self.clock.as_fd(), AsFd::as_fd);
            let ready = ready([first, exit.as_fd()].into_iter().chain(self.bay.descriptors()))?;
            let (has_clock, has_exited) = (ready[0], ready[1]);
            if stop.load(Ordering::Relaxed) {
                return Err(GuestError::Interrupted);
            }
            let limits = self.job.limits;
            if Duration::from_nanos(self.at.get()) > limits.guest {
                return Err(GuestError::Hung { limit: limits.guest, whose: "its own" });
            }
            check_host_limit(self.started, limits.host)?;
            // The clock comes first, because all but the start-up happens there.
            match &mut clock {
                _ if !has_clock => {}
                None => clock = Some(self.clock.accept().map_err(failed())?.0),
                Some(stream) => match link::receive(stream).map_err(failed())? {
                    Some(message) if self.answer(stream, message)? => {}
                    _ => return Ok(()),
                },
            }
            for drive in 0..ready.len() - 2 {
                if ready[drive + 2] {
                    self.bay.receive(drive)?;
                }
            }
            if has_exited && !has_clock {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, stream: &mut UnixStream, message: Message) -> Result<bool, GuestError> {
        let answer = match message {
            Message::Kick(at) => self.bay.kick(at)?,
            Message::Advance(at) => self.bay.advance(at)?,
            Message::Wait(until) => self.bay.wait(until)?,
            Message::Report(at, spent) => {
                (self.at, self.spent) = (at, spent);
                return Ok(true);
            }
        };
        self.at = answer.now;
        if self.bay.is_cut {
            return Ok(false);
        }
        match link::answer(stream, answer) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            result => result.map(|()| true).map_err(GuestError::io("cannot answer the clock of the guest")),
        }
    }
}
