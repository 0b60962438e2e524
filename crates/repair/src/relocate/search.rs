//! A journal whose place is not known.
//!
//! Invariants: a title is found by how it begins, and believed only if the body that its hash
//! belongs to names the place that the title is at. One intact title with its body is enough.

use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use super::{Disks, Journal, SECTOR, SECTOR_LEN, in_memory, is_title, part_of};

const PIECE: u64 = 4 * MIB;
/// Titles that are followed to their bodies, which may be long: more are none of ours.
const MAX_TITLES: usize = 32;

/// Searches the journal's disk for a journal that `counts`, from its end on; returns its place. There may be
/// others, left over from earlier moves.
///
/// Reads the whole disk if there is none. Skips sectors that cannot be read.
pub fn search(mut disks: Disks<'_>, mut counts: impl FnMut(Span) -> bool) -> Option<Span> {
    let device = disks.device_of_journal();
    let mut end = disks.get(device).size().floor_to(ByteCount::new(SECTOR)).get();
    let mut left = MAX_TITLES;
    while end > 0 && left > 0 {
        let start = end.saturating_sub(PIECE);
        let piece = Span::new(ByteOffset::new(start), ByteCount::new(end - start))?;
        let found = named(&mut disks, piece, &mut left);
        if let Some(place) = found.into_iter().rev().find(|place| counts(*place)) {
            return Some(place);
        }
        end = start;
    }
    None
}

/// The places that journals with a title in these bytes name as their own, complete or not.
pub fn named_within(mut disks: Disks<'_>, bytes: Span) -> Vec<Span> {
    named(&mut disks, bytes, &mut { MAX_TITLES })
}

/// The same. `left` counts the titles that are still followed.
fn named(disks: &mut Disks<'_>, bytes: Span, left: &mut usize) -> Vec<Span> {
    let titles = titles(disks, bytes);
    let skipped = titles.len().saturating_sub(*left);
    *left = left.saturating_sub(titles.len());
    titles.into_iter().skip(skipped).filter_map(|at| Journal::located(disks, at)).collect()
}

/// The place of the journal that `sector`, at byte `at`, is a part of; `None` for what the windows save.
pub fn place_around(mut disks: Disks<'_>, at: ByteOffset, sector: &[u8]) -> Option<Span> {
    let place = if is_title(sector) { Journal::located(&mut disks, at) } else { part_of(sector) };
    let sector = Span::new(at, ByteCount::new(sector.len() as u64))?;
    place.filter(|place| place.contains(sector))
}

fn titles(disks: &mut Disks<'_>, span: Span) -> Vec<ByteOffset> {
    let starts = || (span.start().get()..).step_by(SECTOR_LEN).map(ByteOffset::new);
    let mut bytes = vec![0; in_memory(span.len())];
    let device = disks.device_of_journal();
    let disk = disks.get(device);
    if disk.read(span.start(), &mut bytes).is_err() {
        for (at, bytes) in starts().zip(bytes.chunks_mut(SECTOR_LEN)) {
            if disk.read(at, bytes).is_err() {
                bytes.fill(0);
            }
        }
    }
    let sectors = starts().zip(bytes.chunks(SECTOR_LEN));
    sectors.filter(|(_, sector)| is_title(sector)).map(|(at, _)| at).collect()
}
