//! The media cache: a reserved area of the platters, used as a ring, to which a flush writes all pending data
//! in one pass.
//!
//! An entry is live until each of its bytes is in place, in a later entry, or discarded; no live entry is
//! overwritten. Space is reclaimed from the oldest entry on, so a live entry also keeps the space of later
//! ones.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
pub(super) struct MediaCache {
    first: u64,
    sectors: u64,
    next: u64,
    /// The entries, from the oldest live one on.
    entries: VecDeque<Entry>,
    /// The number of the oldest entry; the others are numbered consecutively.
    oldest: u64,
    /// The live spans, keyed by their first byte. No two overlap.
    live: BTreeMap<u64, Live>,
}

/// The data that one flush has written.
#[derive(Clone, Debug)]
struct Entry {
    from: u64,
    bytes: u64,
    /// Its spans, in the order of their sectors.
    spans: Vec<(u64, u64)>,
}

/// A span that is nowhere else on the platters.
#[derive(Clone, Copy, Debug)]
struct Live {
    end: u64,
    entry: u64,
    index: u64,
}

impl MediaCache {
    pub(super) fn new(first: u64, sectors: u64) -> Self {
        let (entries, live) = (VecDeque::new(), BTreeMap::new());
        Self { first, sectors, next: 0, entries, oldest: 0, live }
    }

    /// Returns the physical sector at which the new entry is written, or `None` if there is no room.
    pub(super) fn append(&mut self, spans: &[(u64, u64)], sectors: u64) -> Option<u64> {
        // The entries that this one replaces are needed until it is written.
        let from = self.room(sectors)?;
        for &(start, end) in spans {
            self.retire(start, end);
        }
        let entry = self.oldest + self.entries.len() as u64;
        let live = spans.iter().zip(0..);
        self.live.extend(live.map(|(&(start, end), index)| (start, Live { end, entry, index })));
        let bytes = spans.iter().map(|(start, end)| end - start).sum();
        self.entries.push_back(Entry { from, bytes, spans: spans.to_vec() });
        self.next = from + sectors;
        Some(self.first + from)
    }

    fn room(&self, sectors: u64) -> Option<u64> {
        // Free: from the end of the newest entry to the end of the area, or to the oldest entry if that lies ahead.
        let (limit, front) = match self.entries.front() {
            None => (self.sectors, self.sectors),
            Some(oldest) if self.next > oldest.from => (self.sectors, oldest.from),
            Some(oldest) => (oldest.from, 0),
        };
        if self.next + sectors <= limit { Some(self.next) } else { (sectors <= front).then_some(0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        let Some(oldest) = self.entries.front() else { return false };
        let free = if self.next > oldest.from {
            self.sectors - self.next + oldest.from
        } else {
            oldest.from - self.next
        };
        free * 4 <= self.sectors
    }

    /// The live spans in order, each with its sector if every span of its entry takes one.
    pub(super) fn live_within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let before = self.live.range(..start).next_back().filter(|(_, live)| live.end > start);
        let after = self.live.range(start..end.max(start));
        before.into_iter().chain(after).filter_map(|(&from, live)| {
            let entry = self.entries.get(usize::try_from(live.entry - self.oldest).ok()?)?;
            Some((from, live.end, self.first + entry.from + live.index))
        })
    }

    /// Passes on the start of each live span of the oldest entry; returns its first sector and number of spans.
    pub(super) fn oldest(&self, mut each: impl FnMut(u64)) -> Option<(u64, u64)> {
        let entry = self.entries.front()?;
        for &(start, end) in &entry.spans {
            self.live
                .range(..end)
                .rev()
                .take_while(|(_, live)| live.end > start)
                .filter(|(_, live)| live.entry == self.oldest)
                .for_each(|(&from, _)| each(from));
        }
        Some((self.first + entry.from, entry.spans.len() as u64))
    }

    pub(super) fn retire(&mut self, start: u64, end: u64) {
        while let Some((&from, &live)) = self.live.range(..end).next_back() {
            if live.end <= start {
                break;
            }
            self.live.remove(&from);
            if from < start {
                self.live.insert(from, Live { end: start, ..live });
            }
            if end < live.end {
                self.live.insert(end, live);
            }
            let index = usize::try_from(live.entry - self.oldest).unwrap_or(usize::MAX);
            if let Some(entry) = self.entries.get_mut(index) {
                entry.bytes -= live.end.min(end) - from.max(start);
            }
        }
        while self.entries.front().is_some_and(|entry| entry.bytes == 0) {
            self.entries.pop_front();
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "bytes of a small area")]

    use proptest::prelude::*;

    use super::MediaCache;

    /// Bytes per sector in this test.
    const SECTOR: u64 = 8;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Writes spans of these lengths, in sectors, with these gaps between them.
        Append {
            first: u64,
            count: u64,
            length: u64,
            gap: u64,
        },
        Retire {
            start: u64,
            length: u64,
        },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let append = (0_u64..60, 1_u64..4, 1_u64..4, 0_u64..4)
            .prop_map(|(first, count, length, gap)| Step::Append { first, count, length, gap });
        let retire = (0_u64..600, 1_u64..200).prop_map(|(start, length)| Step::Retire { start, length });
        prop::collection::vec(prop_oneof![2 => append, 3 => retire], 1..80)
    }

    proptest! {
        /// The reference keeps, for each byte, the sector of the area that holds it, and for each sector,
        /// what was last written to it.
        #[test]
        fn a_live_entry_is_never_overwritten(steps in steps(), sectors in 1_u64..30) {
            const FIRST: u64 = 1000;
            let mut cache = MediaCache::new(FIRST, sectors);
            let mut held: Vec<Option<u64>> = vec![None; 1000];
            for step in steps {
                match step {
                    Step::Retire { start, length } => {
                        cache.retire(start, start + length);
                        (start..start + length).for_each(|byte| held[byte as usize] = None);
                    }
                    Step::Append { first, count, length, gap } => {
                        let spans: Vec<_> = (0..count)
                            .map(|index| (first + index * (length + gap)) * SECTOR)
                            .map(|start| (start, start + length * SECTOR))
                            .collect();
                        let Some(at) = cache.append(&spans, count * length) else {
                            let empty = held.iter().all(Option::is_none);
                            prop_assert!(!empty || count * length > sectors, "no room in an empty area");
                            continue;
                        };
                        let written = at..at + count * length;
                        prop_assert!(FIRST <= at && written.end <= FIRST + sectors, "outside the area");
                        let needed = held.iter().flatten().any(|sector| written.contains(sector));
                        prop_assert!(!needed, "live sectors are overwritten");
                        let bytes = spans.iter().flat_map(|&(start, end)| start..end);
                        bytes.enumerate().for_each(|(index, byte)| {
                            held[byte as usize] = Some(at + index as u64 / SECTOR);
                        });
                    }
                }
            }
        }
    }
}
