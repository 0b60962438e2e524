//! The sector size in which a target's table counts.

use straddle_device::topology::Source;
use straddle_device::{DeviceKind, Medium, Options, ReadError, Target};
use straddle_layout::{Evidence, OtherSectors, Stack, TableKind, read_all, read_stack};
use straddle_units::BlockSize;

pub(crate) fn known(target: &Target, options: &Options) -> Option<BlockSize> {
    let logical = &target.topology.logical;
    let declared = options.logical.or(options.assume.logical());
    let stated = matches!(logical.source(), Source::Container(_)).then(|| logical.value());
    match target.kind {
        // What is declared of a guest's disk is about its storage.
        _ if *logical.source() == Source::Guest => Some(logical.value()),
        DeviceKind::Image => declared.or(stated),
        _ => Some(logical.value()),
    }
}

pub(crate) fn adopt(target: &mut Target, stack: &Stack) {
    if matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr) {
        target.topology.adopt_table_block(stack.block);
    }
}

/// Reads the table that is to be changed, and adopts its sector size.
pub fn adopt_tables(target: &mut Target, options: &Options) -> Result<(), ReadError> {
    let Some(medium) = target.medium.as_deref() else { return Ok(()) };
    let found = read_stack(medium, known(target, options), options.logical)?;
    if target.kind == DeviceKind::Image {
        adopt(target, &found);
    }
    Ok(())
}

/// Reads the table that is to be changed, adopts its sector size, and reads its partitions; `None` without bytes.
pub fn read_present(target: &mut Target, options: &Options) -> Result<Option<Stack>, ReadError> {
    adopt_tables(target, options)?;
    let Some(medium) = target.medium.as_deref() else { return Ok(None) };
    // In the size adopted, whichever size it was found in.
    read_all(medium, Some(target.topology.logical.value()), None).map(Some)
}

/// Reads a table that may count in other sectors than `new`, the target's; in `former`, if the user knows.
pub fn read_converted(
    medium: &dyn Medium,
    new: BlockSize,
    former: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let former = match former {
        Some(former) => former,
        None => {
            let stack = read_all(medium, Some(new), None)?;
            if stack.block == new {
                return Ok(stack);
            }
            stack.block
        }
    };
    read_all(medium, Some(former), Some(former))
}

/// Whether nothing states the size of a target's sectors: it is an image, and its table is not read.
pub fn are_assumed(target: &Target) -> bool {
    target.kind == DeviceKind::Image && *target.topology.logical.source() == Source::Assumed
}

pub(crate) struct Doubt {
    pub(crate) why: String,
    pub(crate) is_likelier: bool,
}

/// `None` unless another size is possible on too little evidence.
pub(crate) fn in_question(target: &Target, stack: &Stack) -> Option<Doubt> {
    let medium = target.medium.as_deref().filter(|_| are_assumed(target))?;
    let OtherSectors { size, evidence } = straddle_layout::other_sectors(medium, stack).ok()??;
    let assumed = stack.block;
    let why = match evidence {
        Evidence::Content(at) => format!(
            "its table is assumed to use {assumed}-byte sectors. With {size}-byte sectors, a partition would \
             start at byte {at}, where known content (perhaps a leftover) begins. If the table uses \
             {size}-byte sectors, use --logical {size}"
        ),
        Evidence::End => format!(
            "its table may use {assumed}-byte sectors, or {size}-byte ones, in which case its last partition \
             would end at the end of the disk: use --logical {size} or --logical {assumed}"
        ),
    };
    Some(Doubt { why, is_likelier: evidence == Evidence::End })
}
