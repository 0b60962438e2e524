//! Contents in memory: pages of 4 KiB, of which only those exist that were written with other bytes than zeroes.
//!
//! A mapped file would take memory for what is only read, and a system call for each page that is freed; a file in
//! memory takes a system call for each request.

use std::collections::HashMap;
use std::ops::Range;

const PAGE: usize = 4096;
/// The pages of a table: 2 MiB of contents.
const PAGES: usize = 512;
const TABLE_BYTES: u64 = (PAGES * PAGE) as u64;

type Page = Box<[u8; PAGE]>;

/// A table of pages; absent ones are zeroes.
type Table = Box<[Option<Page>]>;

/// The contents of a drive, by the number of their table.
#[derive(Default)]
pub(crate) struct Pages {
    tables: HashMap<u64, Table>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pages").field("tables", &self.tables.len()).finish()
    }
}

/// A part of a span, within one page.
struct Part {
    table: u64,
    page: usize,
    /// The bytes of the page.
    within: Range<usize>,
    /// The bytes of the span.
    of_span: Range<usize>,
}

/// Divides a span at the bounds of pages.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        // Below 2 MiB, so it fits.
        let in_table = usize::try_from(at % TABLE_BYTES).ok()?;
        let start = in_table % PAGE;
        let taken = (length - done).min(PAGE - start);
        let of_span = done..done + taken;
        done += taken;
        (taken > 0).then(|| Part {
            table: at / TABLE_BYTES,
            page: in_table / PAGE,
            within: start..start + taken,
            of_span,
        })
    })
}

impl Pages {
    /// Fills `buffer` with the bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) {
        for part in parts(offset, buffer.len()) {
            let into = &mut buffer[part.of_span];
            match self.tables.get(&part.table).and_then(|table| table[part.page].as_ref()) {
                Some(page) => into.copy_from_slice(&page[part.within]),
                None => into.fill(0),
            }
        }
    }

    /// Writes `data` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for part in parts(offset, data.len()) {
            let table = self.tables.entry(part.table).or_insert_with(|| vec![None; PAGES].into());
            let page = table[part.page].get_or_insert_with(|| Box::new([0; PAGE]));
            page[part.within].copy_from_slice(&data[part.of_span]);
        }
    }

    /// Makes the span read as zeroes, and frees the pages that it covers.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let whole = offset.div_ceil(TABLE_BYTES)..end / TABLE_BYTES;
        if whole.start >= whole.end {
            self.clear(offset, end);
            return;
        }
        self.clear(offset, whole.start * TABLE_BYTES);
        self.clear(whole.end * TABLE_BYTES, end);
        if whole.end - whole.start > self.tables.len() as u64 {
            self.tables.retain(|table, _| !whole.contains(table));
        } else {
            for table in whole {
                self.tables.remove(&table);
            }
        }
    }

    /// Clears the bytes from `start` to `end`, which lie in at most two tables.
    fn clear(&mut self, start: u64, end: u64) {
        for part in parts(start, usize::try_from(end - start).unwrap_or_default()) {
            let Some(table) = self.tables.get_mut(&part.table) else { continue };
            let page = &mut table[part.page];
            if part.within.len() == PAGE {
                *page = None;
            } else if let Some(page) = page {
                page[part.within].fill(0);
            }
        }
    }

    /// Returns the number of pages that take memory.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.tables.values().flat_map(|table| table.iter()).flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 5 * TABLE_BYTES;

    /// An operation on the contents: where, how much, and the byte that is written; zero clears.
    fn operation() -> impl Strategy<Value = (u64, u64, u8)> {
        let near = prop_oneof![Just(0_u64), Just(PAGE as u64), Just(TABLE_BYTES), 0..SIZE];
        let length = prop_oneof![1..9_u64, 1..3 * PAGE as u64, 1..3 * TABLE_BYTES];
        (near, length, 0..4_u8).prop_map(|(at, length, byte)| {
            let at = at.min(SIZE - 1);
            (at, length.min(SIZE - at), byte)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pages_hold_what_an_array_holds(operations in prop::collection::vec(operation(), 1..20)) {
            let (mut pages, mut plain) = (Pages::default(), vec![0_u8; SIZE as usize]);
            for (at, length, byte) in operations {
                let span = at as usize..(at + length) as usize;
                plain[span.clone()].fill(byte);
                if byte == 0 { pages.zero(at, length) } else { pages.write(at, &plain[span.clone()]) }
                let around = span.start.saturating_sub(PAGE)..(span.end + PAGE).min(plain.len());
                let mut read = vec![9; around.len()];
                pages.read(around.start as u64, &mut read);
                prop_assert!(read == plain[around]);
            }
            let mut read = vec![9; plain.len()];
            pages.read(0, &mut read);
            prop_assert!(read == plain);
            // No page is missing, and one that is only zeroes may remain only where it was cleared in parts.
            prop_assert!(plain.chunks(PAGE).filter(|page| page.iter().any(|byte| *byte != 0)).count() <= pages.count());
        }
    }

    #[test]
    fn cleared_pages_take_no_memory_and_neither_do_reads() {
        let mut pages = Pages::default();
        pages.read(1 << 60, &mut [1; 10_000]);
        assert_eq!(pages.count(), 0);
        pages.write(1 << 60, &[1; 10_000]);
        assert_eq!(pages.count(), 3);
        pages.zero((1 << 60) + 1, 8191);
        assert_eq!(pages.count(), 2, "the page between");
        pages.zero(1 << 40, u64::MAX - (1 << 40));
        assert_eq!(pages.count(), 0);
        assert!(pages.tables.is_empty());
    }
}
