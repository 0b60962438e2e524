//! Which signals end a run.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

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
