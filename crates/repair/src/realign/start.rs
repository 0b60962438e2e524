//! What the machine reads when it starts, and cannot while partitions move.

use straddle_device::{Medium, ReadError};
use straddle_layout::Stack;

use super::boot::starts_grub;
use super::carry::ASLEEP;
use super::refer::hibernated;
use super::{Journal, Realign, Reference};

/// How to move what a machine reads when it starts.
pub const ELSEWHERE: &str = "start from another medium, and use 'straddle realign' there";

impl Realign {
    /// Returns why a machine that starts from this disk could not do so while its partitions are being moved;
    /// `None` if nothing on the disk prevents it. `stack` is what `medium` holds.
    pub fn blocks_start(&self, medium: &dyn Medium, stack: &Stack) -> Result<Option<String>, ReadError> {
        if let Journal::Elsewhere { .. } = self.journal {
            return Ok(Some("there is no room for the journal on the disk itself".to_owned()));
        }
        if let Some(number) = hibernated(stack) {
            return Ok(Some(format!("partition {number}: {ASLEEP}")));
        }
        for (number, reference) in &self.references {
            let what = match reference {
                Reference::ActivePartition if starts_grub(medium)? => continue,
                Reference::ActivePartition => "the boot code of the disk starts it",
                Reference::Grub { .. } | Reference::GrubElsewhere | Reference::BiosBoot => {
                    "GRUB's core image is in it"
                }
                Reference::Lilo => "LILO reads kernels by their sectors",
                Reference::Syslinux { .. } => "SYSLINUX is in it",
                Reference::EfiBootEntries => "the firmware reads the boot loader from it",
                Reference::BootSector { .. }
                | Reference::WindowsVolume
                | Reference::Swap
                | Reference::Hibernation
                | Reference::Zones => continue,
            };
            return Ok(Some(format!("partition {number}: {what}, and cannot while it moves: {ELSEWHERE}")));
        }
        Ok(None)
    }
}
