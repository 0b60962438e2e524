//! What the kernel reports about a process.

use std::fs;

/// Ticks per second in /proc/PID/stat (`USER_HZ`).
pub(crate) const TICKS: u64 = 100;

/// The processor time that a process has used, in ticks; zero once it has ended.
pub(crate) fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain blanks; the times are the 14th and 15th fields.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
