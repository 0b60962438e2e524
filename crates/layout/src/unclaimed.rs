//! What no known content of a partition accounts for. A few KiB of each partition are read, and what cannot be read
//! counts as data: the metadata of GEOM, of Android's verified boot and of DRBD are in the last sectors, and a tree
//! of hashes begins after the file system.

use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::blank::is_erased;
use crate::model::layer::{Facts, FileSystem};
use crate::model::stack::{Partition, Unclaimed};

/// At the start of an unknown partition, and after contents (mkfs.fat leaves up to a track).
const FRONT: ByteCount = ByteCount::new(64 * 1024);
/// At the end. DRBD's metadata are up to 15 sectors before that.
const BACK: ByteCount = ByteCount::new(8 * 1024);
const SECTOR: usize = 512;

pub(crate) fn unclaimed(medium: &dyn Medium, partition: &Partition) -> Unclaimed {
    let (span, own) = (partition.span, copies(partition));
    let Some(layer) = &partition.layer else {
        let front = Span::new(span.start(), span.len().min(FRONT)).unwrap_or(span);
        let is_data = partition.content.is_none()
            && [front, back(span, span.start())].iter().any(|part| holds(medium, *part, &own));
        return if is_data { Unclaimed::All } else { Unclaimed::Nothing };
    };
    // The rest of an encryption sector at the end is unused; cryptsetup opens nothing with it.
    if matches!(&layer.facts, Facts::Luks(luks) if luks.size.is_none()) {
        return Unclaimed::Nothing;
    }
    let Some(end) = layer.used(span.len()).and_then(|used| span.start().checked_add(used)) else {
        return Unclaimed::Nothing;
    };
    // The rest of its last page is unused, and a swap area is made again, not kept.
    if layer.kind.is_swap()
        && let Facts::FileSystem(FileSystem { block, .. }) = &layer.facts
        && span.end().checked_since(end).is_some_and(|rest| rest < *block)
    {
        return Unclaimed::Nothing;
    }
    let stop = end.checked_add(FRONT).map_or(span.end(), |stop| stop.min(span.end()));
    let behind = Span::between(end, stop);
    let is_data = behind.into_iter().chain([back(span, end)]).any(|part| holds(medium, part, &own));
    if is_data { Unclaimed::Tail } else { Unclaimed::Nothing }
}

fn back(span: Span, least: ByteOffset) -> Span {
    let start = span.end().checked_back(BACK).map_or(least, |start| start.max(least).max(span.start()));
    Span::between(start, span.end()).unwrap_or(span)
}

fn copies(partition: &Partition) -> Vec<ByteOffset> {
    let facts = partition.layer.as_ref().map(|layer| &layer.facts);
    let Some(Facts::FileSystem(FileSystem { boot_copies, .. })) = facts else { return Vec::new() };
    let start = partition.span.start();
    boot_copies.iter().filter_map(|at| start.checked_add(ByteCount::new(at.get()))).collect()
}

/// A sector that is neither erased nor one of those at `own`.
fn holds(medium: &dyn Medium, part: Span, own: &[ByteOffset]) -> bool {
    if medium.is_hole(part.start(), part.len()) {
        return false;
    }
    let mut bytes = vec![0; usize::try_from(part.len().get()).unwrap_or(0)];
    match medium.read_at(part.start(), &mut bytes) {
        Ok(()) => {}
        Err(ReadError::PastEnd { .. }) => return false,
        Err(_) => return true,
    }
    bytes.chunks(SECTOR).zip(0_u64..).any(|(sector, index)| {
        let at = part.start().checked_add(ByteCount::new(index * SECTOR as u64));
        !is_erased(sector) && at.is_none_or(|at| !own.contains(&at))
    })
}
