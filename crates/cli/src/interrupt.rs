//! Ctrl-C and its like.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sets `stop` on the first Ctrl-C, SIGTERM or SIGHUP; a second one ends this process at once. If SIGHUP is
/// ignored (nohup), it stays ignored.
pub(crate) fn on_interrupt(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in straddle_serve::signals::ending() {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}
