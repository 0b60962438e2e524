//! Contents that no partition lists, such as those of a partition that was deleted.
//!
//! Invariants: it only reads. Contents are looked for where partitions begin: at the start of free space, behind
//! other contents in it, one track after these, on the first MiBs, cylinders and GiBs, and where something is to be put.

use std::collections::BTreeSet;

use straddle_device::Medium;
use straddle_layout::layer::Layer;
use straddle_layout::view::View;
use straddle_layout::{is_erased, read_layers};
use straddle_units::{BlockSize, ByteCount, ByteOffset, GIB, MIB, Span};

use crate::plan::WIPED;

/// How many of the MiBs, cylinders and GiBs of a space are looked at.
const EVENS: u64 = 64;

/// The sectors of a track, and the tracks of a cylinder, in DOS's geometry of large disks: partitions began on a cylinder,
/// and the first one of a disk and logical ones, behind their record, a track later.
const TRACK: u64 = 63;
const TRACKS: u64 = 255;

/// Where a partition may begin at or after `from`: there, a track later, and on the first `count` boundaries of each kind.
/// Installers end partitions on GiBs, and begin the first one at 1 MiB.
fn likely(from: ByteOffset, count: u64, block: BlockSize) -> impl Iterator<Item = u64> {
    let track = block.bytes().get() * TRACK;
    let at = from.get();
    let kinds = [(MIB, 0), (track * TRACKS, 0), (track * TRACKS, track), (GIB, 0), (GIB, MIB)];
    let on = move |(size, past): (u64, u64)| {
        let first = at.max(1).next_multiple_of(size);
        (0..count).map(move |index| first.saturating_add(index * size).saturating_add(past))
    };
    [at, at.saturating_add(track)].into_iter().chain(kinds.into_iter().flat_map(on))
}

/// Returns the contents in `gap`, which no partition has, that reach into `span`, in order, each with its place: they may
/// hold zeros there.
pub(crate) fn reaching(medium: &dyn Medium, gap: Span, span: Span, block: BlockSize) -> Vec<(Span, Layer)> {
    let mut starts: BTreeSet<u64> =
        likely(gap.start(), EVENS, block).chain(likely(span.start(), EVENS, block)).collect();
    // The first sector is the table's.
    starts.remove(&0);
    let (mut found, mut behind) = (Vec::new(), gap.start());
    while let Some(start) = starts.pop_first().filter(|start| *start < span.end().get()) {
        let at = ByteOffset::new(start);
        let Some(rest) = Span::between(at, gap.end()) else { break };
        // What is within other contents is theirs.
        if at < behind {
            continue;
        }
        let Some((contents, layer)) = beginning(medium, rest, block) else { continue };
        behind = contents.end();
        starts.extend(likely(behind, 1, block));
        if contents.overlaps(span) {
            found.push((contents, layer));
        }
    }
    found
}

/// What begins at the start of `rest`, as far as it says that it reaches; the first bytes, if it does not say that.
fn beginning(medium: &dyn Medium, rest: Span, block: BlockSize) -> Option<(Span, Layer)> {
    // Superblocks are in the first bytes: where these are erased there are none.
    let head = rest.len().min(WIPED);
    let mut bytes = vec![0; usize::try_from(head.get()).ok()?];
    medium.read_at(rest.start(), &mut bytes).ok()?;
    if is_erased(&bytes) {
        return None;
    }
    let layer = read_layers(&View::of_drive(medium), rest, Some(block))?;
    let len = layer.used(rest.len()).unwrap_or(head);
    Some((Span::new(rest.start(), len)?, layer)).filter(|(contents, _)| contents.len() != ByteCount::ZERO)
}
