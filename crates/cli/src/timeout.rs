//! Work that may never end: a device that does not answer blocks whatever reads from it.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Whether `path` is a block device.
pub(crate) fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Work on a thread of its own. If it does not end in time, the thread is abandoned and ends with the
/// process.
pub(crate) struct Pending<T> {
    answer: Option<Receiver<T>>,
    until: Instant,
}

impl<T: Send + 'static> Pending<T> {
    /// Starts `work`, which may take `limit` from now on.
    pub(crate) fn start(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        // Sending fails if the result comes too late; that is ignored.
        let started = thread::Builder::new().spawn(move || drop(sender.send(work())));
        Self { answer: started.is_ok().then_some(receiver), until: Instant::now() + limit }
    }

    /// Returns the result; `None` if there is none in time.
    pub(crate) fn wait(self) -> Option<T> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.answer?.recv_timeout(left).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let (keep, held) = mpsc::channel::<()>();
        let stuck = Pending::start(Duration::from_millis(1), move || held.recv().is_ok());
        let done = Pending::start(Duration::from_secs(3600), || 7);
        assert_eq!((stuck.wait(), done.wait()), (None, Some(7)));
        drop(keep);
        // Work that panics is not waited for either.
        let broken: Pending<u8> =
            Pending::start(Duration::from_secs(3600), || std::panic::resume_unwind(Box::new(0)));
        assert_eq!(broken.wait(), None);
    }
}
