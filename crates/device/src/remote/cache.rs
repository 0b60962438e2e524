//! The blocks of an object that were fetched, all of which are kept, and which to fetch next. A read fetches all that
//! it misses in one request; one that continues fetched blocks fetches twice as many, so that reading in order takes
//! few requests, and reading here and there few bytes.

use std::collections::HashMap;
use std::ops::Range;

/// The number of requests hardly depends on it (docs/decisions/remote-images.md).
pub(crate) const BLOCK: u64 = 8 << 10;

/// They are fetched first: a partition table and the header of every container are there.
pub(crate) const FIRST: u64 = 8;

const MAX_RUN: u64 = 64;

struct Block {
    bytes: Box<[u8]>,
    /// The blocks in the request that fetched it, if it was the last of them.
    run: u64,
}

pub(crate) struct Cache {
    size: u64,
    blocks: HashMap<u64, Block>,
}

impl Cache {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, blocks: HashMap::new() }
    }

    pub(crate) fn keep(&mut self, first: u64, bytes: &[u8]) {
        let size = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        let parts = bytes.chunks(size);
        let count = u64::try_from(parts.len()).unwrap_or(0);
        for (index, part) in (0..).zip(parts) {
            let run = if index + 1 == count { count } else { 0 };
            self.blocks.insert(first + index, Block { bytes: part.into(), run });
        }
    }

    /// `fetch` is asked for whole blocks; its error comes with the byte that was wanted.
    pub(crate) fn read<E>(
        &mut self,
        at: u64,
        buf: &mut [u8],
        fetch: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>, E>,
    ) -> Result<(), (u64, E)> {
        let end = at + u64::try_from(buf.len()).unwrap_or(u64::MAX);
        let mut rest = buf;
        let mut here = at;
        while !rest.is_empty() {
            if !self.blocks.contains_key(&(here / BLOCK)) {
                let range = self.run(here / BLOCK, (end - 1) / BLOCK);
                let bytes = fetch(range.clone()).map_err(|error| (here, error))?;
                self.keep(range.start / BLOCK, &bytes);
            }
            let Some(block) = self.blocks.get(&(here / BLOCK)) else { break };
            let from = usize::try_from(here % BLOCK).unwrap_or(usize::MAX);
            let have = block.bytes.get(from..).unwrap_or_default();
            let copied = have.len().min(rest.len());
            if copied == 0 {
                break;
            }
            let (part, later) = rest.split_at_mut(copied);
            part.copy_from_slice(&have[..copied]);
            rest = later;
            here += u64::try_from(copied).unwrap_or(0);
        }
        Ok(())
    }

    fn run(&self, first: u64, last: u64) -> Range<u64> {
        let is_missing = |block: &u64| !self.blocks.contains_key(block);
        // Fetching kept blocks again costs less than another request.
        let wanted = (first..=last).take(usize::try_from(MAX_RUN).unwrap_or(usize::MAX));
        let last = wanted.filter(is_missing).last().unwrap_or(first);
        let before = first.checked_sub(1).and_then(|before| self.blocks.get(&before));
        let ahead = before.map_or(0, |block| block.run * 2).min(MAX_RUN);
        let end = (last + 1..first.saturating_add(ahead)).take_while(is_missing).last().unwrap_or(last) + 1;
        first * BLOCK..(end * BLOCK).min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// A byte that tells where it is.
    fn byte(at: u64) -> u8 {
        let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
        u8::try_from(mixed).unwrap()
    }

    /// Reads of one cache, with the ranges that it fetched.
    struct Watched {
        cache: Cache,
        fetched: RefCell<Vec<Range<u64>>>,
    }

    impl Watched {
        fn new(size: u64) -> Self {
            Self { cache: Cache::new(size), fetched: RefCell::default() }
        }

        fn read(&mut self, at: u64, len: usize) -> Vec<u8> {
            let mut buf = vec![0; len];
            let mut fetch = |range: Range<u64>| {
                let bytes = range.clone().map(byte).collect();
                self.fetched.borrow_mut().push(range);
                Ok::<_, Infallible>(bytes)
            };
            self.cache.read(at, &mut buf, &mut fetch).unwrap();
            buf
        }
    }

    proptest! {
        // Each reads megabytes.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_read_is_what_is_there(
            size in 1_u64..6_000_000,
            reads in proptest::collection::vec((any::<u64>(), 0_usize..700_000), 1..24),
        ) {
            let mut watched = Watched::new(size);
            for (at, len) in reads {
                let at = at % size;
                let len = len.min(usize::try_from(size - at).unwrap());
                let read = watched.read(at, len);
                prop_assert!((at..).zip(&read).all(|(at, read)| byte(at) == *read));
            }
            for range in watched.fetched.borrow().iter() {
                prop_assert!(range.start.is_multiple_of(BLOCK) && range.start < range.end && range.end <= size);
                prop_assert!(range.end - range.start <= MAX_RUN * BLOCK);
                prop_assert!(range.end.is_multiple_of(BLOCK) || range.end == size);
            }
        }
    }

    #[test]
    fn reading_in_order_takes_few_requests_and_no_byte_twice() {
        let size = 3_000_000;
        let mut watched = Watched::new(size);
        for at in (0..size).step_by(1000) {
            watched.read(at, usize::try_from((size - at).min(1000)).unwrap());
        }
        let fetched = watched.fetched.borrow();
        assert_eq!(fetched.iter().map(|range| range.end - range.start).sum::<u64>(), size);
        assert!(fetched.len() < 13, "{fetched:?}");
    }

    #[test]
    fn a_read_that_misses_blocks_asks_once() {
        let mut watched = Watched::new(1 << 20);
        watched.read(3 * BLOCK + 5, 10);
        watched.read(100, usize::try_from(10 * BLOCK).unwrap());
        // Its end is past block 3, which was kept, and its eleventh block.
        assert_eq!(*watched.fetched.borrow(), [3 * BLOCK..4 * BLOCK, 0..11 * BLOCK]);
    }

    #[test]
    fn a_failure_names_the_byte_that_was_wanted() {
        let mut cache = Cache::new(1 << 20);
        cache.keep(0, &[7; 8192]);
        let failed = cache.read(BLOCK - 10, &mut [0; 100], &mut |_| Err("no"));
        assert_eq!(failed, Err((BLOCK, "no")));
    }
}
