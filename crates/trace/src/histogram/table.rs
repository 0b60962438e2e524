//! Counts by class, cheap to add to.
//!
//! An entry is one word, a class and its count, so that a volume's table stays small and a request costs one cache
//! line. A count that outgrows its bits is kept beside the table.

use std::collections::BTreeMap;

const KEY_BITS: u32 = 25;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;
const ONE: u64 = 1 << KEY_BITS;
const MAX_COUNT: u64 = u64::MAX >> KEY_BITS;
const FIRST: usize = 64;
/// 2^64 divided by the golden ratio, which spreads similar keys (Knuth, The Art of Computer Programming, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Counts by key, in a table with open addressing.
#[derive(Clone, Debug, Default)]
pub(super) struct CountTable {
    /// A key plus one in the low bits, and its count above them; zero where there is none, as in at least a quarter.
    /// Their number is a power of two, or zero.
    entries: Vec<u64>,
    used: usize,
    beside: BTreeMap<u32, u64>,
    #[cfg(test)]
    passed: u64,
}

pub(super) const KEYS: u32 = (1 << KEY_BITS) - 1;

impl CountTable {
    /// Returns what an entry for the key may hold, which brings it into the cache.
    #[inline]
    pub(super) fn touch(&self, key: u32) -> u64 {
        self.entries.get(self.place(key)).copied().unwrap_or(0)
    }

    /// Counts one request. `key` is below [`KEYS`].
    #[inline]
    pub(super) fn add(&mut self, key: u32) {
        let mask = self.entries.len().wrapping_sub(1);
        let mut place = self.place(key);
        while let Some(entry) = self.entries.get_mut(place) {
            if *entry & KEY_MASK == u64::from(key) + 1 && *entry < MAX_COUNT << KEY_BITS {
                *entry += ONE;
                return;
            }
            if *entry & KEY_MASK == u64::from(key) + 1 || *entry == 0 {
                break;
            }
            place = (place + 1) & mask;
        }
        self.add_many(key, 1);
    }

    #[inline(never)]
    pub(super) fn add_many(&mut self, key: u32, count: u64) {
        debug_assert!(key < KEYS);
        if count == 0 {
            return;
        }
        if self.used * 4 >= self.entries.len() * 3 {
            self.grow();
        }
        let tagged = u64::from(key) + 1;
        let mask = self.entries.len().saturating_sub(1);
        let mut place = self.place(key);
        while let Some(entry) = self.entries.get_mut(place) {
            if *entry == 0 {
                self.used += 1;
                *entry = tagged;
            }
            if *entry & KEY_MASK == tagged {
                let sum = (*entry >> KEY_BITS).saturating_add(count);
                let kept = sum.min(MAX_COUNT);
                *entry = kept << KEY_BITS | tagged;
                if sum > kept {
                    let more = self.beside.entry(key).or_default();
                    *more = more.saturating_add(sum - kept);
                }
                return;
            }
            place = (place + 1) & mask;
            #[cfg(test)]
            {
                self.passed += 1;
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        // The keys come in the order of their places: they would all crowd at the beginning of a smaller table.
        while self.entries.len() < other.entries.len() {
            self.grow();
        }
        for (key, count) in other.counts() {
            self.add_many(key, count);
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let used = self.entries.iter().filter(|entry| **entry != 0);
        used.filter_map(|entry| {
            let key = u32::try_from((entry & KEY_MASK) - 1).ok()?;
            let beside = if self.beside.is_empty() { 0 } else { self.beside.get(&key).copied().unwrap_or(0) };
            Some((key, (entry >> KEY_BITS).saturating_add(beside)))
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.used
    }

    #[inline]
    fn place(&self, key: u32) -> usize {
        // As many of the top bits as the table has.
        let bits = self.entries.len().trailing_zeros() & 63;
        let hash = u64::from(key).wrapping_mul(SPREAD);
        usize::try_from(hash.rotate_left(bits) & ((1 << bits) - 1)).unwrap_or(0)
    }

    #[cold]
    fn grow(&mut self) {
        let larger = (self.entries.len() * 2).max(FIRST);
        let before = std::mem::replace(&mut self.entries, vec![0; larger]);
        let mask = larger - 1;
        for entry in before.into_iter().filter(|entry| *entry != 0) {
            let key = u32::try_from((entry & KEY_MASK) - 1).unwrap_or(0);
            let mut place = self.place(key);
            while self.entries.get(place).is_some_and(|taken| *taken != 0) {
                place = (place + 1) & mask;
            }
            if let Some(free) = self.entries.get_mut(place) {
                *free = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_as_a_map_does() {
        let (mut table, mut map) = (CountTable::default(), BTreeMap::new());
        let mut random = straddle_units::io::SplitMix64::new(3);
        for _ in 0..200_000 {
            let key = u32::try_from(random.below(9000) * 2048 % u64::from(KEYS)).unwrap();
            if random.once_in(3) { table.add(key) } else { table.add_many(key, 2) }
        }
        let mut random = straddle_units::io::SplitMix64::new(3);
        for _ in 0..200_000 {
            let key = u32::try_from(random.below(9000) * 2048 % u64::from(KEYS)).unwrap();
            *map.entry(key).or_insert(0_u64) += if random.once_in(3) { 1 } else { 2 };
        }
        let mut counts: Vec<_> = table.counts().collect();
        counts.sort_unstable();
        assert_eq!(counts, map.into_iter().collect::<Vec<_>>());
        assert_eq!(table.len(), counts.len());
    }

    /// Tables of each size into ones of each other size, none of them with long searches.
    #[test]
    fn a_merge_passes_few_entries() {
        let made = |keys: u32, from: u32| {
            let mut table = CountTable::default();
            (0..keys).for_each(|index| table.add_many((from + index).wrapping_mul(40_503) % KEYS, 1));
            table
        };
        for (into, of) in [(0, 50_000), (10, 50_000), (1_000, 50_000), (50_000, 50_000), (50_000, 1_000)] {
            let (mut table, other) = (made(into, 0), made(of, 25_000));
            table.passed = 0;
            table.merge(&other);
            assert!(table.passed < 8 * u64::from(of), "{into} and {of}: {} passed", table.passed);
            assert_eq!(table.counts().map(|(_, count)| count).sum::<u64>(), u64::from(into + of));
        }
    }

    #[test]
    fn a_count_past_its_bits_is_kept_beside() {
        let mut table = CountTable::default();
        table.add_many(0, MAX_COUNT - 1);
        for _ in 0..5 {
            table.add(0);
        }
        table.add_many(KEYS - 1, u64::MAX);
        let mut counts: Vec<_> = table.counts().collect();
        counts.sort_unstable();
        assert_eq!(counts, [(0, MAX_COUNT + 4), (KEYS - 1, u64::MAX)]);
    }
}
