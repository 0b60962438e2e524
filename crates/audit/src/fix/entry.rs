//! The new form of a partition's entry, and the command that makes the change.
//!
//! Invariants: the command changes where the entry points, and nothing else that a system uses.

use straddle_layout::Partition;
use straddle_units::{Lba, LbaCount};

use crate::Context;
use crate::finding::Command;
use crate::shell::operand;

/// The new form of a partition's entry.
pub(super) struct Entry<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) partition: &'a Partition,
    pub(super) start: Lba,
    pub(super) count: LbaCount,
}

impl Entry<'_> {
    fn operand(&self) -> String {
        operand(self.context.target)
    }

    /// The sector size to pass on the command line: needed for an image, as no device reports it.
    fn explicit_sector_size(&self) -> Option<u64> {
        super::explicit_sector_size(self.context)
    }

    /// The sfdisk command, which changes the entry's place and preserves everything else.
    pub(super) fn sfdisk(&self) -> Command {
        Command::of_table("sfdisk", self.sfdisk_line(&format!("start={}, size={}", self.start, self.count)))
    }

    /// The sfdisk command that changes the entry's size and preserves everything else, including the start,
    /// wherever it is. Pasting the line a second time therefore does not restore a former start.
    pub(super) fn sfdisk_size(&self) -> Command {
        Command::of_table("sfdisk", self.sfdisk_line(&format!("size={}", self.count)))
    }

    fn sfdisk_line(&self, fields: &str) -> String {
        let number = self.partition.number;
        let size =
            self.explicit_sector_size().map(|size| format!("--sector-size {size} ")).unwrap_or_default();
        format!("echo '{fields}' | sfdisk {size}-N {number} {}", self.operand())
    }
}
