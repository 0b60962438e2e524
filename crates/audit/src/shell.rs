//! Words of commands, quoted for a POSIX shell.

use std::path::Path;

/// Quotes a word if necessary.
pub(crate) use straddle_device::shown::quote;

/// The target's name as a command's operand.
pub(crate) fn operand(target: &str) -> String {
    straddle_device::shown::quote_path(Path::new(target))
}
