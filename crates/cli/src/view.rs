//! Results in the forms that people and programs read. Of a command whose result is shown in one way, its file has it.
//!
//! Invariants: it describes a complete result. It measures nothing, decides nothing, and knows no arguments. The
//! commands decide what is printed where.

pub mod chart;
pub mod html;
pub mod json;
pub(crate) mod report;
pub(crate) mod svg;
pub mod text;

use std::time::SystemTime;

use straddle_device::shown::{is_hidden, quote};
use straddle_measure::real::format_moment;

use crate::commands::check::CheckArguments;

/// Says which version made a page or drawing, on which host, when, and by which command.
pub(crate) fn made() -> String {
    let words = std::env::args_os().skip(1).map(|word| quote(&word.to_string_lossy()));
    let command = ["straddle".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    let host = host_name().map(|host| format!(" on {host}")).unwrap_or_default();
    let (version, now) = (env!("CARGO_PKG_VERSION"), format_moment(SystemTime::now()));
    format!("Made by straddle {version}{host}, {now}: {command}")
}

/// Escapes `text` for markup. Hidden characters, line breaks included, become blanks: most of them are not allowed in
/// XML 1.0, even as a reference.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            hidden if is_hidden(hidden) => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

const COMMON: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// Returns the name of this machine if the run audits all its disks, and it has a name of its own.
pub(crate) fn audited_host(arguments: &CheckArguments) -> Option<String> {
    arguments.is_of_this_machine().then(host_name).flatten()
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !COMMON.contains(&name.as_str()))
}
