//! A journal whose place is not known.
//!
//! The law of this module: a title is found by how it begins, and believed only if the body that its hash
//! belongs to names the place that the title is at. One intact title with its body is enough.

use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use crate::disk::{Disks, SECTOR};
use crate::journal::{Journal, in_memory, is_title};

/// The bytes that are read at a time.
const PIECE: u64 = 4 * MIB;
/// The largest physical sector in which [`search_ends`] looks for a last title.
pub const LARGEST_BLOCK: u64 = 16 << 10;
/// Titles that are followed to their bodies, which may be long: more are none of ours.
const MOST: u32 = 32;

/// Searches the journal's disk for a journal that `counts`, from its end on; returns its place. There may be others,
/// left over from earlier moves.
///
/// Reads the whole disk if there is none. Sectors that cannot be read are passed over.
pub fn search(mut disks: Disks<'_>, mut counts: impl FnMut(Span) -> bool) -> Option<Span> {
    let device = disks.device_of_journal();
    let size = disks.get(device).size().floor_to(ByteCount::new(SECTOR)).get();
    between(&mut disks, (0, size), &mut { MOST }, &mut counts)
}

/// The same within this number of bytes of either end of the disk.
pub fn search_near_ends(
    mut disks: Disks<'_>,
    near: ByteCount,
    mut counts: impl FnMut(Span) -> bool,
) -> Option<Span> {
    let device = disks.device_of_journal();
    let size = disks.get(device).size().floor_to(ByteCount::new(SECTOR)).get();
    let near = near.get();
    let mut left = MOST;
    let last = size.saturating_sub(near);
    between(&mut disks, (last, size), &mut left, &mut counts)
        .or_else(|| between(&mut disks, (0, near.min(last)), &mut left, &mut counts))
}

/// Searches the bytes between, from their end on.
fn between(
    disks: &mut Disks<'_>,
    (first, mut end): (u64, u64),
    left: &mut u32,
    counts: &mut dyn FnMut(Span) -> bool,
) -> Option<Span> {
    while end > first && *left > 0 {
        let start = end.saturating_sub(PIECE).max(first);
        if let Some(place) = within(disks, start, end, left, counts) {
            return Some(place);
        }
        end = start;
    }
    None
}

/// Searches for a journal that `counts` and ends at one of `ends`; returns its place. Reads [`LARGEST_BLOCK`] bytes before
/// each.
pub fn search_ends(
    mut disks: Disks<'_>,
    ends: &[ByteOffset],
    mut counts: impl FnMut(Span) -> bool,
) -> Option<Span> {
    let mut left = MOST;
    let ends = possible_ends(&mut disks, ends);
    ends.into_iter()
        .find_map(|end| within(&mut disks, end.saturating_sub(LARGEST_BLOCK), end, &mut left, &mut counts))
}

/// The places that journals which end at one of `ends` name as their own, whether or not the rest of them is there.
pub fn named_at_ends(mut disks: Disks<'_>, ends: &[ByteOffset]) -> Vec<Span> {
    let mut titles = Vec::new();
    for end in possible_ends(&mut disks, ends) {
        titles.extend(titles_between(&mut disks, end.saturating_sub(LARGEST_BLOCK), end));
    }
    titles.truncate(in_memory(ByteCount::new(MOST.into())));
    titles.into_iter().filter_map(|at| Journal::located(&mut disks, ByteOffset::new(at))).collect()
}

/// Those of `ends` at which a journal can end.
fn possible_ends(disks: &mut Disks<'_>, ends: &[ByteOffset]) -> Vec<u64> {
    let device = disks.device_of_journal();
    let size = disks.get(device).size().get();
    let is_end = |end: &u64| *end >= SECTOR && *end <= size && end.is_multiple_of(SECTOR);
    ends.iter().map(|end| end.get()).filter(is_end).collect()
}

/// The journal that `counts` with the last title in these bytes. `left` counts the titles that are still followed.
fn within(
    disks: &mut Disks<'_>,
    start: u64,
    end: u64,
    left: &mut u32,
    counts: &mut dyn FnMut(Span) -> bool,
) -> Option<Span> {
    let titles = titles_between(disks, start, end);
    titles.into_iter().rev().find_map(|at| {
        *left = left.checked_sub(1)?;
        let place = Journal::located(disks, ByteOffset::new(at))?;
        (matches!(Journal::read_grown(disks, place), Ok(Some(_))) && counts(place)).then_some(place)
    })
}

/// The titles in these bytes, in order.
fn titles_between(disks: &mut Disks<'_>, start: u64, end: u64) -> Vec<u64> {
    let (device, sector) = (disks.device_of_journal(), in_memory(ByteCount::new(SECTOR)));
    let mut bytes = vec![0; in_memory(ByteCount::new(end - start))];
    let disk = disks.get(device);
    if disk.read(ByteOffset::new(start), &mut bytes).is_err() {
        for (at, bytes) in (start..).step_by(sector).zip(bytes.chunks_mut(sector)) {
            if disk.read(ByteOffset::new(at), bytes).is_err() {
                bytes.fill(0);
            }
        }
    }
    let sectors = (start..).step_by(sector).zip(bytes.chunks(sector));
    sectors.filter_map(|(at, sector)| is_title(sector).then_some(at)).collect()
}
