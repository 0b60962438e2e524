//! A swap partition that has to lie elsewhere: its pages are worth nothing once it is no longer in use, so it is recreated there.
//!
//! The law of this module: the line begins with what fails where DEVICE is no swap, and sfdisk refuses a disk of which a
//! partition is in use. What finds the swap, its UUID and its label, stays.

use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{Content, FsKind, Partition};

use super::entry::Entry;
use crate::finding::Command;
use crate::shell::quote;

/// The page of most machines, for which mkswap needs no option.
const PAGE: u64 = 4096;

/// What is said before the line.
pub(super) const ORDER: &str = "swapoff it first, and do not hibernate in between: what is swapped out is not moved, the swap is made again \
                                under the same UUID (DEVICE stands for the partition)";

/// The swap in a partition.
pub(super) fn of(partition: &Partition) -> Option<&Layer> {
    partition.layer.as_ref().filter(|layer| layer.kind == Content::FileSystem(FsKind::Swap))
}

/// The line that changes the entry and makes the swap again; `None` on an image, which has no device of the partition that
/// would follow the entry, and where not all is known that the swap is found by.
pub(super) fn remake(layer: &Layer, entry: &Entry<'_>) -> Option<Command> {
    let Facts::FileSystem(fs) = &layer.facts else { return None };
    let is_hidden = layer.name.contains(straddle_device::shown::is_hidden);
    if entry.context.is_image || is_hidden {
        return None;
    }
    let page = match fs.block.get() {
        PAGE => String::new(),
        page => format!("--pagesize {page} "),
    };
    let label = match layer.name.as_str() {
        "" => String::new(),
        name => format!("--label {} ", quote(name)),
    };
    let uuid = dashed(&layer.uuid)?;
    let line =
        format!("swaplabel DEVICE && {} && mkswap {page}{label}--uuid {uuid} DEVICE", entry.sfdisk("").line);
    Some(Command { tool: "sfdisk", line })
}

/// A UUID as tools take it, of its 32 digits.
fn dashed(digits: &str) -> Option<String> {
    let group = |range| digits.get(range);
    let groups = [group(0..8)?, group(8..12)?, group(12..16)?, group(16..20)?, group(20..32)?];
    (digits.len() == 32).then(|| groups.join("-"))
}
