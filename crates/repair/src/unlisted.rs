//! Contents that no partition lists, such as those of a partition that was deleted.
//!
//! The law of this module: it only reads. Contents are looked for where partitions begin: at the start of free space, behind
//! other contents in it, at sector 63, on its first MiBs, and where something is to be put.

use std::collections::BTreeSet;

use straddle_device::Medium;
use straddle_layout::layer::Layer;
use straddle_layout::view::View;
use straddle_layout::{is_erased, read_layers};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, MIB, Span};

use crate::plan::WIPED;

/// How many of the MiBs of a space are looked at.
const EVENS: u64 = 64;

/// Where the first partition begins on a disk with tracks of 63 sectors.
const TRACK: u64 = 63;

/// Returns the contents in `gap`, which no partition has, that reach into `span`, in order, each with its place: they may
/// hold zeros there.
pub(crate) fn reaching(medium: &dyn Medium, gap: Span, span: Span, block: BlockSize) -> Vec<(Span, Layer)> {
    let even = |at: ByteOffset| at.get().max(1).next_multiple_of(MIB);
    let evens = (0..EVENS).map(|index| even(gap.start()).saturating_add(index * MIB));
    let track = Lba::new(TRACK).to_bytes(block).map(ByteOffset::get);
    let mut starts: BTreeSet<u64> =
        evens.chain(track).chain([gap.start(), span.start()].map(ByteOffset::get)).collect();
    // The first sector is the table's.
    starts.remove(&0);
    let (mut found, mut behind) = (Vec::new(), gap.start());
    while let Some(start) = starts.pop_first().filter(|start| *start < span.end().get()) {
        let at = ByteOffset::new(start);
        let Some(rest) = gap.end().checked_since(at).and_then(|len| Span::new(at, len)) else { break };
        // What is within other contents is theirs.
        if at < behind {
            continue;
        }
        let Some((contents, layer)) = beginning(medium, rest, block) else { continue };
        behind = contents.end();
        starts.extend([behind.get(), even(behind)]);
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
