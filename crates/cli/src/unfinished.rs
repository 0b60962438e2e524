//! A note on an unfinished move, for commands that pass a disk on to others.

use std::path::Path;

use straddle_audit::MoveJournal;

use crate::output::{self, printable, quote_path};

/// Says on stderr that the partitions of the disk at `path` are being moved, if they are.
pub(crate) fn note(path: &Path) {
    let Some(found) = straddle_examine::unfinished(path) else { return };
    let name = printable(&path.display().to_string());
    let operand = quote_path(path);
    output::complain(&match found.journal {
        MoveJournal::Copy => format!(
            "{name}: an unfinished copy to it: straddle apply PLAN --from SOURCE --write {operand} completes it"
        ),
        _ => format!(
            "{name}: an unfinished move of its partitions: straddle resume {operand} goes on, and with --rollback goes back"
        ),
    });
}
