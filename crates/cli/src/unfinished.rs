//! A note on an unfinished move, for commands that pass a disk on to others.

use std::path::Path;

use crate::output::{self, printable, quote_path};

/// Says on stderr that the partitions of the disk at `path` are being moved, if they are.
pub fn note(path: &Path) {
    found(path).iter().for_each(|note| output::complain(note));
}

/// Returns the note. A command that locks the file asks before that, as this opens it.
pub(crate) fn found(path: &Path) -> Option<String> {
    let note = straddle_repair::moves::unfinished(path).ok()??.journal.note(&quote_path(path));
    Some(format!("{}: {note}", printable(&path.display().to_string())))
}
