//! Words of commands, as a POSIX shell takes them.

use std::path::Path;

/// Quotes a word where it needs it.
pub(crate) use straddle_device::shown::quote;

/// The target as an operand.
pub(crate) fn operand(target: &str) -> String {
    straddle_device::shown::quote_path(Path::new(target))
}
