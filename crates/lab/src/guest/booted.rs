//! The guest's process: started, confined, heard, and ended with all that it has started.

#![allow(unsafe_code, reason = "the guest is confined between fork and exec")]

use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::CpuSet;

use crate::guest::confine::{self, Confinement, Writable};
use crate::guest::folder::Folder;
use crate::guest::host::{Kernel, Library};
use crate::guest::job::{GuestError, Stream, Task};

const ARGUMENTS: &str = include_str!("../../init/arguments");
/// At most this many bytes of a stream are kept. All of it is passed on.
const MOST_KEPT: usize = 4 << 20;

pub(crate) struct Guest {
    child: Child,
    errors: Option<PipeReader>,
    ended: Option<ExitStatus>,
}

pub(crate) struct More<'a> {
    pub(crate) library: &'static Library,
    pub(crate) arguments: &'a [&'a str],
    pub(crate) environment: &'a [(&'a str, String)],
    pub(crate) files: &'a [PathBuf],
}

pub(crate) struct Heard {
    /// The output that was kept: standard output followed by standard error.
    pub(crate) output: String,
    pub(crate) console: String,
    pub(crate) how: String,
}

/// Runs `guest` in a thread of its own, because the guest's life is bound to that of the thread that starts it.
pub(crate) fn on_processor<T: Send>(processor: Option<usize>, guest: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| {
            if let Some(processor) = processor {
                let mut set = CpuSet::new();
                set.set(processor);
                // Where that is not permitted, the guest runs on any processor that the host chooses.
                let _ = rustix::thread::sched_setaffinity(None, &set);
            }
            guest()
        });
        guest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Guest {
    /// Starts the guest. Its kernel's arguments and environment are those that every guest has, and `more`.
    pub(crate) fn boot(
        kernel: &Kernel,
        task: &Task,
        folder: &Folder,
        drives: usize,
        more: &More<'_>,
    ) -> Result<Self, GuestError> {
        let (library, library_descriptor) = more.library.file()?;
        let mut command = Command::new(&kernel.path);
        // The same in every run: the name is on the stack, and the kernel mixes the arguments into its random
        // numbers.
        command
            .arg0("linux.uml")
            .arg(format!("mem={}K", task.memory >> 10))
            .args(ARGUMENTS.lines())
            .args((0..drives).map(|drive| format!("virtio_uml.device={}:2", socket(drive))))
            .args(more.arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", ".")
            .env("TMPDIR", ".")
            .env("LD_PRELOAD", library)
            // With lazy binding, the first call of a function would leave the current registers on the stack.
            .env("LD_BIND_NOW", "1")
            .envs(more.environment.iter().map(|(name, value)| (name, value)));
        // The guest writes the script's errors to its standard input, apart from its output and the console.
        let (errors, input) = std::io::pipe().map_err(GuestError::io("cannot make a pipe"))?;
        if !task.unconfined {
            let failed = || GuestError::io("cannot prepare the confinement of the guest");
            let writable = writable(task, more.files, folder).map_err(failed())?;
            let mut confinement =
                Confinement::new(folder.path(), &writable, library_descriptor).map_err(failed())?;
            // SAFETY: it only makes system calls, with what was prepared.
            unsafe { command.pre_exec(move || confinement.enter()) };
        }
        let child = command
            .current_dir(folder.path())
            // Of its own, so that signals from the terminal go to us, and all of it can be ended at once.
            .process_group(0)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.raw_os_error() {
                Some(confine::NOTHING) => GuestError::Host {
                    what: "this machine can confine the guest neither by namespaces nor by Landlock".into(),
                    fix: "without confinement (--unconfined), the guest's root can change everything that \
                          you can change here"
                        .into(),
                },
                _ => GuestError::io(format!("cannot start {}", kernel.path.display()))(error),
            })?;
        Ok(Self { child, errors: Some(errors), ended: None })
    }

    /// Passes the script's outputs on while `attend` runs, and then until the guest's last process is gone.
    pub(crate) fn heard<T>(
        mut self,
        pass: &(dyn Fn(Stream, &[u8]) + Sync),
        attend: impl FnOnce(&Self) -> T,
    ) -> Result<(T, Heard), GuestError> {
        let streams = (self.child.stdout.take(), self.errors.take(), self.child.stderr.take());
        let (Some(output), Some(errors), Some(console)) = streams else {
            return Err(GuestError::io("cannot read the output of the guest")(
                std::io::ErrorKind::BrokenPipe.into(),
            ));
        };
        // One thread reads each output, so the order of writes to the two depends on the host's scheduling.
        let (attended, [output, errors, console]) = std::thread::scope(|scope| {
            let output = scope.spawn(|| drain(output, false, |piece| pass(Stream::Output, piece)));
            let errors = scope.spawn(|| drain(errors, false, |piece| pass(Stream::Error, piece)));
            let console = scope.spawn(|| drain(console, true, |_| ()));
            let attended = attend(&self);
            // The streams end when the last process has exited.
            self.end();
            let kept = [output, errors, console]
                .map(|kept| kept.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            (attended, kept)
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (output, console) = (text(&output) + &text(&errors), text(&console));
        Ok((attended, Heard { output, console, how: self.how() }))
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Returns a descriptor that becomes readable when the guest's kernel has exited.
    pub(crate) fn exit_descriptor(&self) -> Result<OwnedFd, GuestError> {
        let pid = self.pid().ok_or(rustix::io::Errno::SRCH);
        let descriptor = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
        descriptor.map_err(|error| GuestError::io("cannot watch the guest")(error.into()))
    }

    /// Gives a kernel that is about to exit time to do so, so that its exit status is known.
    pub(crate) fn await_exit(&self) {
        const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
        if let Ok(exit) = self.exit_descriptor() {
            let _ = poll(&mut [PollFd::new(&exit, PollFlags::IN)], Some(&PATIENCE));
        }
    }

    fn end(&mut self) {
        if self.ended.is_some() {
            return;
        }
        // The kernel's process may be gone while some of its threads remain. It has not been waited for, so its
        // number cannot have been reused.
        if let Some(pid) = self.pid() {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        self.ended = self.child.wait().ok();
    }

    fn how(&self) -> String {
        let Some(status) = self.ended else { return "its kernel has ended".into() };
        match (status.code(), status.signal()) {
            (Some(code), _) => format!("its kernel exited with {code}"),
            (None, Some(9)) => "its kernel was killed, perhaps because this machine ran out of memory".into(),
            (None, Some(7)) => "this machine had no memory left for the guest".into(),
            (None, Some(signal)) => format!("its kernel was killed by signal {signal}"),
            (None, None) => "its kernel stopped".into(),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns what the guest may write on the host: its folder, the task's output, and the files named.
fn writable(task: &Task, files: &[PathBuf], folder: &Folder) -> std::io::Result<Writable> {
    let mut folders = vec![folder.path().canonicalize()?];
    folders.extend(task.output.as_ref().map(std::fs::canonicalize).transpose()?);
    let files = files.iter().map(std::fs::canonicalize).collect::<Result<_, _>>()?;
    Ok(Writable { folders, files })
}

/// Passes each piece to `pass` at once. Returns the end of the stream if `keep_end`, otherwise the start.
fn drain(mut from: impl Read, keep_end: bool, mut pass: impl FnMut(&[u8])) -> Vec<u8> {
    let (mut buffer, mut kept) = (vec![0; 64 << 10], Vec::new());
    loop {
        let piece = match from.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return kept,
            Ok(length) => &buffer[..length],
        };
        pass(piece);
        if keep_end || kept.len() < MOST_KEPT {
            kept.extend_from_slice(piece);
        }
        if keep_end && kept.len() > 2 * MOST_KEPT {
            kept.drain(..kept.len() - MOST_KEPT);
        }
    }
}

pub(crate) fn socket(drive: usize) -> String {
    format!("drive{drive}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{ARGUMENTS, MOST_KEPT, drain, writable};
    use crate::guest::folder::{Folder, Setup};
    use crate::guest::job::tests::job;

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
        job.task.input = Some(real.clone());
        let folder = Folder::new(&Setup::from(&job)).unwrap();
        let home = folder.path().canonicalize().unwrap();
        let mut files = Vec::new();
        let alone = writable(&job.task, &files, &folder).unwrap();
        assert_eq!((alone.folders, alone.files), (vec![home.clone()], vec![]));
        job.task.output = Some(real.join("out-link"));
        files.push(real.join("events-link"));
        let named = writable(&job.task, &files, &folder).unwrap();
        assert_eq!((named.folders, named.files), (vec![home, real.join("out")], vec![real.join("events")]));
        job.task.output = Some(real.join("missing"));
        assert!(writable(&job.task, &files, &folder).is_err());
    }

    /// The kernel reads its arguments as words.
    #[test]
    fn each_line_of_the_arguments_is_a_word() {
        assert!(ARGUMENTS.lines().all(|line| !line.is_empty() && !line.contains(char::is_whitespace)));
    }

    fn kept(stream: &[u8], keep_end: bool) -> Vec<u8> {
        let mut passed = Vec::new();
        let kept = drain(stream, keep_end, |piece| passed.extend_from_slice(piece));
        assert!(passed == stream, "all of it is passed on");
        kept
    }

    #[test]
    fn of_a_long_stream_the_start_or_the_end_is_kept() {
        let long: Vec<u8> = (0..5 * MOST_KEPT).map(|at| at.to_le_bytes()[2]).collect();
        let (start, end) = (kept(&long, false), kept(&long, true));
        assert!(long.starts_with(&start) && (MOST_KEPT..2 * MOST_KEPT).contains(&start.len()));
        assert!(long.ends_with(&end) && (MOST_KEPT..=2 * MOST_KEPT).contains(&end.len()));
        assert_eq!((kept(b"short", false), kept(b"short", true)), (b"short".to_vec(), b"short".to_vec()));
    }
}
