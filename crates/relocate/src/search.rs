//! A journal whose place is not known.

use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use crate::disk::{Disks, SECTOR};
use crate::journal::{Journal, in_memory, is_title};

/// The bytes that are read at a time.
const PIECE: u64 = 4 * MIB;
/// The physical sectors that a journal may count in.
const BLOCKS: std::ops::RangeInclusive<u32> = 9..=20;

/// Searches the journal's disk for a journal, from its end on; returns its place.
///
/// Reads the whole disk if there is none. Sectors that cannot be read are passed over.
pub fn search(mut disks: Disks<'_>) -> Option<Span> {
    let device = disks.device_of_journal();
    let sector = in_memory(ByteCount::new(SECTOR));
    let mut end = disks.get(device).size().floor_to(ByteCount::new(SECTOR)).get();
    let mut titles: Vec<u64> = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        let mut bytes = vec![0; in_memory(ByteCount::new(end - start))];
        let disk = disks.get(device);
        if disk.read(ByteOffset::new(start), &mut bytes).is_err() {
            for (at, bytes) in (start..).step_by(sector).zip(bytes.chunks_mut(sector)) {
                if disk.read(ByteOffset::new(at), bytes).is_err() {
                    bytes.fill(0);
                }
            }
        }
        let found: Vec<u64> = (start..)
            .step_by(sector)
            .zip(bytes.chunks(sector))
            .filter_map(|(at, sector)| is_title(sector).then_some(at))
            .collect();
        for at in found.into_iter().rev() {
            titles.push(at);
            if let Some(place) = behind(&mut disks, at, &titles) {
                return Some(place);
            }
        }
        end = start;
    }
    None
}

/// The place of the journal whose first title is at `first`, if its last one is among `titles`.
fn behind(disks: &mut Disks<'_>, first: u64, titles: &[u64]) -> Option<Span> {
    for last in titles.iter().rev() {
        for block in BLOCKS.map(|shift| 1_u64 << shift) {
            let len = last.checked_sub(first)?.checked_add(block)?;
            let place = Span::new(ByteOffset::new(first), ByteCount::new(len))?;
            if let Ok(Some(_)) = Journal::read(disks, place) {
                return Some(place);
            }
        }
    }
    None
}
