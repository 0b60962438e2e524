//! Warns of a file that has to outlast a power failure and would not.

use std::path::Path;

use straddle_device::durability::{Durability, at_risk};

use crate::output;

/// What a file is needed for after a power failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needed {
    /// The backup of a table.
    Backup,
    /// The table that `resume --restore-table` overwrites.
    SavedTable,
    /// The journal of a move.
    MoveJournal,
    /// The folder of the journals of measurements.
    Journals,
}

/// Warns if a power failure may take `file` and leave `target`.
pub(crate) fn warn(needed: Needed, file: &Path, target: &Path) {
    let (what, instead) = match needed {
        Needed::Backup => ("backup", "a file on a disk with --backup"),
        Needed::SavedTable => ("backup", "a file on a disk with --restore-table"),
        Needed::MoveJournal => ("journal", "a file on a disk with --journal"),
        Needed::Journals => ("journal", "a folder on a disk with --journals"),
    };
    let where_to = match at_risk(file, target) {
        None | Some(Durability::Durable) => return,
        Some(Durability::InMemory(kind)) => format!("would be in memory only ({kind})"),
        Some(Durability::Unknown(why)) => format!("may be in memory only ({why})"),
    };
    output::complain(&format!(
        "warning: {}: the {what} {where_to}, and lost in a power failure or a restart: name {instead}",
        file.display()
    ));
}
