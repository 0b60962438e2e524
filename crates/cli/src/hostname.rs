//! The name of this machine, in audits of all its disks and in what is made here.

use crate::args::CheckArguments;

/// Names that many machines have.
const COMMON: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// Returns the name of this machine if the run audits all its disks, and it has a name of its own.
pub(crate) fn audited(arguments: &CheckArguments) -> Option<String> {
    arguments.is_of_this_machine().then(own).flatten()
}

/// Returns the name of this machine, if it has one of its own.
pub(crate) fn own() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !COMMON.contains(&name.as_str()))
}
