//! A note on an unfinished move, for commands that pass a disk on to others.

use std::path::Path;

use straddle_audit::MoveJournal;

use crate::output::{self, printable, quote_path};

/// Says on stderr that the partitions of the disk at `path` are being moved, if they are.
pub(crate) fn note(path: &Path) {
    found(path).iter().for_each(|note| output::complain(note));
}

/// Returns the note. A command that locks the file asks before that, as this opens it.
pub(crate) fn found(path: &Path) -> Option<String> {
    let found = straddle_examine::unfinished(path)?;
    let name = printable(&path.display().to_string());
    let operand = quote_path(path);
    Some(match found.journal {
        MoveJournal::Copy => format!(
            "{name}: an unfinished copy to it: straddle apply PLAN --from SOURCE --write {operand} completes it"
        ),
        MoveJournal::Displaced { .. } => format!(
            "{name}: an unfinished move of its partitions, whose marker another program has removed: straddle resume {operand} --restore-table FILE saves \
             the table to FILE and goes on"
        ),
        _ => format!(
            "{name}: an unfinished move of its partitions: straddle resume {operand} goes on, and with --rollback goes back"
        ),
    })
}
