//! Partition contents that depend on the drive's logical sector size.
//!
//! The law of this module: whether contents fit sectors of the new size is what the audit says ([`straddle_audit::unfit`]).
//! What does not fit is refused, by its partition and the reason. Contents that cannot be seen are reported, and refused
//! if their sector size would change.

use straddle_device::Medium;
use straddle_layout::layer::{Facts, Layer, Luks};
use straddle_layout::view::View;
use straddle_layout::{Role, Stack, read_layers};
use straddle_units::BlockSize;

use crate::error::PlanError;

/// Checks that everything in the partitions of `stack` can be used in sectors of `new`; returns remarks for
/// the user.
pub(crate) fn check(medium: &dyn Medium, stack: &Stack, new: BlockSize) -> Result<Vec<String>, PlanError> {
    let drive = View::of_drive(medium);
    let mut notes = Vec::new();
    for partition in stack.partitions.iter().filter(|p| p.role != Role::Extended) {
        let Some(layer) = read_layers(&drive, partition.span, Some(stack.block)) else { continue };
        let mut judge = Judge { old: stack.block, new, notes: Vec::new() };
        let unfit = straddle_audit::unfit(&layer, new).into_iter().next();
        let fits = unfit.map_or(Ok(()), |unfit| Err(format!("{}: {}", unfit.layer.kind, unfit.misfit)));
        fits.and_then(|()| judge.layer(&layer)).map_err(|why| {
            PlanError::CannotConvert(format!(
                "partition {} depends on {}-byte sectors: {why}",
                partition.number, stack.block
            ))
        })?;
        notes.extend(judge.notes.into_iter().map(|note| format!("partition {}: {note}", partition.number)));
    }
    Ok(notes)
}

struct Judge {
    old: BlockSize,
    new: BlockSize,
    notes: Vec<String>,
}

impl Judge {
    /// Checks that what is unseen in the layer, and in every layer above it, keeps its sectors; an error says why not.
    fn layer(&mut self, layer: &Layer) -> Result<(), String> {
        let kind = layer.kind;
        match &layer.facts {
            Facts::Luks(luks) => self.luks(luks)?,
            Facts::Md(_) => self.unseen("RAID", layer),
            Facts::Lv(_) => self.unseen(&format!("logical volume {}", layer.name), layer),
            Facts::Mapped(_) => self.unseen(kind.name(), layer),
            Facts::Opaque => self.notes.push(format!("what {kind} makes of other sectors is not known here")),
            Facts::FileSystem(_) | Facts::Pv(_) | Facts::Table(_) => {}
        }
        layer.children.iter().try_for_each(|child| self.layer(child))
    }

    fn luks(&mut self, luks: &Luks) -> Result<(), String> {
        // The mapping's sectors are LUKS's or the drive's, whichever are larger.
        if luks.sector_size >= self.new.bytes().max(self.old.bytes()) {
            return Ok(());
        }
        if self.new > self.old {
            return Err(format!(
                "LUKS{} encrypts in sectors of {} bytes, so that its mapping would have others than what is in it was made for, which is not seen",
                luks.version,
                luks.sector_size.get()
            ));
        }
        self.notes.push("the mapping of LUKS will have smaller sectors than it had".to_owned());
        Ok(())
    }

    /// Notes that nothing was read from the layer's payload.
    fn unseen(&mut self, what: &str, layer: &Layer) {
        if layer.children.is_empty() {
            self.notes
                .push(format!("what is on the {what} is not seen, and may depend on the size of sectors"));
        }
    }
}
