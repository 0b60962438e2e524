//! Cautions to print before the command that moves a partition.

use straddle_layout::{Partition, Unclaimed};

use super::{How, Place, explicit_sector_size, is_known, swap};
use crate::Context;
use crate::finding::Command;

const TABLE_ONLY: &str = "this changes only the table: use it only if the partition is empty, or restore the \
                          data from a backup afterwards";

const TABLE_FIRST: &str = "fix the partition table first, and check again";

fn without_command(partition: &Partition) -> &'static str {
    if partition.unclaimed == Unclaimed::All {
        "the partition holds unknown data, which changing only the table would lose; back up the data, \
         recreate the partition as described, and restore the data"
    } else {
        "the partition is empty: delete it and recreate it as described"
    }
}

pub(super) fn caution(
    context: &Context<'_>,
    partition: &Partition,
    (place, how): (Place, How),
    commands: &[Command],
) -> Option<String> {
    let old = partition.span;
    let (moves, shrinks) = (place.start != old.start(), place.len < old.len());
    let mut parts: Vec<String> = Vec::new();
    let mut say = |text: &str| parts.push(text.to_owned());
    if commands.is_empty() && moves && !context.stack.problems.is_empty() {
        return Some(TABLE_FIRST.to_owned());
    }
    if commands.is_empty() && !is_known(partition) {
        return Some(without_command(partition).to_owned());
    }
    if how == How::Swap {
        say(swap::ORDER);
        if !context.is_image {
            say("replace DEVICE with the partition");
        }
    } else if commands.is_empty() && swap::of(partition).is_some() {
        say(
            "swap holds no data after swapoff: recreate the partition at the new position, with a swap area \
             that has the same UUID and label (mkswap --uuid --label)",
        );
    } else if commands.is_empty() {
        say("there is no command for this: back up the contents, recreate the partition as described, and \
             restore the contents");
    } else if let How::Shrink(caution) = how {
        say(caution);
    } else if moves || shrinks {
        say(TABLE_ONLY);
    }
    if !commands.is_empty() && explicit_sector_size(context).is_some() {
        say("sfdisk --sector-size needs util-linux 2.41 or later");
    }
    if let Some(entry) = context.stack.in_hybrid(partition).filter(|_| !commands.is_empty()) {
        say(&format!(
            "entry {entry} of the hybrid MBR keeps the old start and size, so correct the entry afterwards \
             (sfdisk --label-nested dos -N {entry}); do not use sgdisk -h, which rebuilds the hybrid MBR \
             with different types, a different order and no boot flag, so that a Raspberry Pi cannot boot \
             from it"
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
