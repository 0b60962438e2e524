//! Runs the machine in virtual time: starts the guest, answers its clock, and cleans up.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::media::{Served, Store};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::CpuSet;
use straddle_units::io::Time;

use crate::guest::bay::Bay;
use crate::guest::booted::{Guest, LOOK_EVERY, More, on_processor, socket};
use crate::guest::folder::{CLOCK, EVENTS, Folder, Setup};
use crate::guest::host::{self, Kernel, Library};
use crate::guest::job::{Ended, GuestError, Job, Spent, Stream, Watching};
use crate::guest::link::{self, Message};

/// The latest time of power-on that the seed may choose, in nanoseconds: a few revolutions of any disk.
const LATEST_PHASE: u64 = 50_000_000;

/// Runs the job in a new guest. Output is passed on as it arrives. `stop` may be set at any time, from any
/// thread.
pub fn run(
    kernel: &Kernel,
    job: &Job,
    pass: &(dyn Fn(Stream, &[u8]) + Sync),
    stop: &AtomicBool,
) -> Result<Ended, GuestError> {
    on_processor(job.task.processor, || {
        let (machine, guest) = Machine::start(kernel, job)?;
        machine.run(guest, pass, stop)
    })
}

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

struct Machine<'a> {
    job: &'a Job,
    folder: Folder,
    bay: Bay,
    clock: UnixListener,
    started: Instant,
}

/// The course of the guest's time.
struct Course {
    at: Time,
    spent: Spent,
    cut: bool,
}

impl<'a> Machine<'a> {
    fn start(kernel: &Kernel, job: &'a Job) -> Result<(Self, Guest), GuestError> {
        let folder = Folder::new(&Setup::from(job))?;
        if let Some(path) = &job.events {
            let failed = || GuestError::io(format!("writing the events {}", path.display()));
            File::create(path).map_err(failed())?;
            std::os::unix::fs::symlink(path, folder.path().join(EVENTS)).map_err(failed())?;
        }
        let mut drives = Vec::new();
        for (number, drive) in job.drives.iter().enumerate() {
            let capacity = drive.profile.claims.capacity;
            let store = match &drive.store {
                Some(path) => {
                    Store::file(path, capacity).map_err(|error| GuestError::contents(number, error))?
                }
                None => Store::memory(capacity),
            };
            let mut served = Served::new(&drive.profile, store, None);
            if let Some(Watching(watching)) = &job.watching {
                served.watch(watching(number));
            }
            drives.push((folder.listen(&socket(number))?, served));
        }
        let trace = job.trace.as_ref().map(|path| {
            File::create(path).map_err(GuestError::io(format!("writing the trace {}", path.display())))
        });
        let bay =
            Bay::new(drives, job.cut, trace.transpose()?).map_err(GuestError::io("writing the trace"))?;
        let clock = folder.listen(CLOCK)?;
        let started = Instant::now();
        let guest = boot(kernel, job, &folder)?;
        Ok((Self { job, folder, bay, clock, started }, guest))
    }

    fn run(
        mut self,
        guest: Guest,
        pass: &(dyn Fn(Stream, &[u8]) + Sync),
        stop: &AtomicBool,
    ) -> Result<Ended, GuestError> {
        let (course, heard) = guest.heard(pass, |guest| {
            let course = self.answer_until_end(guest, stop);
            if course.as_ref().is_ok_and(|course| !course.cut) {
                guest.await_exit();
            }
            course
        })?;
        let course = course?;
        let status = match self.folder.status() {
            Some(status) => status,
            None if course.cut => 0,
            None => return Err(host::diagnose(heard.how, &heard.console)),
        };
        let ended = Ended {
            status,
            cut: course.cut,
            measures: self.folder.measures(),
            output: heard.output,
            guest: Duration::from_nanos(course.at.get()),
            host: self.started.elapsed(),
            requests: self.bay.requests,
            fingerprint: self.bay.fingerprint,
            counters: self.bay.counters(),
            spent: course.spent,
        };
        self.bay.finish()?;
        Ok(ended)
    }

    /// Answers the clock and the guest's drivers until the guest ends.
    fn answer_until_end(&mut self, guest: &Guest, stop: &AtomicBool) -> Result<Course, GuestError> {
        let failed = || GuestError::io("talking with the guest's clock");
        let exit = guest.exit_descriptor()?;
        let mut clock: Option<UnixStream> = None;
        let mut course = Course { at: Time::ZERO, spent: Spent::default(), cut: false };
        loop {
            let ready = self.wait(clock.as_ref(), &exit)?;
            if stop.load(Ordering::Relaxed) {
                return Err(GuestError::Interrupted);
            }
            self.check_limits(course.at)?;
            // The clock comes first, because all but the start-up happens there.
            if ready.clock {
                match &mut clock {
                    None => clock = Some(self.clock.accept().map_err(failed())?.0),
                    Some(stream) => match link::receive(stream).map_err(failed())? {
                        Some(message) => {
                            if !self.answer(stream, message, &mut course)? {
                                return Ok(course);
                            }
                        }
                        None => return Ok(course),
                    },
                }
            }
            for drive in ready.drives {
                self.bay.receive(drive)?;
            }
            if ready.exit && !ready.clock {
                return Ok(course);
            }
        }
    }

    /// Handles a message of the clock. Returns false where the power was cut or the guest is gone.
    fn answer(
        &mut self,
        stream: &mut UnixStream,
        message: Message,
        course: &mut Course,
    ) -> Result<bool, GuestError> {
        let answer = match message {
            Message::Kick(at) => self.bay.kick(at)?,
            Message::Advance(at) => self.bay.advance(at)?,
            Message::Wait(until) => self.bay.wait(until)?,
            Message::Report(at, spent) => {
                course.at = at;
                course.spent = spent;
                return Ok(true);
            }
        };
        course.at = answer.now;
        if self.bay.is_cut() {
            course.cut = true;
            return Ok(false);
        }
        match link::answer(stream, answer) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            result => result.map(|()| true).map_err(GuestError::io("answering the guest's clock")),
        }
    }

    fn wait(&self, clock: Option<&UnixStream>, exit: &OwnedFd) -> Result<Ready, GuestError> {
        let first = clock.map_or_else(|| self.clock.as_fd(), AsFd::as_fd);
        let mut fds: Vec<PollFd<'_>> = [first, exit.as_fd()]
            .into_iter()
            .chain(self.bay.descriptors())
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&LOOK_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => (),
            Err(error) => return Err(GuestError::io("waiting for the guest")(error.into())),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let drives = fds[2..].iter().enumerate().filter(|(_, fd)| is_ready(fd)).map(|(drive, _)| drive);
        Ok(Ready { clock: is_ready(&fds[0]), exit: is_ready(&fds[1]), drives: drives.collect() })
    }

    fn check_limits(&self, now: Time) -> Result<(), GuestError> {
        let limits = self.job.limits;
        if Duration::from_nanos(now.get()) > limits.guest {
            return Err(GuestError::Hung { limit: limits.guest, whose: "its own" });
        }
        if self.started.elapsed() > limits.host {
            return Err(GuestError::Hung { limit: limits.host, whose: "the host's" });
        }
        Ok(())
    }
}

struct Ready {
    clock: bool,
    exit: bool,
    drives: Vec<usize>,
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
        library: Library::Clock,
        arguments: &["lpj=50000000", "norandmaps"],
        environment: &environment,
        files: job.events.as_slice(),
    };
    Guest::boot(kernel, &job.task, folder, job.drives.len(), &more)
}
