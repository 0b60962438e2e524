//! Moving a swap partition: unused swap has no contents, so it is recreated at the new place.
//!
//! Invariants: the line begins with a command that fails unless DEVICE is swap space, and sfdisk refuses a disk with
//! a partition in use. The UUID and the label, by which the swap is found, are preserved.

use straddle_layout::Partition;
use straddle_layout::layer::{Facts, Layer};

use super::Entry;
use crate::finding::{Command, Effect};
use crate::shell::{operand, quote};

/// mkswap needs no option for it.
const PAGE: u64 = 4096;

pub(super) const ORDER: &str = "run swapoff first, and do not hibernate before the commands have finished; \
                                the swap area is recreated with the same UUID, so fstab need not be changed, \
                                but any resume_offset= must be updated";

pub(super) fn of(partition: &Partition) -> Option<&Layer> {
    partition.layer.as_ref().filter(|layer| layer.kind.is_swap())
}

/// An image is recreated through a loop device. `None` if the swap's UUID or label is not fully known.
pub(super) fn remake(layer: &Layer, entry: &Entry<'_>) -> Option<Command> {
    let (kept, sfdisk) = (kept(layer)?, entry.sfdisk());
    let line = match entry.context.is_image {
        false => format!("swaplabel DEVICE && {sfdisk} && mkswap {kept}DEVICE"),
        true => {
            let block = entry.context.stack.block;
            let (at, len) = (entry.start.to_bytes(block)?, entry.count.to_bytes(block)?);
            format!(
                "{sfdisk} && loop=$(losetup --find --show --offset {at} --sizelimit {} {}) && (trap 'losetup --detach \"$loop\"' EXIT; mkswap {kept}\"$loop\")",
                len.get(),
                operand(entry.context.target)
            )
        }
    };
    Some(Command { tool: "sfdisk", line, effect: Effect::Swap })
}

/// Page size, label and UUID; `None` if they are not fully known.
pub(super) fn kept(layer: &Layer) -> Option<String> {
    let Facts::FileSystem(fs) = &layer.facts else { return None };
    if layer.name.contains(straddle_device::shown::is_hidden) {
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
    Some(format!("{page}{label}--uuid {} ", dashed(&layer.uuid)?))
}

pub(super) fn dashed(digits: &str) -> Option<String> {
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].into_iter().map(|range| digits.get(range));
    let groups: Vec<&str> = groups.collect::<Option<_>>()?;
    (digits.len() == 32).then(|| groups.join("-"))
}
