//! Which signals end a run.

use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, low_level};

/// Returns SIGINT and SIGTERM, and SIGHUP unless this process was started with it ignored, as by nohup(1).
pub fn ending() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        signals.push(SIGHUP);
    }
    signals
}

/// The signals that end the server, as bytes of a pipe.
pub(crate) struct Signals {
    pub(crate) pipe: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    pub(crate) fn watch() -> io::Result<Self> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let mut signals = Self { pipe, ids: Vec::new() };
        for signal in ending() {
            signals.ids.push(low_level::pipe::register(signal, sender.try_clone()?)?);
        }
        Ok(signals)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Reads the mask SigIgn in /proc/self/status, whose lowest bit is signal 1, SIGHUP.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
