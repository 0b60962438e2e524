//! Cautions to print before the command that moves a partition.

use straddle_layout::{Partition, PartitionType, Unclaimed};

use super::{How, Place, explicit_sector_size, is_known, swap};
use crate::Context;
use crate::finding::{Command, Effect};

/// The caution for every command that changes a table and leaves the data where it is.
pub(super) const TABLE_ONLY: &str =
    "this changes the table only: for an empty partition, or with its data restored from a backup afterwards";

/// Why there is no command for a partition in which nothing is recognised.
fn without_command(partition: &Partition) -> &'static str {
    if partition.unclaimed == Unclaimed::All {
        "it is not empty, and what is in it is not known: a command that changes only the table would lose it; back it up, make the partition again like \
         this, and restore it there"
    } else {
        "no tool does this to the one partition alone"
    }
}

/// The caution for a fix: a table is not its data, and tools have limits.
pub(super) fn caution(
    context: &Context<'_>,
    partition: &Partition,
    (place, how): (Place, How),
    commands: &[Command],
) -> Option<String> {
    let old = partition.span;
    let (moves, shrinks) = (place.start != old.start(), place.len < old.len());
    let runs = |tool: &str| commands.iter().any(|command| command.tool == tool);
    let mut parts: Vec<String> = Vec::new();
    let mut say = |text: &str| parts.push(text.to_owned());
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
            "what is swapped out is worth nothing after swapoff: make the partition again at that place, and a swap with the same UUID and label in it \
             (mkswap --uuid --label)",
        );
    } else if commands.is_empty() {
        say(match (moves, shrinks) {
            (_, false) => {
                "no tool moves its data there: make the partition again at that place, and restore its contents from a backup"
            }
            _ => {
                "no command is known that shrinks what is in it and then moves it: back up what it holds, make the partition \
                 again like this, and restore it there"
            }
        });
    } else if let How::Shrink(first) = how {
        say(first.caution());
    } else if commands.iter().any(|command| command.effect == Effect::Data) {
        say("this moves the data as well: run it offline; it cannot resume if interrupted");
        if !is_known(partition) && partition.unclaimed != Unclaimed::All {
            say("for an empty partition leave --move-data out");
        }
    } else if moves || shrinks {
        say(TABLE_ONLY);
    }
    if moves && let Some(kind) = crate::hidden::moved_with(partition) {
        say(if kind.boots_from_recorded_start() {
            "the boot sector in it says where it starts: correct it after the move (S068), or Windows does not boot from it"
        } else {
            "the exFAT in it records where it starts: what reads that field needs the new value (S068)"
        });
    }
    if runs("sfdisk") && explicit_sector_size(context).is_some() {
        say("sfdisk knows --sector-size since util-linux 2.41");
    }
    if runs("parted") {
        say(match partition.kind {
            PartitionType::Mbr(_) => {
                "parted makes the partition again, and may give the disk a new identifier"
            }
            _ if partition.attributes.name.is_empty() => {
                "parted makes the partition again, with a name and another UUID"
            }
            _ => "parted makes the partition again, with another UUID",
        });
    }
    if let Some(entry) = context.stack.in_hybrid(partition).filter(|_| !commands.is_empty()) {
        say(&format!(
            "entry {entry} of the hybrid MBR keeps the old place: correct it afterwards (sfdisk --label-nested dos -N {entry}); sgdisk -h would make all of it \
             again, with other types, another order and no boot flag, so that a Raspberry Pi no longer boots"
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
