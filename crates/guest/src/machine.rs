//! Runs the machine: starts the guest, answers its clock, and cleans up.

#![allow(unsafe_code, reason = "the guest is confined between fork and exec")]

use std::fs::File;
use std::io::PipeReader;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::CpuSet;
use straddle_io::Time;
use straddle_media::{Served, Store};

use crate::bay::Bay;
use crate::confine::{self, Confinement, Writable};
use crate::folder::{CLOCK, EVENTS, Folder};
use crate::host::{self, Kernel};
use crate::job::{Ended, GuestError, Job, Spent, Stream};
use crate::link::{self, Message};
use crate::output;

/// The arguments with which every guest's kernel is started. Guests that run in the host's time
/// (tests/guest/run) read the same file.
const ARGUMENTS: &str = include_str!("../init/arguments");
/// The interval at which the host's time limit and `stop` are checked while the guest is silent.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
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
    // A separate thread, because it is bound to a processor, and the guest's life to that of the thread.
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| {
            if let Some(processor) = job.processor {
                let mut set = CpuSet::new();
                set.set(processor);
                // Where that is not permitted, the guest runs on any processor that the host chooses.
                let _ = rustix::thread::sched_setaffinity(None, &set);
            }
            Machine::start(kernel, job)?.run(pass, stop)
        });
        guest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
    guest: Guest,
    started: Instant,
}

/// The guest's process and all processes that it has started. Dropping this ends them.
struct Guest {
    child: Child,
    /// The script's standard error.
    errors: Option<PipeReader>,
    ended: Option<ExitStatus>,
}

/// The course of the guest's time.
struct Course {
    at: Time,
    spent: Spent,
    cut: bool,
}

impl<'a> Machine<'a> {
    fn start(kernel: &Kernel, job: &'a Job) -> Result<Self, GuestError> {
        let folder = Folder::new(job)?;
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
                None => Store::memory(capacity).map_err(|error| GuestError::contents(number, error))?,
            };
            drives.push((folder.listen(&socket(number))?, Served::new(&drive.profile, store, None)));
        }
        let trace = job.trace.as_ref().map(|path| {
            File::create(path).map_err(GuestError::io(format!("writing the trace {}", path.display())))
        });
        let bay =
            Bay::new(drives, job.cut, trace.transpose()?).map_err(GuestError::io("writing the trace"))?;
        let clock = folder.listen(CLOCK)?;
        let started = Instant::now();
        let guest = Guest::boot(kernel, job, &folder)?;
        Ok(Self { job, folder, bay, clock, guest, started })
    }

    fn run(mut self, pass: &(dyn Fn(Stream, &[u8]) + Sync), stop: &AtomicBool) -> Result<Ended, GuestError> {
        let (output, errors, console) = self.guest.streams()?;
        // One thread reads each output, so the order of writes to the two depends on the host's scheduling.
        let (kept, kept_errors, console_kept) =
            (Mutex::new(Vec::new()), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let course = std::thread::scope(|scope| {
            scope.spawn(|| output::drain(output, &kept, false, |piece| pass(Stream::Output, piece)));
            scope.spawn(|| output::drain(errors, &kept_errors, false, |piece| pass(Stream::Error, piece)));
            scope.spawn(|| output::drain(console, &console_kept, true, |_| ()));
            let course = self.answer_until_end(stop);
            if course.as_ref().is_ok_and(|course| !course.cut) {
                self.guest.await_exit();
            }
            // The streams end when the last process has exited.
            self.guest.end();
            course
        })?;
        let text = |bytes: Mutex<Vec<u8>>| {
            String::from_utf8_lossy(&bytes.into_inner().unwrap_or_default()).into_owned()
        };
        let status = match self.folder.status() {
            Some(status) => status,
            None if course.cut => 0,
            None => return Err(host::diagnose(self.guest.how(), &text(console_kept))),
        };
        let ended = Ended {
            status,
            cut: course.cut,
            measures: self.folder.measures(),
            output: text(kept) + &text(kept_errors),
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
    fn answer_until_end(&mut self, stop: &AtomicBool) -> Result<Course, GuestError> {
        let failed = || GuestError::io("talking with the guest's clock");
        let exit = self.guest.exit_descriptor()?;
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

impl Guest {
    fn boot(kernel: &Kernel, job: &Job, folder: &Folder) -> Result<Self, GuestError> {
        let charges = job.charges;
        let phase = job.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LATEST_PHASE;
        let limit = u64::try_from(job.limits.guest.as_nanos()).unwrap_or(u64::MAX);
        let (library, library_descriptor) = host::clock_library()?;
        let mut command = Command::new(kernel.path());
        // The same name in every run and place, so that the stack has the same contents.
        command.arg0("linux.uml");
        // The arguments must be identical in every run: the kernel mixes them into its random numbers.
        command
            .arg(format!("mem={}K", job.memory >> 10))
            .args(ARGUMENTS.lines())
            .args((0..job.drives.len()).map(|drive| format!("virtio_uml.device={}:2", socket(drive))))
            .args(["lpj=50000000", "norandmaps"]);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", ".")
            .env("TMPDIR", ".")
            .env("LD_PRELOAD", library)
            // With lazy binding, the first call of a function would leave the current registers on the stack.
            .env("LD_BIND_NOW", "1")
            .env("STRADDLE_CLOCK", CLOCK)
            .env("STRADDLE_SEED", job.seed.to_string())
            .env("STRADDLE_PHASE", phase.to_string())
            .env("STRADDLE_LIMIT", limit.to_string())
            .env("STRADDLE_CHARGE_STOP", charges.stop.to_string())
            .env("STRADDLE_CHARGE_CLOCK", charges.clock.to_string())
            .env("STRADDLE_CHARGE_KICK", charges.kick.to_string())
            .env("STRADDLE_CHARGE_COMPUTE", charges.compute_percent.to_string());
        // A process group of its own: signals from the terminal go to us, and the whole group can be ended at
        // once. The guest writes the script's errors to its standard input, so that the script's two outputs
        // stay apart from each other and from the console.
        let (errors, input) = std::io::pipe().map_err(GuestError::io("making a pipe"))?;
        if !job.unconfined {
            let failed = || GuestError::io("preparing the guest's confinement");
            let writable = writable(job, folder).map_err(failed())?;
            let confinement =
                Confinement::new(folder.path(), &writable, library_descriptor).map_err(failed())?;
            // SAFETY: it only makes system calls, with what was prepared.
            unsafe { command.pre_exec(move || confinement.enter()) };
        }
        let child = command
            .current_dir(folder.path())
            .process_group(0)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.raw_os_error() {
                Some(confine::NOTHING) => GuestError::Host {
                    what: "this machine can confine the guest neither by namespaces nor by Landlock".into(),
                    fix: "--unconfined lets its root change whatever you may change here".into(),
                },
                _ => GuestError::io(format!("starting {}", kernel.path().display()))(error),
            })?;
        Ok(Self { child, errors: Some(errors), ended: None })
    }

    /// Returns the script's output and errors, and the console.
    fn streams(&mut self) -> Result<(ChildStdout, PipeReader, ChildStderr), GuestError> {
        let streams = (self.child.stdout.take(), self.errors.take(), self.child.stderr.take());
        let (Some(output), Some(errors), Some(console)) = streams else {
            return Err(GuestError::io("reading the guest's output")(std::io::ErrorKind::BrokenPipe.into()));
        };
        Ok((output, errors, console))
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Returns a descriptor that becomes readable when the guest's kernel has exited.
    fn exit_descriptor(&self) -> Result<OwnedFd, GuestError> {
        let pid = self.pid().ok_or(rustix::io::Errno::SRCH);
        let descriptor = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
        descriptor.map_err(|error| GuestError::io("watching the guest")(error.into()))
    }

    /// Gives a kernel that is about to exit time to do so, so that its exit status is known.
    fn await_exit(&self) {
        const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
        if let Ok(exit) = self.exit_descriptor() {
            let _ = poll(&mut [PollFd::new(&exit, PollFlags::IN)], Some(&PATIENCE));
        }
    }

    /// Ends all processes of the guest, and waits until its kernel is gone.
    fn end(&mut self) {
        if self.ended.is_some() {
            return;
        }
        // The kernel's process may be gone while some of its threads remain. It has not been waited for yet,
        // so its number cannot have been reused.
        if let Some(pid) = self.pid() {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        self.ended = self.child.wait().ok();
    }

    fn how(&self) -> String {
        match self.ended {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("its kernel exited with {code}"),
                (None, Some(9)) => {
                    "its kernel was killed, perhaps because this machine ran out of memory".into()
                }
                (None, Some(7)) => "this machine had no memory left for it".into(),
                (None, Some(signal)) => format!("its kernel was killed by signal {signal}"),
                (None, None) => "its kernel stopped".into(),
            },
            None => "its kernel is gone".into(),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns what the guest may write on the host: its folder, and what the job names.
fn writable(job: &Job, folder: &Folder) -> std::io::Result<Writable> {
    let mut folders = vec![folder.path().canonicalize()?];
    folders.extend(job.output.as_ref().map(std::fs::canonicalize).transpose()?);
    let files = job.events.iter().map(std::fs::canonicalize).collect::<Result<_, _>>()?;
    Ok(Writable { folders, files })
}

fn socket(drive: usize) -> String {
    format!("drive{drive}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{ARGUMENTS, writable};
    use crate::folder::Folder;
    use crate::job::tests::job;

    /// Landlock and mounts go by location, so every path is resolved. Nothing is writable that the job does
    /// not name.
    #[test]
    fn a_guest_may_write_its_folder_and_what_the_job_names() {
        let outside = tempfile::tempdir().unwrap();
        let real = outside.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("out")).unwrap();
        std::fs::write(real.join("events"), "").unwrap();
        for (link, to) in [("out-link", "out"), ("events-link", "events")] {
            symlink(real.join(to), real.join(link)).unwrap();
        }
        let mut job = job();
        job.input = Some(real.clone());
        let folder = Folder::new(&job).unwrap();
        let home = folder.path().canonicalize().unwrap();
        let alone = writable(&job, &folder).unwrap();
        assert_eq!((alone.folders, alone.files), (vec![home.clone()], vec![]));
        job.output = Some(real.join("out-link"));
        job.events = Some(real.join("events-link"));
        let named = writable(&job, &folder).unwrap();
        assert_eq!((named.folders, named.files), (vec![home, real.join("out")], vec![real.join("events")]));
        job.output = Some(real.join("missing"));
        assert!(writable(&job, &folder).is_err());
    }

    /// The kernel reads its arguments as words. tests/guest/run reads the same lines.
    #[test]
    fn each_line_of_the_arguments_is_a_word() {
        assert!(ARGUMENTS.lines().all(|line| !line.is_empty() && !line.contains(char::is_whitespace)));
    }
}
