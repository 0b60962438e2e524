//! Ctrl-C and its like.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Sets `stop` on the first Ctrl-C, SIGTERM or SIGHUP; a second one ends this process at once. If SIGHUP is
/// ignored (nohup), it stays ignored.
pub fn on_interrupt(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in ending() {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Returns SIGINT and SIGTERM, and SIGHUP unless this process was started with it ignored, as by nohup(1).
pub fn ending() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        signals.push(SIGHUP);
    }
    signals
}

/// Reads the mask SigIgn in /proc/self/status, whose lowest bit is signal 1, SIGHUP.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
