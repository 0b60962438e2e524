//! Runs a guest in the host's time, on drives that other processes serve.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use crate::guest::booted::{Guest, LOOK_EVERY, More, on_processor, socket};
use crate::guest::folder::{Folder, Setup};
use crate::guest::host::{self, Kernel, Library};
use crate::guest::job::{GuestError, HostedEnded, HostedJob, Stream};

/// Runs the job in a new guest. Output is passed on as it arrives. `stop` may be set at any time, from any
/// thread.
pub fn run_hosted(
    kernel: &Kernel,
    job: &HostedJob,
    pass: &(dyn Fn(Stream, &[u8]) + Sync),
    stop: &AtomicBool,
) -> Result<HostedEnded, GuestError> {
    on_processor(job.task.processor, || {
        let folder = Folder::new(&Setup::from(job))?;
        for (number, drive) in job.drives.iter().enumerate() {
            let failed = || GuestError::io(format!("finding the drive {}", drive.socket.display()));
            let server = drive.socket.canonicalize().map_err(failed())?;
            symlink(server, folder.path().join(socket(number))).map_err(failed())?;
        }
        let more = More { library: Library::RealTime, arguments: &[], environment: &[], files: &[] };
        let started = Instant::now();
        let guest = Guest::boot(kernel, &job.task, &folder, job.drives.len(), &more)?;
        let (ended, heard) = guest.heard(pass, |guest| until_end(guest, job, started, stop))?;
        match (folder.status(), ended) {
            (Some(status), _) => Ok(HostedEnded { status, results: folder.results() }),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(host::diagnose(heard.how, &heard.console)),
        }
    })
}

/// Waits until the guest's kernel has exited, its time is up, or it is to stop.
fn until_end(guest: &Guest, job: &HostedJob, started: Instant, stop: &AtomicBool) -> Result<(), GuestError> {
    let exit = guest.exit_descriptor()?;
    loop {
        let mut fds = [PollFd::new(&exit, PollFlags::IN)];
        match poll(&mut fds, Some(&LOOK_EVERY)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => (),
            Ok(_) => return Ok(()),
            Err(error) => return Err(GuestError::io("waiting for the guest")(error.into())),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(GuestError::Interrupted);
        }
        if started.elapsed() > job.limit {
            return Err(GuestError::Hung { limit: job.limit, whose: "the host's" });
        }
    }
}
