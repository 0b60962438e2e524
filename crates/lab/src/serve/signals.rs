//! The signals that end the server.

use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::{SigId, low_level};

/// The signals that end the server, as bytes of a pipe.
pub(crate) struct Signals {
    pub(crate) pipe: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    pub(crate) fn watch(ending: &[i32]) -> io::Result<Self> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let mut signals = Self { pipe, ids: Vec::new() };
        for signal in ending {
            signals.ids.push(low_level::pipe::register(*signal, sender.try_clone()?)?);
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
