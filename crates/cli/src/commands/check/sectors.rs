//! What speaks for another sector size than the table of an image is read in.

use straddle_device::topology::Source;
use straddle_device::{DeviceKind, Target};
use straddle_layout::Stack;

/// Says where something is that would be at the start of a partition in sectors of another size, and is too little to take
/// the table for one in these. What the kernel or the user says is not in question.
pub(super) fn in_question(target: &Target, stack: &Stack) -> Option<String> {
    let is_assumed = target.kind == DeviceKind::Image && *target.topology.logical.source() == Source::Assumed;
    let medium = target.medium.as_deref().filter(|_| is_assumed)?;
    let (block, at) = straddle_layout::other_sectors(medium, stack).ok()??;
    Some(format!(
        "its table is taken to count in {}-byte sectors; in {block}-byte ones a partition would start at byte {at}, where \
         something is that may be left over: if it counts in these, give --logical {block}",
        stack.block
    ))
}
