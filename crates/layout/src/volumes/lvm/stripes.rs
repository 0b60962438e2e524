//! How striped and RAID segments distribute a volume over their areas. LVM's layout names are those of
//! lib/metadata/segtype.h, their numbers those of `raid_types`, drivers/md/dm-raid.c.

use straddle_device::live::table::raid_type;
use straddle_device::live::{Geometry, Run as Spread};
use straddle_units::ByteCount;

use super::super::sectors;
use super::group::Segment;
use super::map::Run;

/// Of LVM's RAID10, unless the segment records another.
const DEFAULT_COPIES: u64 = 2;

/// `setup_geo`, drivers/md/raid10.c.
const ONE_FAR: u32 = 1 << 8;

pub(super) fn geometry(segment: &Segment) -> Option<Geometry> {
    let (level, layout) = match segment.kind.as_str() {
        "striped" => (0, 0),
        "raid6" => raid_type("raid6_zr")?,
        "raid10" | "raid10_near" => {
            let near = u8::try_from(segment.copies.unwrap_or(DEFAULT_COPIES)).ok()?;
            (10, ONE_FAR | u32::from(near))
        }
        kind => raid_type(kind)?,
    };
    let chunk = ByteCount::new(sectors(segment.stripe_size));
    Some(Geometry { level, layout, chunk, disks: u32::try_from(segment.areas.len()).ok()? })
}

/// The part of `cell`, a run on a whole area counted from its byte 0, that is in `image`, a part of that area, from
/// the first piece that begins there on.
pub(super) fn within(cell: &Spread, image: &Run) -> Option<Run> {
    let every = cell.every.filter(|every| image.every.is_none() && every.step != ByteCount::ZERO)?;
    let (chunk, period, step) = (every.chunk.get(), every.period.get(), every.step.get());
    let before = image.start.saturating_sub(cell.offset.get()).div_ceil(step);
    let first = cell.offset.get().checked_add(step.checked_mul(before)?)?;
    let into = first.checked_sub(image.start)?;
    let room = image.len.checked_sub(into).filter(|room| *room > 0)?;
    let (last, rest) = ((room - 1) / step, (room - 1) % step + 1);
    let here = period.checked_mul(last)?.checked_add(rest.min(chunk))?;
    let skipped = period.checked_mul(before)?;
    let left = cell.span.len().get().checked_sub(skipped).filter(|left| *left > 0)?;
    Some(Run {
        start: cell.span.start().get().checked_add(skipped)?,
        len: here.min(left),
        on_pv: image.on_pv.checked_add(into)?,
        every: Some(every),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use straddle_device::live::Located;
    use straddle_units::{ByteOffset, Span};

    use super::*;

    const CHUNK: u64 = 8;
    const KINDS: [&str; 8] =
        ["striped", "raid4", "raid5_ls", "raid5_ra", "raid6_zr", "raid6_ls_6", "raid10", "raid0"];

    proptest! {
        /// An area in two parts, at two places of the volume, holds the same bytes as an area in one part.
        #[test]
        fn an_area_in_parts_holds_what_it_holds_whole(
            kind in 0..KINDS.len(), areas in 4_u32..7, role in 0_u32..4, cut in 1_u64..40, count in 1_u64..60,
        ) {
            let mut segment = Segment { kind: KINDS[kind].to_owned(), ..Segment::default() };
            segment.areas = (0..areas).map(|_| super::super::group::Area { name: String::new(), start: 0 }).collect();
            let whole = Geometry { chunk: ByteCount::new(CHUNK), ..geometry(&segment).unwrap() };
            let len = Span::first(ByteCount::new(count * CHUNK));
            let cells = whole.runs(role, len, ByteOffset::ZERO).unwrap();
            let area = 400 * CHUNK;
            let cut = cut * CHUNK;
            let parts = [
                Run { start: 0, len: cut, on_pv: 100_000, every: None },
                Run { start: cut, len: area - cut, on_pv: 500_000, every: None },
            ];
            let mut found = BTreeMap::new();
            for run in cells.iter().flat_map(|cell| parts.iter().filter_map(|part| within(cell, part))) {
                let span = Span::new(ByteOffset::new(run.start), ByteCount::new(run.len)).unwrap();
                let run = Spread { span, offset: ByteOffset::new(run.on_pv), every: run.every };
                for at in (0..count * CHUNK).step_by(4) {
                    if let Located::Here(there, _) = run.locate(ByteOffset::new(at)) {
                        prop_assert!(found.insert(at, there.get()).is_none());
                    }
                }
            }
            for at in (0..count * CHUNK).step_by(4) {
                let here = cells.iter().find_map(|cell| match cell.locate(ByteOffset::new(at)) {
                    Located::Here(there, _) => Some(there.get()),
                    _ => None,
                });
                let here = here.map(|at| if at < cut { 100_000 + at } else { 500_000 + at - cut });
                prop_assert_eq!(found.get(&at).copied(), here);
            }
        }
    }
}
